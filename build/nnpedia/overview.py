"""Overview: every value of the vocabulary on every family, a cell each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nnpedia import views
from nnpedia.entry import Entry, once

State = Literal["served", "loads", "blocks", "checkpoints", "absent", "unknown"]

#: What each state is called; `served` and the three below it count as served.
STATES: dict[State, str] = {
    "served": "served by every checkpoint, on every block, under every load that was probed",
    "loads": "served under some loads",
    "blocks": "served on some blocks",
    "checkpoints": "served by some variants of the family",
    "absent": "absent",
    "unknown": "not probed",
}
BRIEF: dict[State, str] = {
    "served": "served",
    "loads": "under some loads",
    "blocks": "on some blocks",
    "checkpoints": "on some variants",
    "absent": "absent",
    "unknown": "not probed",
}
_SERVED = ("served", "loads", "blocks", "checkpoints")


@dataclass(frozen=True)
class Cell:
    """One value on one family; `says` is the condition, the blocks or the reason."""

    family: str
    anchor: str  # of the value's row on the family's page; empty where there is none
    states: tuple[State, ...]  # several where a value has several conditions
    says: str

    @property
    def served(self) -> bool:
        return self.states[0] in _SERVED


@dataclass(frozen=True)
class Line:
    """One value, a cell for each family."""

    host: str
    name: str
    layout: str
    says: str
    cells: list[Cell]

    @property
    def anchor(self) -> str:
        return views.anchor(self.host, self.name)

    @property
    def served(self) -> int:
        return sum(cell.served for cell in self.cells)


@dataclass(frozen=True)
class Reason:
    """A condition or an absence in words, and the values and families whose cells it stands behind."""

    state: State
    says: str
    where: list[tuple[list[str], list[str]]]  # values, or a host where it is all of its values, and families

    @property
    def cells(self) -> int:
        return sum(len(values) * len(families) for values, families in self.where)


def _alike(families: dict[str, list[str]], whole: dict[str, list[str]]) -> list[tuple[list[str], list[str]]]:
    """The families by the values they share; a host's name for all of its values."""
    found: dict[tuple[str, ...], list[str]] = {}
    for family, values in families.items():
        hosts = [host for host, all_of in whole.items() if set(all_of) <= set(values)]
        rest = [value for value in values if value.partition(".")[0] not in hosts]
        found.setdefault((*(f"all of {host}" for host in hosts), *rest), []).append(family)
    return [(list(values), names) for values, names in found.items()]


@dataclass(frozen=True)
class Table:
    families: list[Entry]
    groups: list[tuple[str, str, list[Line]]]  # host, its path, its values

    @property
    def lines(self) -> list[Line]:
        return [line for _, _, lines in self.groups for line in lines]

    @property
    def counts(self) -> dict[State, int]:
        """How many cells are in each state; a cell with several conditions counts under the first."""
        found = Counter(cell.states[0] for line in self.lines for cell in line.cells)
        return {state: found[state] for state in STATES}

    @property
    def reasons(self) -> list[Reason]:
        """What stands behind the cells, each said once, the one behind most cells first."""
        found: dict[tuple[State, str], dict[str, list[str]]] = {}
        for line in self.lines:
            for cell in line.cells:
                if cell.says:
                    families = found.setdefault((cell.states[0], cell.says), {})
                    families.setdefault(cell.family, []).append(f"{line.host}.{line.name}")
        whole = {host: [f"{host}.{line.name}" for line in lines] for host, _, lines in self.groups}
        reasons = [Reason(state, says, _alike(families, whole)) for (state, says), families in found.items()]
        return sorted(reasons, key=lambda reason: -reason.cells)

    @property
    def served(self) -> list[int]:
        """Per family, how many values it serves."""
        return [sum(line.cells[index].served for line in self.lines) for index in range(len(self.families))]


def table(entries: Sequence[Entry]) -> Table:
    """The table over these families, values in the vocabulary's order."""
    columns = [cells(entry) for entry in entries]
    if not entries:
        return Table([], [])
    vocabulary = entries[0].family.vocabulary
    groups = [
        (
            host,
            vocabulary.hosts[host].path,
            [
                Line(host, name, spec.layout, spec.says, [column[host, name] for column in columns])
                for name, spec in values.items()
            ],
        )
        for host, values in vocabulary.values.items()
    ]
    return Table(list(entries), groups)


@once
def cells(entry: Entry) -> Mapping[tuple[str, str], Cell]:
    """One family's column: every value of the vocabulary."""
    rows = {(row.fact.host, row.fact.name): row for host in views.host_views(entry) for row in host.rows}
    said = views.facts_of(entry)
    found: dict[tuple[str, str], Cell] = {}
    for host, values in entry.family.vocabulary.values.items():
        for name in values:
            pair = host, name
            anchor = views.anchor(host, name)
            if pair in rows:
                states, says = judged(rows[pair])
                found[pair] = Cell(entry.name, anchor, states, says)
            elif pair in said:
                found[pair] = Cell(entry.name, anchor, ("absent",), said[pair][0][1].absent or "")
            else:
                reason = "no record speaks of it" if entry.built else "this family is not built yet"
                found[pair] = Cell(entry.name, "", ("unknown",), reason)
    return found


def judged(row: views.ValueRow) -> tuple[tuple[State, ...], str]:
    """The states of a value that the family has, and what stands behind them in words."""
    if not row.readings:
        return ("unknown",), "no weights ran, so no load was probed"
    found: list[tuple[State, str]] = []
    if row.never:
        return ("absent",), f"{row.condition}: {'; '.join(row.reasons)}"
    if row.varies:
        found.append(("loads", row.condition or ""))
    if row.layers:
        found.append(("blocks", "on " + "; ".join(f"{layers} of {name}" for name, layers in row.layers)))
    if row.lacking:
        found.append(("checkpoints", "; ".join(f"not on {form.where}: {form.fact.absent}" for form in row.lacking)))
    if not found:
        return ("served",), ""
    return tuple(state for state, _ in found), "; ".join(says for _, says in found)
