"""Coverage: every causal language model of transformers, complete, drafted, or why not; a table and its page.

The table is measured by `nnpedia draft --measure` and kept beside the vocabulary, a row on a line. Every row says what
it was measured with, so that a row older than what it depends on is told from one that is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnpedia.cache import PACKAGE, write_atomically
from nnpedia.dependence import modules
from nnpedia.draft.depending import digest, is_open, offered_now, read_now
from nnpedia.errors import SpecError, place
from nnpedia.family import Family, family_folders, load_family
from nnpedia.versions import installed

Row = dict[str, Any]

TABLE = "coverage.json"
STATES = ("complete", "drafted", "not yet", "left out")
SHARES = ("names", "values", "badges")
#: What a row depends on, and what is said of a row when that is another now.
INPUTS = {
    "versions": "other versions are installed",
    "drafting": "drafting has changed",
    "engine": "the checks have changed",
    "vocabulary": "the vocabulary has changed",
    "read": "families that it is of or took from have changed",
    "offered": "families offer other places and forms",
}
START = "nnpedia.draft.measure"


@dataclass
class Table:
    """What was measured; each row with its inputs and the day under `measured`.

    Attributes:
        scores: By hand-written family, its draft beside it.
        covers: By model type, what became of its draft.
    """

    scores: dict[str, Row] = field(default_factory=dict)
    covers: dict[str, Row] = field(default_factory=dict)

    def share(self, what: str) -> tuple[int, int]:
        """How many names, values or badges of the hand-written families are right, and of how many."""
        pairs = [score[what] for score in self.scores.values()]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

    def of_state(self, state: str, described: Iterable[str] = ()) -> list[str]:
        """The other model types in a state; one that is described since is no other type any more."""
        others = set(self.covers) - set(described)
        return sorted(name for name in others if self.covers[name]["state"] == state)

    def place(self, name: str, row: Row, described: Iterable[str]) -> None:
        """Put a row where it belongs: a family's among the scores, any other among the covers, and in one only."""
        here, there = (self.scores, self.covers) if name in described else (self.covers, self.scores)
        here[name] = row
        there.pop(name, None)


@dataclass(frozen=True)
class Inputs:
    """What measurements made now depend on.

    Attributes:
        whole: What every row depends on: the versions, and digests of the code and of the vocabulary.
        families: Those that are there, of which a row depends on some.
    """

    whole: Mapping[str, str]
    families: Mapping[str, Family]

    def of(self, name: str, row: Row) -> dict[str, str]:
        """What the row of a family or another model type depends on, as it is now."""
        own = [name] if name in self.families else []
        found = {**self.whole, "read": read_now(self.families, [*own, *row.get("read", [])])}
        return {**found, "offered": offered_now(self.families, own)} if is_open(row) else found


def inputs_of(families: Path, package: Path = PACKAGE) -> Inputs:
    """What a measurement made now depends on."""
    reached = modules(package, START)
    drafting = {name: path for name, path in reached.items() if name.startswith("nnpedia.draft")}
    words = [path for name in ("vocabulary.yml", "badges.yml") if (path := families / name).is_file()]
    whole = {
        "versions": ", ".join(f"{name} {installed(name)}" for name in ("transformers", "torch", "nnsight")),
        "drafting": _digest(drafting),
        "engine": _digest({name: path for name, path in reached.items() if name not in drafting}),
        "vocabulary": _digest({path.name: path for path in words}),
    }
    return Inputs(whole, {name: load_family(path) for name, path in family_folders(families).items()})


def _digest(files: Mapping[str, Path]) -> str:
    return digest(
        "".join(f"{name}\0{digest(path.read_text(encoding='utf-8'))}" for name, path in sorted(files.items()))
    )


def since(name: str, row: Row, inputs: Inputs) -> list[str]:
    """What a row depends on and is another now, as `INPUTS` calls it; nothing for a row that is up to date."""
    given, now = row.get("measured") or {}, inputs.of(name, row)
    return [what for what in INPUTS if what in now and given.get(what) != now[what]]


def write_table(table: Table, path: Path) -> None:
    """The table as JSON, a row on a line and sorted, so that the same measurement is the same bytes."""
    parts = []
    for kind, rows in (("scores", table.scores), ("covers", table.covers)):
        lines = [
            f"  {json.dumps(name)}: {json.dumps(row, ensure_ascii=False, sort_keys=True)}"
            for name, row in sorted(rows.items())
        ]
        parts.append(f' "{kind}": {{\n' + ",\n".join(lines) + "\n }" if lines else f' "{kind}": {{}}')
    write_atomically(path, "{\n" + ",\n".join(parts) + "\n}\n")


def read_table(folder: Path) -> Table | None:
    """The table of a families folder; `None` where none was measured. Raises `SpecError` for one that does not read."""
    path = folder / TABLE
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Table(dict(data["scores"]), dict(data["covers"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"the coverage table does not read ({error}): measure it anew with `nnpedia draft --measure`",
            where=place(path),
        ) from None


def summary(table: Table) -> str:
    """One line on what a table holds."""
    counts = ", ".join(f"{len(table.of_state(state))} {state}" for state in STATES)
    shares = ", ".join(f"{what} {right}/{total}" for what in SHARES for right, total in [table.share(what)])
    wrong = sum(len(score["wrong"]) for score in table.scores.values())
    return f"{len(table.scores)} families: {shares}, {wrong} wrong; {len(table.covers)} other model types: {counts}"
