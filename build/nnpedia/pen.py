"""The pen a diagram is drawn with: chips, wires, panels and operators, put down where it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nnpedia import operators
from nnpedia.record import BlockKind, HostFact, LawFact, Reference, Run, ValueFact
from nnpedia.shapes import (
    CHIP,
    GAP,
    HEIGHT,
    LEFT,
    RIGHT,
    ROW,
    Cell,
    Chip,
    Diagram,
    Label,
    Operator,
    Panel,
    between,
    middle_of,
)

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
    "states": ("state_input",),
    "state_output": ("states",),
}


def module_classes(printout: str) -> Mapping[str, str]:
    """The class of every module the printout names; the first wins where a name repeats."""
    classes: dict[str, str] = {}
    for name, native in re.findall(r"^\s*\((\w+)\): (?:\d+ x )?(\w+)", printout, re.MULTILINE):
        classes.setdefault(name, native)
    return classes


class Pen:
    """A place to draw at, `y`, moving down; what is drawn is in `out`."""

    def __init__(
        self, fact: Reference | Run, kind: BlockKind, label: str, varies: set[str], laws: Sequence[LawFact]
    ) -> None:
        self.kind, self.varies, self.laws = kind, varies, laws
        self.named = {value.name for value in fact.values}
        self.unset = {row.key for row in fact.config if row.value is None}
        self.sizes, self.classes = fact.sizes, module_classes(fact.printout)
        self.values: dict[str, dict[str, ValueFact]] = {}
        for value in fact.values:
            if value.absent is None and (value.layers is None or set(value.layers) & set(kind.layers)):
                self.values.setdefault(value.host, {})[value.name] = value
        self.out, self.y = Diagram(kinds=[label], hosts=[host.name for host in kind.hosts]), 8.0

    def chip(self, value: ValueFact, x: float, y: float, width: float = CHIP) -> Chip:
        chip = Chip(value, x, y, width, f"{value.host}.{value.name}" in self.varies)
        self.out.chips.append(chip)
        return chip

    def label(self, text: str, chip: Chip) -> None:
        self.out.labels.append(Label(text, chip.right + 8, chip.middle + 3.5))

    def line(self, path: str) -> None:
        self.out.lines.append(path)

    def operate(self, target: ValueFact, x: float, y: float, labelled: bool = False) -> None:
        """The operations on the way to a value, side by side."""
        here = {name for host in self.values.values() for name in host}
        steps = operators.steps(self.laws, target.host, target.name, here, self.named, self.unset)
        for index, step in enumerate(steps):
            self.out.operators.append(Operator(step, target, x + index * 15, y, step.by if labelled else ""))

    def part(self, host: HostFact, title: str, values: list[ValueFact], cells: Sequence[Cell] = ()) -> None:
        top, x = self.y, LEFT + 8
        self.y += 24
        placed = [(x + 12 + dx, self.y + dy, side, chosen) for dx, dy, side, chosen in cells]
        if placed:
            self.y = placed[-1][1] + placed[-1][2] + 10
        width = (RIGHT - LEFT - 4 - 3 * GAP) / 2 - 3
        self.grid(values, x + 9, width)
        child, width = self.child(title), RIGHT - LEFT - 4
        native, height = self.classes.get(child, ""), self.y - top
        self.out.panels.append(Panel(title, native, x, top, width, height, "nn-part", host, child, placed))
        self.y += 8

    def child(self, title: str) -> str:
        """The child of a sublayer that a part is, by the part's title; empty where the printout names none."""
        single = title.replace(" ", "_")
        return next((name for name in (single, f"{single}s") if name in self.classes), "")

    def grid(self, values: list[ValueFact], x: float, width: float = CHIP) -> None:
        """Chips in two columns, the familiar ones in their own places, and the lines between."""
        taken: dict[str, Chip] = {}
        wires: dict[str, str] = {}
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
                    path = between(taken[source], taken[name])
                    self.line(path)
                    wires.setdefault(name, path)
        for name, chip in taken.items():
            self.operate(chip.value, *(middle_of(wires[name]) if name in wires else (chip.x, chip.middle)))
        self.y += (last + 1) * ROW - (0 if last < 0 else ROW - HEIGHT - 8)
