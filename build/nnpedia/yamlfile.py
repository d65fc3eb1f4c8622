"""YAML files as data whose every key remembers its line, and pydantic errors that name it."""

from __future__ import annotations

import types
import typing
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from nnpedia.errors import SpecError, nearest, place

Key = str | int
M = TypeVar("M", bound=BaseModel)

_MOST = 50_000


@dataclass(frozen=True)
class Document:
    """A parsed YAML file: plain data, and the line each key path stands on."""

    path: Path
    data: Any
    lines: dict[tuple[Key, ...], int] = field(repr=False)

    def where(self, *keys: Key) -> str:
        """`file:line` of a key path, or of its nearest ancestor that has a line."""
        for size in range(len(keys), -1, -1):
            if (line := self.lines.get(keys[:size])) is not None:
                return place(self.path, line)
        return place(self.path)


class _Loader(yaml.SafeLoader):
    """`SafeLoader` that keeps lines and refuses a key given twice."""

    def __init__(self, text: str, path: Path) -> None:
        super().__init__(text)
        self.path = path
        self.lines: dict[tuple[Key, ...], int] = {}
        self.built = 0

    def build(self, node: yaml.Node, keys: tuple[Key, ...] = ()) -> Any:
        self.built += 1
        if self.built > _MOST:  # aliases of aliases grow without end
            raise SpecError(f"a file holds at most {_MOST} entries", where=place(self.path, node.start_mark.line + 1))
        self.lines.setdefault(keys, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            self._refuse_twice(node)
            self.flatten_mapping(node)  # a merged mapping (<<) comes first, and the own keys win
            data: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = self.construct_object(key_node, deep=True)
                self.lines[(*keys, key)] = key_node.start_mark.line + 1
                data[key] = self.build(value_node, (*keys, key))
            return data
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*keys, index)) for index, child in enumerate(node.value)]
        return self.construct_object(node, deep=True)

    def _refuse_twice(self, node: yaml.MappingNode) -> None:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            wrong = None
            if not isinstance(key, Hashable):
                wrong = "a key must be a word or a number"
            elif key in seen:
                wrong = f"the key {key!r} is given twice"
            if wrong is not None:
                raise SpecError(wrong, where=place(self.path, key_node.start_mark.line + 1))
            seen.add(key)


def read(path: Path) -> Document:
    """Parse one YAML file; raises `SpecError` with file and line for anything malformed."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError("there is no such file", where=place(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"the file cannot be read ({error})", where=place(path)) from None
    return _parsed(path, text)


@lru_cache(maxsize=512)
def _parsed(path: Path, text: str) -> Document:
    # the vocabulary and the bases are read once per family that stands on them
    loader: _Loader | None = None
    try:
        loader = _Loader(text, path)
        node = loader.get_single_node()
        data = loader.build(node) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SpecError(
            f"malformed YAML: {error.problem or error.context}", where=place(path, mark.line + 1 if mark else None)
        ) from None
    except yaml.YAMLError as error:
        raise SpecError(f"malformed YAML: {error}", where=place(path)) from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise SpecError(f"malformed YAML: {type(error).__name__} {error}", where=place(path)) from None
    finally:
        if loader is not None:
            loader.dispose()
    return Document(path, data, loader.lines)


def validate(model: type[M], document: Document, *, data: Any = None) -> M:
    """The document as a pydantic model; raises `SpecError` for the first thing wrong, with its line."""
    try:
        return model.model_validate(document.data if data is None else data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # a misspelt key is missing under its right name too, and that is said first
        first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
        keys = tuple(key for key in first["loc"] if _is_key(key, document))
        raise SpecError(_explain(model, first), where=document.where(*keys)) from None


def _is_key(key: Any, document: Document) -> bool:
    return isinstance(key, (str, int)) and not str(key).startswith("function-")


def _explain(model: type[BaseModel], error: Any) -> str:
    keys = list(error["loc"])
    name = ".".join(str(key) for key in keys)
    if error["type"] == "extra_forbidden":
        known = sorted(_fields(model, keys[:-1]))
        hint = nearest(str(keys[-1]), known) or f"; the keys here are {', '.join(known)}"
        return f"unknown key {name!r}{hint}"
    if error["type"] == "missing":
        return f"the key {name!r} is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def _fields(model: Any, keys: list[Any]) -> set[str]:
    """The keys a model allows at a path, walked through mappings, lists and optionals."""
    for key in keys:
        model = _unwrap(model)
        origin = typing.get_origin(model)
        if origin is dict:
            model = typing.get_args(model)[1]
        elif origin in (list, tuple):
            model = typing.get_args(model)[0]
        elif isinstance(model, type) and issubclass(model, BaseModel):
            info = _by_alias(model).get(str(key))
            if info is None:
                return set()
            model = info.annotation
    model = _unwrap(model)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return set(_by_alias(model))
    return set()


def _by_alias(model: type[BaseModel]) -> dict[str, Any]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _unwrap(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next((arg for arg in typing.get_args(annotation) if arg is not type(None)), annotation)
    return annotation
