"""Translation: what other libraries call the standard values, read from `families/translation.yml`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import model_validator

from nnpedia.errors import SpecError, nearest
from nnpedia.vocabulary import Spec, load_vocabulary
from nnpedia.yamlfile import read, validate

FILE = "translation.yml"


class Place(Spec):
    """A place of another library that holds a standard value; `says` is what sets the two apart.

    `scatter` names the value whose entries say into which columns of theirs ours go.
    """

    name: str
    says: str | None = None
    scatter: str | None = None


class Library(Spec):
    """A library: the release its names were read from, and by host and value its places, the first to reach for.

    `layer` is what stands for a block's number in a name.
    """

    title: str
    version: str
    layer: str
    values: dict[str, dict[str, list[Place]]]

    def places(self, host: str, name: str) -> list[Place]:
        """The places of a value; none where the library has none."""
        return self.values.get(host, {}).get(name, [])

    @model_validator(mode="after")
    def _named_once(self) -> Library:
        for host, values in self.values.items():
            for name, places in values.items():
                names = [place.name for place in places]
                if not names or len(names) != len(set(names)):
                    raise ValueError(f"{host}.{name} needs one place or more, each of them once")
        return self


class Translation(Spec):
    transformer_lens: Library
    nnterp: Library

    @property
    def libraries(self) -> dict[str, Library]:
        return {name: getattr(self, name) for name in type(self).model_fields}


@lru_cache(maxsize=8)
def load_translation(folder: Path) -> Translation:
    """The translation of a families folder; raises `SpecError` with file and line for a value that is not there."""
    document = read(folder / FILE)
    translation = validate(Translation, document)
    known = load_vocabulary(folder).values
    for library, spec in translation.libraries.items():
        for host, values in spec.values.items():
            for name in values:
                if name not in known.get(host, {}):
                    hint = nearest(name, known.get(host, {}))
                    where = document.where(library, "values", host, name)
                    raise SpecError(f"the vocabulary has no value {host}.{name}{hint}", where=where)
    return translation
