"""Terms: the names that a spec's formulas and addresses use, told without a model.

A name is known where it is a value's, or else where each part of it is a host, is in a `names:` table or is what the
code of the family's models calls a module or an attribute, a setting after `config`, an argument in brackets. What one
block has and another has not, only a forward can tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch

from nnpedia import address, formula
from nnpedia.checkpoints.modelcode import Code, code_of
from nnpedia.entryspec import ValueSpec
from nnpedia.errors import SpecError, nearest
from nnpedia.family import Family, load_family
from nnpedia.functions import FUNCTIONS, WEIGHTED
from nnpedia.infostring import LOAD_OPTIONS
from nnpedia.laws import BLOCKS, applies
from nnpedia.yamlfile import Document, Key, read

CALLED = frozenset({*FUNCTIONS, "project_on_vocab"})
ROOTS = frozenset({"config", "module", "hidden", *BLOCKS})
#: What a class of torch's own may have: `weight`, `eps`, `in_features`.
OF_TORCH = frozenset(
    name
    for each in vars(torch.nn).values()
    if isinstance(each, type) and issubclass(each, torch.nn.Module)
    for name in ("weight", "bias", *getattr(each, "__constants__", ()), *vars(each).get("__annotations__", ()))
)


@dataclass(frozen=True)
class Terms:
    """What may be named in a family: its values and hosts, the functions, and what its models' code names."""

    family: Family
    known: frozenset[str]
    code: Code

    def stranger(self, name: str, host: str | None = None) -> str | None:
        """What is wrong with a dotted name, in a law of the host where one is given; `None` where nothing is."""
        head, _, rest = name.partition(".")
        if host is not None and head in BLOCKS and rest:
            wrong = self.stranger(rest, "layers")
            return wrong and wrong.replace(repr(rest), repr(name), 1)
        values = [] if host is None else self.values(host)
        if name in values:
            return None
        parts = name.split(".")
        for index, part in enumerate(parts):
            setting = parts[index - 1] == "config" if index else False
            if not (
                part.isdigit() or (self.code.sets(part) if setting else self._names(part, "config" in parts[:index]))
            ):
                among = self.code.settings if setting else [*self.known, *self.code.attributes]
                near = nearest(name, values and [*values, *CALLED]) or nearest(part, sorted(among))
                return f"there is no {name!r}{near or '; no value is called so, and nothing in the code of its models'}"
        return None

    def _names(self, part: str, below: bool) -> bool:
        """Whether a part of a name is one: of a module, or of what stands `below` a setting."""
        return part in self.known or part in self.code.attributes or (below and part in self.code.keys)

    def unmade(self, native: str) -> str | None:
        """What is wrong with the path of a module in the models' own names; `None` where nothing is."""
        for part in native.split("."):
            if not (part.isdigit() or part in self.code.attributes):
                return f"there is no {native!r}{nearest(part, sorted(self.code.attributes))}"
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
    """An error, with file and line, for each name in the spec of a family that nothing has.

    What does not apply, such as a law whose values the family does not have, is not looked at.
    """
    source = read(family.folder / "family.yml")
    code = code_of(family.family)
    if code is None:
        from transformers import CONFIG_MAPPING

        said = f"transformers has no model type {family.family!r}{nearest(family.family, CONFIG_MAPPING)}"
        return [SpecError(said, where=source.where("family"))]
    if family.architecture not in code.classes:
        near = nearest(family.architecture, sorted(code.classes))
        said = f"transformers has no class {family.architecture!r} of {family.family}{near}"
        return [SpecError(said, where=source.where("architecture"))]
    found: dict[tuple[str, str], SpecError] = {}
    for each in (family, *(load_family(family.folder, (name,)) for name in family.variants)):
        terms = _terms(each, code)
        under: tuple[Key, ...] = ("variants", *each.variant) if each.variant else ()
        for error in chain(_of_laws(each, terms), _of_values(each, terms), _of_tables(terms, source, under)):
            found.setdefault((error.where or "", error.message), error)
    return [*found.values(), *_of_checkpoints(family, source)]


def _terms(family: Family, code: Code) -> Terms:
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
            if value.absent is None:
                for said in _of_value(value, terms):
                    yield SpecError(f"{name}: {said}", where=family.where("values", host, name))


def _of_value(value: ValueSpec, terms: Terms) -> Iterator[str]:
    """What is wrong with the children, arguments, classes, settings, reader and loads that a value names."""
    from nnpedia.readers import READERS

    for text in (value.at, value.of, value.decode and value.decode.at, *value.by_class.values()):
        if text:
            place = address.parse(text)
            yield from (said for word in place.children if (said := terms.stranger(word)))
            keys = (key for key in place.index if isinstance(key, str))
            for key in keys:
                if key not in terms.code.keys:
                    yield f"nothing is called {key!r} there{nearest(key, sorted(terms.code.keys))}"
    if value.scale:
        yield from (said for word in formula.parse(value.scale).names() if (said := terms.stranger(word)))
    for reader in (value.reader, value.decode and value.decode.reader):
        if reader and reader not in READERS:
            yield f"there is no reader {reader!r}{nearest(reader, READERS)}"
    for word, known, what in (
        *((word, LOAD_OPTIONS, "option of a load") for word in value.needs),
        *((word, terms.code.classes, "class") for word in value.by_class),
    ):
        if word not in known:
            yield f"there is no {what} {word!r}{nearest(word, sorted(known))}"


def _of_tables(terms: Terms, source: Document, under: tuple[Key, ...]) -> Iterator[SpecError]:
    """The modules that `names` gives names to, and the formulas of `sizes` and `lender`, of a spec or a variant alone.

    What it extends may name what it does not have.
    """
    own = source.data
    for key in under:
        own = own[key]
    for host, table in own.get("names", {}).items():
        for native in table:
            if said := terms.unmade(native):
                yield SpecError(f"names: {said}", where=source.where(*under, "names", host, native))
    sizes = {("sizes", axis, at): text for axis, texts in own.get("sizes", {}).items() for at, text in enumerate(texts)}
    lender = {("lender", key): text for key, text in (own.get("lender") or {}).items()}
    for keys, text in (sizes | lender).items():
        for word in formula.parse(str(text)).names():
            if said := terms.stranger(word):
                yield SpecError(f"{keys[0]}: {said}", where=source.where(*under, *keys))


def _of_checkpoints(family: Family, source: Document) -> Iterator[SpecError]:
    """A checkpoint that is listed twice, and a variant told from one that is not listed."""
    ids = [checkpoint.id for checkpoint in family.checkpoints]
    for index, name in enumerate(ids):
        if name in ids[:index]:
            yield SpecError(f"the checkpoint {name} is listed twice", where=source.where("checkpoints", index))
    for name, variant in family.variants.items():
        if variant.checkpoint is not None and variant.checkpoint not in ids:
            said = f"{name}: there is no checkpoint {variant.checkpoint!r}{nearest(variant.checkpoint, ids)}"
            yield SpecError(said, where=source.where("variants", name, "checkpoint"))


def _unweighted(law: formula.Formula) -> Iterator[str]:
    """Functions whose outcome is nothing until it is multiplied by weights, and is not."""
    sides = [side for side in (law.left, law.right) if side is not None]
    nodes = [node for side in sides for node in ast.walk(side)]
    weighted = [node.left for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)]
    for node in nodes:
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if called in WEIGHTED and node not in weighted:
            yield WEIGHTED[called]
