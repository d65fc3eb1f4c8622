"""What a check of another library found, as data: a file for each family under `rosetta/` of the cache folder.

A file holds the key of what it was made from. One whose key is another's by now is treated as missing: what it
says was not checked on what there is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from nnpedia.cache import write_atomically
from nnpedia.family import Family
from nnpedia.keys import key_of
from nnpedia.record import Fact
from nnpedia.records import Unit
from nnpedia.translation import FILE

Verdict = Literal["equal", "arranged", "differs", "missing"]


class Row(Fact):
    """One place of the library, compared with one value on every block that has it.

    `equal`: the same numbers. `arranged`: the same numbers after `how`. `differs`: other numbers. `missing`: the
    library's model of this family has no such place, or it does not fire.
    """

    host: str
    name: str
    place: str  # as in translation.yml, with the library's word for a block's number
    verdict: Verdict
    how: str = ""  # what makes theirs of ours, in words
    error: float | None = None  # in epsilons of the dtype times the largest magnitude compared
    share: float | None = None  # the largest difference over the largest magnitude, where they differ
    blocks: int = 0  # how many blocks it was compared on; 0 for a value of the root


class Checked(Fact):
    """A family's values against a library's places, on the family's forged checkpoint."""

    key: str
    library: str
    version: str
    family: str
    checkpoint: str
    reason: str | None = None  # why nothing could be compared
    rows: list[Row] = []


def key(family: Family, library: str, version: str) -> str:
    """The digest of all that a check depends on: the family and all that its records do, the names, and this code."""
    digest = hashlib.sha256()
    names = (family.folder.parent / FILE).read_text(encoding="utf-8")
    unit = Unit(family.family, "reference", 0, "rosetta")
    for part in (key_of(unit, family), names, _code(), library, version):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


@cache
def _code() -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return "".join(path.read_text(encoding="utf-8") for path in sources if path.name in ("check.py", "compare.py"))


def path_of(home: Path, library: str, family: str) -> Path:
    return home / "rosetta" / library / f"{family}.json"


def store(home: Path, checked: Checked) -> None:
    write_atomically(path_of(home, checked.library, checked.family), checked.model_dump_json(indent=1) + "\n")


def load(home: Path, family: Family, library: str) -> Checked | None:
    """What was found of a family; None where nothing was, or what was is of other inputs."""
    try:
        found = Checked.model_validate_json(path_of(home, library, family.family).read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.key == key(family, library, found.version) else None


def files(home: Path) -> Iterator[Path]:
    yield from sorted((home / "rosetta").glob("*/*.json"))
