"""Diagrams: what a block looks like, worked out from its record, for the SVG template to draw.

The residual stream is a rail down the left. Each sublayer branches off it, passes its norm (where
the family norms the input), its interior, its output norm (where the family norms that), and is
added back. Which of these exist is read from the values' addresses and layouts; the class of a
module from the printout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nnpedia import kinds, operators
from nnpedia.address import parse
from nnpedia.operators import Step
from nnpedia.pen import Pen
from nnpedia.record import HostFact, LawFact, Reference, Run, ValueFact
from nnpedia.shapes import (
    BYPASS,
    CHIP,
    GAP,
    HEIGHT,
    LEFT,
    RAIL,
    RIGHT,
    ROW,
    Add,
    Diagram,
    Operator,
    Panel,
    between,
    expert_cells,
    middle_of,
)

# Which values of the block lead into a sublayer, by the sublayer's host: normed first, then the argument of its call.
ENTERING = {
    "self_attn": ("attention_norm_output", "attention_input"),
    "linear_attn": ("attention_norm_output", "attention_input"),
    "mlp": ("mlp_norm_output", "mlp_input"),
}

ROUTER = ("router_logits", "expert_weights", "expert_indices")
# What a recurrent mixer writes to its state with, and the values of the state itself.
WRITING = ("keys", "values", "betas", "decays")
STATE = ("state_input", "states", "state_output")
SUMS = ("layer_mid", "layer_after_mlp", "layer_output")
NEURONS = ("mlp_activation", "mlp_neurons")
EXPERTS = (*NEURONS, "expert_outputs")


def diagrams(fact: Reference | Run, varies: Iterable[str] = (), laws: Sequence[LawFact] = ()) -> list[Diagram]:
    """One diagram per block kind, kinds that look the same drawn once.

    `varies` are the values (`host.name`) that some loads have and others have not; `laws` those measured on a model of
    the same layout, which tell of multipliers and gates.
    """
    drawn: list[Diagram] = []
    for diagram, label in each_kind(fact, varies, laws):
        twin = next((other for other in drawn if other.look == diagram.look), None)
        if twin is None:
            drawn.append(diagram)
        else:
            twin.kinds.append(label)
    return drawn


def each_kind(
    fact: Reference | Run, varies: Iterable[str] = (), laws: Sequence[LawFact] = ()
) -> Iterator[tuple[Diagram, str]]:
    """Every block kind's diagram and label, in the record's order."""
    for kind, label in zip(fact.kinds, kinds.labels(fact.kinds), strict=True):
        yield _Drawing(fact, kind, label, set(varies), laws).draw(), label


def module_of(value: ValueFact) -> str:
    """The child whose call gives the value, or the empty string when it is not a child's."""
    if not value.address:
        return ""
    return ".".join(parse(value.address).children)


class _Drawing(Pen):
    """A pen moving down one block; `draw` is the only way in."""

    def draw(self) -> Diagram:
        block = self.values.get("layers", {})
        start = self.y
        self.on_rail(block.get("layer_input"))
        hosts = [host for host in self.kind.hosts if host.name != "layers"]
        mlp = [host for host in hosts if host.name == "mlp"]
        # without a middle of the stream, all sublayers read the block's input side by side
        groups = [[host for host in hosts if host not in mlp], mlp] if "layer_mid" in block else [hosts]
        for number, group in enumerate(groups):
            if number:
                self.on_rail(block.get("layer_mid"))
            source = self.y - 6
            for index, host in enumerate(group):
                self.sublayer(host, self.fork(host.name, source) if index else None)
        self.per_layer(block)
        self.on_rail(block.get("layer_output"))
        self.out.height = self.y + 14
        self.out.lines.insert(0, f"M{RAIL} {start} V{self.out.height - 3}")
        return self.out

    def fork(self, host: str, source: float) -> str:
        """Where a sublayer beside the first one leaves: the norm that feeds both, or the rail where it has its own."""
        shared = next((chip for chip in self.out.chips if chip.value.name == "attention_norm_output"), None)
        if shared is None or "mlp_norm_output" in [value.name for value in self.leading(host)]:
            return f"M{RAIL} {source}"
        return f"M{shared.x + 8} {shared.y + HEIGHT} V{shared.y + HEIGHT + 5}"

    def leading(self, host: str) -> list[ValueFact]:
        """The block's values on the way into a sublayer that are not drawn yet."""
        block, drawn = self.values.get("layers", {}), {chip.value.name for chip in self.out.chips}
        return [block[name] for name in ENTERING.get(host, ()) if name in block and name not in drawn]

    def on_rail(self, value: ValueFact | None) -> None:
        if value is None:
            return
        chip = self.chip(value, LEFT, self.y)
        self.line(f"M{RAIL} {chip.middle} H{LEFT}")
        self.out.taps.append(chip.middle)
        norm = operators.norming(self.laws, value.name)
        if norm:  # the stream itself is normed after the add
            self.label(self.classes.get(norm, norm), chip)
        here = {name for host in self.values.values() for name in host}
        step = operators.scaling(self.laws, value.name, here, self.named)
        if step is not None:  # as a whole, after the last add
            self.out.operators.append(Operator(step, value, RAIL, chip.y - 10, step.by))
        self.y += ROW + 2

    def per_layer(self, block: Mapping[str, ValueFact]) -> None:
        """The block's own embedding of the token: the stream gates it, and what comes of it is added."""
        if "per_layer_output" not in block:
            return
        self.on_rail(block.get("layer_after_mlp"))
        entry, x = self.y + HEIGHT / 2, LEFT + 12 + CHIP / 2
        self.out.taps.append(entry)
        self.line(f"M{RAIL} {entry} H{x} V{self.y + ROW - 10}")
        if "per_layer_input" in block:
            chip = self.chip(block["per_layer_input"], LEFT + 12 + CHIP + GAP, self.y)
            self.line(f"M{chip.x} {entry} H{x}")
        self.y += ROW
        self.join(block["per_layer_output"])

    def entering(self, value: ValueFact) -> None:
        """A value on the way into a sublayer, with the class of the module that gives it, if one does."""
        chip = self.chip(value, LEFT + 12, self.y)
        address = parse(value.address) if value.address else None
        if address is not None and address.access == "output" and address.children:
            self.label(self.classes.get(address.children[-1], address.children[-1]), chip)
        self.y += ROW

    def sublayer(self, host: HostFact, bypass: str | None) -> None:
        values = dict(self.values.get(host.name, {}))
        output = values.pop(output_name(values), None)
        leading = self.leading(host.name)
        entry, inside = self.y + HEIGHT / 2, LEFT + 12 if leading else LEFT
        if bypass is not None:
            self.line(f"{bypass} H{BYPASS} V{entry} H{inside}")
        else:
            self.line(f"M{RAIL} {entry} H{inside}")
            self.out.taps.append(entry)
        for value in leading:
            self.entering(value)
            self.line(f"M{LEFT + 12 + CHIP / 2} {self.y - ROW + HEIGHT} V{self.y}")
        top = self.y
        self.y += 26
        self.interior(host, values)
        virtual = kinds.is_virtual(host, self.kind.hosts)
        native, style = ("", " nn-virtual") if virtual else (host.native_class, "")
        width, height = RIGHT - LEFT + 12, self.y - top
        self.out.panels.append(Panel(host.name, native, LEFT, top, width, height, f"nn-host-{host.name}{style}", host))
        self.y += 10
        self.join(output)

    def join(self, output: ValueFact | None) -> None:
        """The sublayer's output, through its own norm where it has one, added to the rail."""
        top, before, x = self.y - 10, len(self.out.operators), LEFT + 12 + CHIP / 2
        if output is not None:
            self.operate(output, x, self.y + 3, labelled=True)
            self.y += 16 if len(self.out.operators) > before else 0
        middle = self.y + HEIGHT / 2
        self.line(f"M{x} {top} V{self.y}")
        if output is not None:
            chip = self.chip(output, LEFT + 12, self.y)
            address = parse(output.address) if output.address else None
            around = address is not None and (address.anchor == "^" or output.host == "layers")
            if address is not None and around and address.children:
                self.label(self.classes.get(address.children[-1], ""), chip)
        self.line(f"M{LEFT + 12} {middle} H{RAIL + 8}")
        law = operators.adding(self.laws, output.name, SUMS) if output is not None else None
        self.out.adds.append(Add(middle, output.name if output else "", law.name if law else ""))
        self.y += ROW + 4

    def interior(self, host: HostFact, values: dict[str, ValueFact]) -> None:
        if "router_logits" in values:
            self.mixture(host, values)
        elif any(name in values for name in STATE):
            self.recurrence(host, values)
        else:
            self.grid(list(values.values()), LEFT + 12)
        self.y += 4

    def mixture(self, host: HostFact, values: dict[str, ValueFact]) -> None:
        self.part(host, "router", [values.pop(name) for name in ROUTER if name in values])
        cells = expert_cells(self.sizes.get("num_experts", 0), self.sizes.get("top_k", 0))
        shared = [values.pop(name) for name in list(values) if name.startswith("shared_expert")]
        if shared:  # neurons of an MLP beside the experts
            apart = [name for name in NEURONS if name in values and "experts" not in f"{values[name].address}"]
            shared = [values.pop(name) for name in apart] + shared
        self.part(host, "experts", [values.pop(name) for name in EXPERTS if name in values], cells)
        if shared:
            self.part(host, "shared expert", shared)
            gate = "shared_expert_gate"
            if gate in self.classes:  # a law would have to compute the shared expert anew: the printout tells of it
                chip = self.out.chips[-1]
                self.out.operators.append(Operator(Step("×", gate), chip.value, chip.x, chip.middle))
        self.grid(list(values.values()), LEFT + 12)

    def recurrence(self, host: HostFact, values: dict[str, ValueFact]) -> None:
        """What is written, the state that hands itself on from token to token, and what is read from it."""
        x, column = LEFT + 12, LEFT + 12 + CHIP + GAP
        gutter = column - GAP / 2
        for index, name in enumerate(name for name in WRITING if name in values):
            chip = self.chip(values.pop(name), (x, column)[index % 2], self.y + index // 2 * ROW)
            self.line(f"M{chip.right if chip.x == x else chip.x} {chip.middle} H{gutter} V{chip.middle}")
        start = self.y + HEIGHT / 2
        self.y = max((chip.y for chip in self.out.chips), default=self.y) + ROW + 4
        self.line(f"M{gutter} {start} V{self.y}")
        top = self.y
        self.y += 24
        self.grid([values.pop(name) for name in STATE if name in values], x + 9, (2 * CHIP - 38) / 2)
        width, height = 2 * CHIP + GAP - 20, self.y - top
        self.out.panels.append(Panel("state", "from token to token", x, top, width, height, "nn-part nn-state", host))
        line, head = f"M{x + width} {top + height - 12} h13 V{top + 12} h-9", f"M{x + width} {top + 12} l7 -4 v8 Z"
        self.out.loops.append((line, head))
        self.y += 12
        queries, outputs = values.pop("queries", None), values.pop("head_outputs", None)
        if outputs is not None:
            read = self.chip(outputs, column, self.y)
            self.line(f"M{read.x + 20} {self.y - 12} V{read.y}")
            if queries is not None:
                self.line(between(self.chip(queries, x, self.y), read))
            self.operate(outputs, column - GAP / 2, read.middle)
            self.y += ROW
            if "premix" in values:
                premix = self.chip(values.pop("premix"), column, self.y)
                self.line(between(read, premix))
                self.operate(premix.value, *middle_of(between(read, premix)))
                self.y += ROW
        rest = [value for value in [queries if outputs is None else None, *values.values()] if value is not None]
        self.grid(rest, x)


def output_name(values: Mapping[str, ValueFact]) -> str:
    """What a sublayer adds to the stream: the output named for it, else its last residual."""
    for name in ("attention_output", "linear_attn_output", "mlp_output"):
        if name in values:
            return name
    return next((name for name in reversed(list(values)) if values[name].layout == "Residual"), "")
