"""Terms: the names that a spec's formulas and addresses use, told without a model.

A name is known where it is a value's, or else where each part of it is a host, is in a `names:` table or stands in the
code of the family's models: what no line of that code says is no child, attribute or setting of theirs. What one block
has and another has not, only a forward can tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from nnpedia import address, formula
from nnpedia.checkpoints.stated import words_of
from nnpedia.entryspec import ValueSpec
from nnpedia.errors import SpecError, nearest
from nnpedia.family import Family, load_family
from nnpedia.functions import FUNCTIONS, WEIGHTED
from nnpedia.laws import BLOCKS, applies
from nnpedia.yamlfile import read

CALLED = frozenset({*FUNCTIONS, "project_on_vocab"})
ROOTS = frozenset({"config", "module", "hidden", *BLOCKS})
OF_TORCH = frozenset({"weight", "bias"})  # that a class of torch's own may have


@dataclass(frozen=True)
class Terms:
    """What may be named in a family: its values and hosts, the functions, and the words of its models' code."""

    family: Family
    known: frozenset[str]
    code: frozenset[str]

    def stranger(self, name: str, host: str | None = None) -> str | None:
        """What is wrong with a dotted name, in a law of the host where one is given; `None` where nothing is."""
        head, _, rest = name.partition(".")
        if host is not None and head in BLOCKS and rest:
            wrong = self.stranger(rest, "layers")
            return wrong and wrong.replace(repr(rest), repr(name), 1)
        values = [] if host is None else self.values(host)
        if name in values:
            return None
        for part in name.split("."):
            if part not in self.known and part not in self.code and not part.isdigit():
                near = nearest(name, values and [*values, *CALLED]) or nearest(part, [*self.known, *self.code])
                return f"there is no {name!r}{near or '; no value is called so, and nothing in the code of its models'}"
        return None

    def values(self, host: str) -> list[str]:
        """The names of values as a law of this host writes them; a law of blocks is of any host on them."""
        tables = self.family.values
        own = [*tables[host], *(tables["layers"] if host != "model" else ())]
        return [*own, *(f"{each}.{name}" for each, table in tables.items() for name in table)]


def refuse_strangers(family: Family) -> None:
    """Raise `SpecError` at the first name, in the spec of this family, that nothing has."""
    for error in unknown_terms(family):
        raise error


def unknown_terms(family: Family) -> list[SpecError]:
    """An error, with file and line, for each name in the formulas and addresses of a family that nothing has.

    What does not apply, such as a law whose values the family does not have, is not looked at; and nothing is where the
    installed transformers has no such model type.
    """
    code = words_of(family.family)
    if code is None:
        return []
    found: dict[tuple[str, str], SpecError] = {}
    if family.architecture not in code:
        said = (
            f"transformers has no class {family.architecture!r} of {family.family}{nearest(family.architecture, code)}"
        )
        return [SpecError(said, where=read(family.folder / "family.yml").where("architecture"))]
    for each in (family, *(load_family(family.folder, (name,)) for name in family.variants)):
        for error in chain(_of_laws(each, _terms(each, code)), _of_values(each, _terms(each, code))):
            found.setdefault((error.where or "", error.message), error)
    return list(found.values())


def _terms(family: Family, code: frozenset[str]) -> Terms:
    names = {name for table in family.names.values() for pair in table.items() for name in pair}
    parts = {part for name in names for part in name.split(".")}
    return Terms(family, frozenset({*parts, *family.vocabulary.hosts, *CALLED, *ROOTS, *OF_TORCH}), code)


def _of_laws(family: Family, terms: Terms) -> Iterator[SpecError]:
    for host, table in family.laws.items():
        for name, law in table.items():
            if applies(law, host, family.values, family.lender is not None):
                parsed = formula.parse(law.formula, law=True)
                wrong = [said for word in parsed.names() if (said := terms.stranger(word, host))]
                wrong += _unweighted(parsed)
                for said in wrong:
                    yield SpecError(f"law {name}: {said}", where=family.where("laws", host, name))
    for word in formula.parse(family.readout).names():
        if said := terms.stranger(word, "model"):
            yield SpecError(f"readout: {said}", where=family.where("readout", "", ""))


def _of_values(family: Family, terms: Terms) -> Iterator[SpecError]:
    for host, table in family.values.items():
        for name, value in table.items():
            for word in _words(value):
                if said := terms.stranger(word):
                    yield SpecError(f"{name}: {said}", where=family.where("values", host, name))


def _words(value: ValueSpec) -> Iterator[str]:
    """The children, settings and attributes that a value's place and scale name."""
    if value.absent is not None:
        return
    for text in (value.at, value.of, value.decode and value.decode.at, *value.by_class.values()):
        if text:
            place = address.parse(text)
            yield from place.children
            yield from (key for key in place.index if isinstance(key, str))
    if value.scale:
        yield from formula.parse(value.scale).names()


def _unweighted(law: formula.Formula) -> Iterator[str]:
    """Functions whose outcome is nothing until it is multiplied by weights, and is not."""
    sides = [side for side in (law.left, law.right) if side is not None]
    nodes = [node for side in sides for node in ast.walk(side)]
    weighted = [node.left for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)]
    for node in nodes:
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if called in WEIGHTED and node not in weighted:
            yield WEIGHTED[called]
