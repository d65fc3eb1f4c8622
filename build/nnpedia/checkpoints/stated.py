"""Stated keys: what a spec says of configs, each key one that the model type's config class knows, and takes.

A config class takes any key and keeps it, so that a misspelt one leaves the class's default where the spec says
otherwise. A class knows a key that is a field of it, or another name of one; one that it takes while a config is made;
and one that its modeling code asks the config for, such as a head's size that most checkpoints leave out. A value is
refused where the class says of the field what it may be: a word for a length, a list for a number.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnpedia.errors import SpecError, nearest
from nnpedia.yamlfile import Key, read

if TYPE_CHECKING:
    from nnpedia.family import Family

ROTARY = ("rope_parameters", "rope_scaling")
BY_BLOCK = "per_layer_config"
MAKING = ("__init__", "__post_init__", "convert_rope_params_to_dict")  # what takes keys that are no field


@dataclass(frozen=True)
class Stated:
    """Keys of a config: for the run or checkpoint of which name, and at which path of `family.yml`."""

    name: str
    path: tuple[Key, ...]
    keys: Mapping[str, Any]

    def concerns(self, name: str) -> bool:
        """Whether the run or checkpoint of this name has these keys: a variant's forge has the family's too."""
        from nnpedia.checkpoints import FORGE

        return self.name == name or (self.name == FORGE and name.startswith(f"{FORGE}-"))


@dataclass(frozen=True)
class Wrong:
    """A key that is not known, and the nearest that is, or one whose value is refused, and why; at which path."""

    path: tuple[Key, ...]
    near: str = ""
    refused: str = ""

    def below(self, key: Key) -> Wrong:
        return replace(self, path=(key, *self.path))

    def of(self, model_type: str) -> str:
        """A sentence, of the config of this model type."""
        name = ".".join(map(str, self.path))
        if self.refused:
            return f"the config of {model_type} does not take this {name!r}: {self.refused}"
        return f"the config of {model_type} has no {name!r}{self.near or '; leave it out'}"


def refuse_wrong(family: Family, name: str) -> None:
    """Raise `SpecError` at the first key, stated for this run or checkpoint, that the config class does not take."""
    for error in wrong_keys(family, name):
        raise error


def wrong_keys(family: Family, name: str | None = None) -> list[SpecError]:
    """An error, with file and line, for each key that the config class does not take; with `name`, of that run's.

    Nothing is said where the installed transformers has no such model type: making its config says that.
    """
    from transformers import CONFIG_MAPPING

    if family.family not in CONFIG_MAPPING:
        return []
    config_class = CONFIG_MAPPING[family.family]
    source = read(family.folder / "family.yml")
    found: dict[str, SpecError] = {}  # by place, as an alias says one line of several checkpoints
    for stated in _stated(family):
        if name is None or stated.concerns(name):
            for wrong in _wrong(config_class, stated.keys):
                where = source.where(*stated.path, *wrong.path)
                found.setdefault(where, SpecError(wrong.of(family.family), where=where))
    return list(found.values())


def knows(config_class: type, key: str) -> bool:
    """Whether a key means something to a config class or to the code of its models."""
    return key in fields_of(config_class) or _asked_for(config_class, key)


def _stated(family: Family) -> Iterator[Stated]:
    from nnpedia.checkpoints import FORGE

    for index, checkpoint in enumerate(family.checkpoints):
        yield Stated(checkpoint.id, ("checkpoints", index, "config"), checkpoint.config)
    for index, package in enumerate(family.packages):
        yield Stated(package.name, ("packages", index, "config"), package.config)
    yield Stated(FORGE, ("forge",), family.forge)
    for name, variant in family.variants.items():
        for section in ("when", "forge"):
            yield Stated(f"{FORGE}-{name}", ("variants", name, section), getattr(variant, section))


def _wrong(config_class: Any, keys: Mapping[Any, Any]) -> Iterator[Wrong]:
    """Every key that is not known, or whose value is refused, down to nested ones."""
    for key, value in keys.items():
        if not knows(config_class, str(key)):
            yield Wrong((key,), nearest(str(key), fields_of(config_class)))
        elif refused := _refusal(config_class, str(key), value):
            yield Wrong((key,), refused=refused)
        elif isinstance(value, Mapping):
            yield from (wrong.below(key) for wrong in _wrong_below(config_class, str(key), value))


def _refusal(config_class: Any, key: str, value: Any) -> str:
    """Why a config class refuses a value when it is made; empty where it does not, or says nothing of the field."""
    field = config_class.attribute_map.get(key, key)
    try:
        for check in getattr(config_class, "__validators__", {}).get(field, ()):
            check(value)
    except (TypeError, ValueError) as error:
        return str(error).partition(" Errors: ")[0]  # of each type that it could be, the same once more
    return ""


def _wrong_below(config_class: Any, key: str, keys: Mapping[Any, Any]) -> Iterator[Wrong]:
    """The same of the keys below one of a config: a mapping that is nobody's config may have any."""
    part = getattr(config_class, "sub_configs", {}).get(key)
    if key in ROTARY:
        yield from _wrong_rotary(config_class, keys)
    elif key == BY_BLOCK:
        for block, own in keys.items():
            found = _wrong(config_class, own) if isinstance(own, Mapping) else ()
            yield from (wrong.below(block) for wrong in found)
    elif isinstance(part, type) and hasattr(part, "attribute_map"):
        yield from _wrong(part, keys)


def _wrong_rotary(config_class: type, keys: Mapping[Any, Any]) -> Iterator[Wrong]:
    """The same of rotary parameters, which a class may have for each kind of block."""
    from transformers.configuration_utils import ALLOWED_LAYER_TYPES
    from transformers.modeling_rope_utils import RopeParameters

    for key, value in keys.items():
        kinds = isinstance(value, Mapping)
        if (kinds or key not in RopeParameters.__annotations__) and not _asked_for(config_class, str(key)):
            yield Wrong((key,), nearest(str(key), ALLOWED_LAYER_TYPES if kinds else RopeParameters.__annotations__))
        elif isinstance(value, Mapping):
            yield from (wrong.below(key) for wrong in _wrong_rotary(config_class, value))


@lru_cache(maxsize=128)
def fields_of(config_class: Any) -> frozenset[str]:
    """The fields of a config class, their other names, and the keys that its methods take beside them."""
    known = {*inspect.signature(config_class).parameters, *config_class.attribute_map}
    methods = [vars(base)[name] for base in config_class.__mro__ for name in MAKING if name in vars(base)]
    for method in methods:
        code = getattr(inspect.unwrap(method), "__code__", None)  # of `object`, none
        known |= {word for word in getattr(code, "co_consts", ()) if isinstance(word, str) and word.isidentifier()}
    return frozenset(known - {"args", "kwargs"})


@lru_cache(maxsize=4096)
def _asked_for(config_class: type, key: str) -> bool:
    """Whether the code beside a config class, its models', asks a config for the key or names it in quotes."""
    name = re.escape(key)
    return re.search(rf"""config\.{name}\b|["']{name}["']""", code_beside(config_class)) is not None


@lru_cache(maxsize=128)
def code_beside(config_class: Any) -> str:
    """The code beside a config class, and beside those whose models are of the same class: some bring no models."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as MODELS

    own = MODELS.get(config_class.model_type)
    alike = [CONFIG_MAPPING[name] for name, model in MODELS.items() if own and model == own and name in CONFIG_MAPPING]
    folders = {Path(inspect.getfile(each)).parent for each in (config_class, *alike)}
    return "\n".join(
        file.read_text(encoding="utf-8") for folder in sorted(folders) for file in sorted(folder.glob("*.py"))
    )
