"""Shapes: the boxes and lines a diagram is made of, and their measures in SVG units."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nnpedia.operators import Step
from nnpedia.record import HostFact, ValueFact

WIDTH, RAIL, BYPASS = 420, 24, 42
LEFT, GAP, CHIP, HEIGHT, ROW = 60, 12, 163, 28, 40
RIGHT = LEFT + 2 * CHIP + GAP + 12

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
    owner: HostFact  # the host it is, or is part of
    child: str = ""  # the child of that host which it is, where it is one
    cells: list[Cell] = field(default_factory=list)

    def squares(self, chosen: bool) -> str:
        """The experts' squares, the chosen or the others, as one SVG path."""
        return "".join(f"M{x:g} {y:g}h{side:g}v{side:g}h-{side:g}z" for x, y, side, on in self.cells if on is chosen)


@dataclass(frozen=True)
class Label:
    text: str
    x: float
    y: float


@dataclass(frozen=True)
class Operator:
    """An operation on the way to a value: a small circle with its sign."""

    step: Step
    target: ValueFact
    x: float
    y: float
    label: str = ""


@dataclass(frozen=True)
class Add:
    """Where a sublayer's output joins the stream; the law that says so, where one was measured."""

    y: float
    output: str = ""
    law: str = ""


Part = Chip | Panel | Operator | Add


@dataclass
class Diagram:
    """One block kind. `lines` are SVG paths; an add is where a sublayer joins the rail.

    A loop, as a line and its head, is where a state hands itself on.
    """

    kinds: list[str]
    hosts: list[str] = field(default_factory=list)
    height: float = 0
    chips: list[Chip] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    taps: list[float] = field(default_factory=list)
    loops: list[tuple[str, str]] = field(default_factory=list)

    @property
    def look(self) -> tuple[object, ...]:
        """What two diagrams have to share for one to stand for both: all but sizes, such as the number of experts."""
        values = [(chip.value.host, chip.value.name, chip.varies) for chip in self.chips]
        panels = [(panel.title, panel.native, panel.style) for panel in self.panels]
        operators = [(each.step.glyph, each.step.by, each.target.name) for each in self.operators]
        labels = [label.text for label in self.labels]
        return values, panels, operators, labels, len(self.taps), len(self.lines)

    @property
    def parts(self) -> list[Part]:
        """What says something of itself, from the top down and from left to right."""
        each: list[Part] = [*self.chips, *self.panels, *self.operators, *self.adds]
        # a panel's title, and the middle of all else
        lowered = {Chip: HEIGHT / 2, Panel: 13.0}
        return sorted(each, key=lambda part: (part.y + lowered.get(type(part), 0.0), getattr(part, "x", 0.0)))

    @property
    def picture(self) -> tuple[object, ...]:
        """What two diagrams have to share to be one and the same picture: the look, and the experts."""
        return self.look, [panel.cells for panel in self.panels]

    @property
    def names(self) -> list[tuple[str, str]]:
        """The values it shows, as host and name."""
        return [(chip.value.host, chip.value.name) for chip in self.chips]


def between(source: Chip, target: Chip) -> str:
    """A path from one chip to another: straight along a row or column, else around the corner."""
    if source.y == target.y:
        return f"M{source.right} {source.middle} H{target.x}"
    if source.x == target.x:
        return f"M{source.x + 20} {source.y + HEIGHT} V{target.y}"
    turn = target.y - (ROW - HEIGHT) / 2
    return f"M{source.x + 20} {source.y + HEIGHT} V{turn} H{target.right - 16} V{target.y}"


def middle_of(path: str) -> tuple[float, float]:
    """The middle of a path's last stretch, for what stands on it."""
    x = y = before_x = before_y = 0.0
    for letter, numbers in re.findall(r"([MVH])([\d. ]+)", path):
        before_x, before_y = x, y
        if letter == "M":
            x, y = (float(number) for number in numbers.split())
        elif letter == "H":
            x = float(numbers)
        else:
            y = float(numbers)
    return (before_x + x) / 2, (before_y + y) / 2


def expert_cells(experts: int, chosen: int) -> list[Cell]:
    """A square per expert, as many filled as a token is sent to; at most 256 are drawn."""
    side, per_row = (13.0, 16) if experts <= 32 else (8.0, 28)
    step = side + (6 if experts <= 32 else 3)
    spread = {round((index + 0.5) * experts / chosen - 0.5) for index in range(chosen)}
    return [
        ((index % per_row) * step, (index // per_row) * step, side, index in spread)
        for index in range(min(experts, 256))
    ]
