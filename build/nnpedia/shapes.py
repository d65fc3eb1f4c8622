"""Shapes: the boxes and lines a diagram is made of, and their measures in SVG units."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnpedia.record import ValueFact

WIDTH, RAIL, BYPASS = 420, 24, 42
LEFT, GAP, CHIP, HEIGHT, ROW = 60, 10, 164, 24, 34
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
    cells: list[Cell] = field(default_factory=list)


@dataclass(frozen=True)
class Label:
    text: str
    x: float
    y: float


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
    adds: list[float] = field(default_factory=list)
    taps: list[float] = field(default_factory=list)
    loops: list[tuple[str, str]] = field(default_factory=list)

    @property
    def look(self) -> tuple[object, ...]:
        """What two diagrams have to share for one to stand for both: all but sizes, such as the number of experts."""
        values = [(chip.value.host, chip.value.name, chip.varies) for chip in self.chips]
        panels = [(panel.title, panel.native, panel.style) for panel in self.panels]
        return values, panels, [label.text for label in self.labels], len(self.taps), len(self.lines)


def between(source: Chip, target: Chip) -> str:
    """A path from one chip to another: straight along a row or column, else around the corner."""
    if source.y == target.y:
        return f"M{source.right} {source.middle} H{target.x}"
    if source.x == target.x:
        return f"M{source.x + 20} {source.y + HEIGHT} V{target.y}"
    turn = target.y - (ROW - HEIGHT) / 2
    return f"M{source.x + 20} {source.y + HEIGHT} V{turn} H{target.right - 16} V{target.y}"


def expert_cells(experts: int, chosen: int) -> list[Cell]:
    """A square per expert, as many filled as a token is sent to; at most 256 are drawn."""
    side, per_row = (13.0, 16) if experts <= 32 else (8.0, 28)
    step = side + (6 if experts <= 32 else 3)
    spread = {round((index + 0.5) * experts / chosen - 0.5) for index in range(chosen)}
    return [
        ((index % per_row) * step, (index // per_row) * step, side, index in spread)
        for index in range(min(experts, 256))
    ]
