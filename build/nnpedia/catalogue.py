"""Catalogue: the named Python readers, told from their source, and the specs that use them.

The readers are read with `ast`: rendering a page imports no torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnpedia.entry import Entry
from nnpedia.family import Family, load_family


@dataclass(frozen=True)
class Use:
    """A value that families read through a reader; `steps` where only a decode step does."""

    host: str
    name: str
    steps: bool
    families: list[str]


@dataclass(frozen=True)
class ReaderEntry:
    """A reader as the page lists it."""

    name: str  # "recurrence.state_input"
    says: str  # the first sentence of its docstring
    assignable: bool
    uses: list[Use] = field(default_factory=list)

    @property
    def families(self) -> list[str]:
        return list(dict.fromkeys(family for use in self.uses for family in use.families))

    @property
    def anchor(self) -> str:
        return f"reader-{self.name.replace('.', '-')}"


def catalogue(entries: Sequence[Entry], folder: Path = Path(__file__).parent) -> list[ReaderEntry]:
    """Every reader of the package, in the order of its source, with the families and values using it."""
    used: dict[str, dict[tuple[str, str, bool], list[str]]] = {}
    for entry in entries:
        for name, host, value, steps in uses_of(entry.family):
            families = used.setdefault(name, {}).setdefault((host, value, steps), [])
            if entry.name not in families:
                families.append(entry.name)
    return [
        ReaderEntry(name, says, assignable, [Use(*where, families) for where, families in used.get(name, {}).items()])
        for path in sorted(folder.glob("*.py"))
        for name, says, assignable in readers_in(path.read_text(encoding="utf-8"))
    ]


def uses_of(family: Family) -> Iterator[tuple[str, str, str, bool]]:
    """Reader, host, value, and whether in decode steps only, of a family and its variants."""
    for each in [family, *(load_family(family.folder, (name,)) for name in family.variants)]:
        for host, table in each.values.items():
            for name, spec in table.items():
                if spec.reader is not None:
                    yield spec.reader, host, name, False
                if spec.decode is not None and spec.decode.reader is not None:
                    yield spec.decode.reader, host, name, True


def readers_in(source: str) -> Iterator[tuple[str, str, bool]]:
    """Name, first sentence and whether it has an inverse, of every function that `@reader(…)` registers."""
    for node in ast.walk(ast.parse(source)) if "@reader(" in source else ():  # few files have one
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "reader":
                name = ast.literal_eval(mark.args[0])
                assignable = len(mark.args) > 1 or any(keyword.arg == "write" for keyword in mark.keywords)
                yield name, first_sentence(ast.get_docstring(node) or ""), assignable


def first_sentence(text: str) -> str:
    """The text up to the first full stop that ends a sentence, in one line."""
    flat = " ".join(text.split())
    return re.split(r"(?<=[^.])\.(?=\s+[A-Z`]|$)", flat, maxsplit=1)[0]
