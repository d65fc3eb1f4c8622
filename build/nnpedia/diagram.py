"""Diagrams: what a block looks like, worked out from its record, for the SVG template to draw.

The residual stream is a rail down the left. Each sublayer branches off it, passes its norm (where
the family norms the input), its interior, its output norm (where the family norms that), and is
added back. Which of these exist is read from the values' addresses and layouts; the class of a
module from the printout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nnpedia.address import parse
from nnpedia.record import BlockKind, Reference, Run, ValueFact

WIDTH, RAIL, BYPASS = 420, 24, 42
LEFT, GAP, CHIP, HEIGHT, ROW = 60, 10, 164, 24, 34
RIGHT = LEFT + 2 * CHIP + GAP + 12

# Which values of the block lead into a sublayer, by the sublayer's host: normed first, then the argument of its call.
ENTERING = {
    "self_attn": ("attention_norm_output", "attention_input"),
    "linear_attn": ("attention_norm_output", "attention_input"),
    "mlp": ("mlp_norm_output", "mlp_input"),
}

# Where the familiar values stand inside a sublayer (row, column), and what each is made of.
CELLS = {
    "attention_queries": (0, 0),
    "attention_keys": (0, 1),
    "attention_scores": (1, 0),
    "attention_values": (1, 1),
    "attention_probabilities": (2, 0),
    "attention_head_outputs": (3, 0),
    "attention_premix": (3, 1),
}
MADE_OF = {
    "attention_scores": ("attention_queries", "attention_keys"),
    "attention_probabilities": ("attention_scores",),
    "attention_head_outputs": ("attention_probabilities", "attention_values"),
    "attention_premix": ("attention_head_outputs",),
    "mlp_neurons": ("mlp_activation",),
    "premix": ("head_outputs",),
}
ROUTER = ("router_logits", "expert_weights", "expert_indices")
EXPERTS = ("mlp_activation", "mlp_neurons", "expert_outputs")

# An expert's square: x, y, side, and whether it is filled.
Cell = tuple[float, float, float, bool]


@dataclass(frozen=True)
class Chip:
    """A value: a box with its name, which links to its row."""

    value: ValueFact
    x: float
    y: float
    width: float = CHIP
    varies: bool = False

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def middle(self) -> float:
        return self.y + HEIGHT / 2


@dataclass(frozen=True)
class Panel:
    """A box around part of a sublayer, with the module's name and class."""

    title: str
    native: str
    x: float
    y: float
    width: float
    height: float
    style: str
    cells: list[Cell] = field(default_factory=list)


@dataclass(frozen=True)
class Label:
    text: str
    x: float
    y: float


@dataclass
class Diagram:
    """One block kind. `lines` are SVG paths; an add is where a sublayer joins the rail."""

    kinds: list[str]
    height: float = 0
    chips: list[Chip] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    adds: list[float] = field(default_factory=list)
    taps: list[float] = field(default_factory=list)


def diagrams(fact: Reference | Run, varies: Iterable[str] = ()) -> list[Diagram]:
    """One diagram per block kind, kinds that look the same drawn once.

    `varies` are the values (`host.name`) that some loads have and others have not.
    """
    drawn: list[Diagram] = []
    for kind in fact.kinds:
        diagram = _Drawing(fact, kind, set(varies)).draw()
        twin = next((other for other in drawn if _looks(other) == _looks(diagram)), None)
        if twin is None:
            drawn.append(diagram)
        else:
            twin.kinds.append(kind.name)
    return drawn


def _looks(diagram: Diagram) -> tuple[object, ...]:
    return diagram.height, diagram.chips, diagram.panels, diagram.lines, diagram.labels


def module_classes(printout: str) -> Mapping[str, str]:
    """The class of every module the printout names; the first wins where a name repeats."""
    classes: dict[str, str] = {}
    for name, native in re.findall(r"^\s*\((\w+)\): (?:\d+ x )?(\w+)", printout, re.MULTILINE):
        classes.setdefault(name, native)
    return classes


def module_of(value: ValueFact) -> str:
    """The child whose call gives the value, or the empty string when it is not a child's."""
    if not value.address:
        return ""
    return ".".join(parse(value.address).children)


class _Drawing:
    """A pen moving down one block; `draw` is the only way in."""

    def __init__(self, fact: Reference | Run, kind: BlockKind, varies: set[str]) -> None:
        self.kind, self.varies = kind, varies
        self.sizes, self.classes = fact.sizes, module_classes(fact.printout)
        self.values: dict[str, dict[str, ValueFact]] = {}
        for value in fact.values:
            if value.absent is None and (value.layers is None or set(value.layers) & set(kind.layers)):
                self.values.setdefault(value.host, {})[value.name] = value
        self.out, self.y = Diagram(kinds=[kind.name]), 8.0

    def draw(self) -> Diagram:
        block = self.values.get("layers", {})
        start = self.y
        self.on_rail(block.get("layer_input"))
        source = self.y - 6
        hosts = [host for host in self.kind.hosts if host.name != "layers"]
        parallel = "layer_mid" not in block and len(hosts) > 1
        for index, host in enumerate(hosts):
            self.sublayer(host.name, host.native_class, self.fork(host.name, source) if parallel and index else None)
            if index + 1 < len(hosts) and not parallel:
                self.on_rail(block.get("layer_mid"))
        self.on_rail(block.get("layer_output"))
        self.out.height = self.y + 14
        self.out.lines.insert(0, f"M{RAIL} {start} V{self.out.height - 3}")
        return self.out

    def fork(self, host: str, source: float) -> str:
        """Where a sublayer beside the first one leaves: the norm that feeds both, or the rail where it has its own."""
        own = next(iter(ENTERING.get(host, ())), "")
        shared = next((chip for chip in self.out.chips if chip.value.name == "attention_norm_output"), None)
        if shared is None or own in self.values.get("layers", {}):
            return f"M{RAIL} {source}"
        return f"M{shared.x + 8} {shared.y + HEIGHT} V{shared.y + HEIGHT + 5}"

    def on_rail(self, value: ValueFact | None) -> None:
        if value is None:
            return
        chip = self.chip(value, LEFT, self.y)
        self.line(f"M{RAIL} {chip.middle} H{LEFT}")
        self.out.taps.append(chip.middle)
        self.y += ROW + 2

    def chip(self, value: ValueFact, x: float, y: float, width: float = CHIP) -> Chip:
        chip = Chip(value, x, y, width, f"{value.host}.{value.name}" in self.varies)
        self.out.chips.append(chip)
        return chip

    def line(self, path: str) -> None:
        self.out.lines.append(path)

    def entering(self, value: ValueFact) -> None:
        """A value on the way into a sublayer, with the class of the module that gives it, if one does."""
        chip = self.chip(value, LEFT + 12, self.y)
        address = parse(value.address) if value.address else None
        if address is not None and address.access == "output" and address.children:
            native = self.classes.get(address.children[-1], address.children[-1])
            self.out.labels.append(Label(native, chip.right + 8, chip.middle + 3.5))
        self.y += ROW

    def sublayer(self, host: str, native: str, bypass: str | None) -> None:
        values = dict(self.values.get(host, {}))
        output = values.pop(output_name(values), None)
        entry = self.y + HEIGHT / 2
        if bypass is not None:
            self.line(f"{bypass} H{BYPASS} V{entry} H{LEFT + 12}")
        else:
            self.line(f"M{RAIL} {entry} H{LEFT + 12}")
            self.out.taps.append(entry)
        block = self.values.get("layers", {})
        for value in [block[name] for name in ENTERING.get(host, ()) if name in block]:
            self.entering(value)
            self.line(f"M{LEFT + 12 + CHIP / 2} {self.y - ROW + HEIGHT} V{self.y}")
        top = self.y
        self.y += 26
        self.interior(host, values)
        self.out.panels.append(Panel(host, native, LEFT, top, RIGHT - LEFT + 12, self.y - top, f"nn-host-{host}"))
        self.y += 10
        self.join(output)

    def join(self, output: ValueFact | None) -> None:
        """The sublayer's output, through its own norm where it has one, added to the rail."""
        middle = self.y + HEIGHT / 2
        self.line(f"M{LEFT + 12 + CHIP / 2} {self.y - 10} V{self.y}")
        if output is not None:
            chip = self.chip(output, LEFT + 12, self.y)
            address = parse(output.address) if output.address else None
            if address is not None and address.anchor == "^" and address.children:
                native = self.classes.get(address.children[-1], "")
                self.out.labels.append(Label(native, chip.right + 8, chip.middle + 3.5))
        self.line(f"M{LEFT + 12} {middle} H{RAIL + 8}")
        self.out.adds.append(middle)
        self.y += ROW + 4

    def interior(self, host: str, values: dict[str, ValueFact]) -> None:
        if "router_logits" in values:
            self.mixture(values)
        else:
            self.grid(list(values.values()), LEFT + 12)
        self.y += 4

    def mixture(self, values: dict[str, ValueFact]) -> None:
        self.part("router", [values.pop(name) for name in ROUTER if name in values])
        cells = expert_cells(self.sizes.get("num_experts", 0), self.sizes.get("top_k", 0))
        self.part("experts", [values.pop(name) for name in EXPERTS if name in values], cells)
        shared = [values.pop(name) for name in list(values) if name.startswith("shared_expert")]
        if shared:
            self.part("shared expert", shared)
        self.grid(list(values.values()), LEFT + 12)

    def part(self, title: str, values: list[ValueFact], cells: Sequence[Cell] = ()) -> None:
        top, x = self.y, LEFT + 8
        self.y += 24
        placed = [(x + 12 + dx, self.y + dy, side, chosen) for dx, dy, side, chosen in cells]
        if placed:
            self.y = placed[-1][1] + placed[-1][2] + 10
        width = (RIGHT - LEFT - 4 - 3 * GAP) / 2 - 3
        self.grid(values, x + 9, width)
        native = self.classes.get(title, "")
        self.out.panels.append(Panel(title, native, x, top, RIGHT - LEFT - 4, self.y - top, "nn-part", placed))
        self.y += 8

    def grid(self, values: list[ValueFact], x: float, width: float = CHIP) -> None:
        """Chips in two columns, the familiar ones in their own places, and the lines between."""
        taken: dict[str, Chip] = {}
        rows = [CELLS[value.name][0] for value in values if value.name in CELLS]
        free = iter([(row, column) for row in range(max(rows, default=-1) + 1, 40) for column in (0, 1)])
        used = {row: position for position, row in enumerate(sorted(set(rows)))}
        last = -1
        for value in values:
            row, column = CELLS.get(value.name) or next(free)
            row = used.get(row, row if not rows else row - max(rows) - 1 + len(used))
            taken[value.name] = self.chip(value, x + column * (width + GAP), self.y + row * ROW, width)
            last = max(last, row)
        for name, sources in MADE_OF.items():
            for source in sources:
                if name in taken and source in taken:
                    self.line(between(taken[source], taken[name]))
        self.y += (last + 1) * ROW - (0 if last < 0 else ROW - HEIGHT - 8)


def between(source: Chip, target: Chip) -> str:
    """A path from one chip to another: straight along a row or column, else around the corner."""
    if source.y == target.y:
        return f"M{source.right} {source.middle} H{target.x}"
    if source.x == target.x:
        return f"M{source.x + 20} {source.y + HEIGHT} V{target.y}"
    turn = target.y - (ROW - HEIGHT) / 2
    return f"M{source.x + 20} {source.y + HEIGHT} V{turn} H{target.right - 16} V{target.y}"


def output_name(values: Mapping[str, ValueFact]) -> str:
    """What a sublayer adds to the stream: the output named for it, else its last residual."""
    for name in ("attention_output", "linear_attn_output", "mlp_output"):
        if name in values:
            return name
    return next((name for name in reversed(list(values)) if values[name].layout == "Residual"), "")


def expert_cells(experts: int, chosen: int) -> list[Cell]:
    """A square per expert, as many filled as a token is sent to; at most 256 are drawn."""
    side, per_row = (13.0, 16) if experts <= 32 else (8.0, 28)
    step = side + (6 if experts <= 32 else 3)
    spread = {round((index + 0.5) * experts / chosen - 0.5) for index in range(chosen)}
    return [
        ((index % per_row) * step, (index // per_row) * step, side, index in spread)
        for index in range(min(experts, 256))
    ]
