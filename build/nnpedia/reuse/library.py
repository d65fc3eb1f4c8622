"""The library's public names, read from its source with `ast`: making a page of them imports no torch."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import nnpedia
from nnpedia.cache import PACKAGE

PAGE = "library"
Role = Literal["class", "exception", "method", "property"]
SECTIONS = {"Args:": "Arguments"}  # and others as they are written
#: The members that are for a reader's code. The others are public among the modules of the package: a run's own state.
MEMBERS = (
    "text_config",
    "lengths",
    "load_options",
    "values",
    "forward_order",
    "forward_names",
    "every",
    "support",
    "project_on_vocab",
    "trace",
    "dispatch",
)


@dataclass(frozen=True)
class Part:
    """A paragraph of a docstring; or a section of it, with the names it tells of and what it says of each."""

    text: str
    items: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Entity:
    """A public class, or a method or property of one."""

    name: str  # "StandardizedTransformer.support"
    role: Role
    signature: str  # "(layer: int | None = None)"; empty for a property and an exception
    says: str  # its docstring
    anchor: str  # "nnpedia.StandardizedTransformer.support"

    @property
    def member(self) -> bool:
        return "." in self.name

    @property
    def parts(self) -> list[Part]:
        return [part_of(each) for each in self.says.split("\n\n")]


@cache
def entities() -> tuple[Entity, ...]:
    """Everything that `nnpedia` exports and the members that are for readers, classes before exceptions."""
    found = [entity for name in nnpedia.__all__ for entity in of_class(name)]
    return tuple(sorted(found, key=lambda entity: entity.role == "exception"))


def of_class(name: str) -> Iterator[Entity]:
    module = nnpedia._HOMES[name].removeprefix("nnpedia.").replace(".", "/")
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    node = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    if module == "errors":
        yield Entity(name, "exception", "", documented(node), f"nnpedia.{name}")
        return
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    made = next((signature(each) for each in methods if each.name == "__init__"), "()")
    yield Entity(name, "class", made, documented(node), f"nnpedia.{name}")
    for each in methods:
        if each.name in MEMBERS:
            plain = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in each.decorator_list)
            said = "" if plain else signature(each)
            role: Role = "property" if plain else "method"
            yield Entity(f"{name}.{each.name}", role, said, documented(each), f"nnpedia.{name}.{each.name}")


def part_of(text: str) -> Part:
    """A paragraph, or a section: a line such as `Args:`, and under it `name: what it is`, indented once."""
    title, _, rest = text.partition("\n")
    if not title.endswith(":") or not rest.startswith("    "):
        return Part(text)
    items = re.split(r"\n(?! )", inspect.cleandoc(rest))
    told = [" ".join(item.split()).partition(": ") for item in items]
    return Part(SECTIONS.get(title, title.removesuffix(":")), tuple((name, says) for name, _, says in told))


def documented(node: ast.ClassDef | ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def signature(node: ast.FunctionDef) -> str:
    arguments = node.args
    arguments.args = [each for each in arguments.args if each.arg != "self"]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    spaced = re.sub(r"(: [^=,]+)=", r"\1 = ", ast.unparse(arguments))
    return f"({spaced}){returns}"
