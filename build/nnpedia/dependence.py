"""Dependence: which of the package's modules a record is made by, told from what they import.

A module that `produce` imports, wherever in its code and through however many others, can change a
fact; one that it never reaches only shows facts or runs the units. Nobody keeps a list.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

from nnpedia.cache import PACKAGE

#: What a worker process calls: the record of a unit is what comes back.
START = "nnpedia.produce"


def modules(package: Path = PACKAGE, start: str = START) -> dict[str, Path]:
    """The modules that `start` depends on, itself among them, by name."""
    found: dict[str, Path] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        path = _file(package, name)
        if name in found or path is None:
            continue
        found[name] = path
        parent = name.rpartition(".")[0]
        waiting += [*imported(path, name), *([parent] if parent else [])]  # importing a module runs its packages
    return dict(sorted(found.items()))


@cache
def code_of(*starts: str, package: Path = PACKAGE) -> str:
    """The digest of the modules that these depend on."""
    found = {name: path for start in starts for name, path in modules(package, start).items()}
    digest = hashlib.sha256()
    for name, path in sorted(found.items()):
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def without_readers(source: str) -> tuple[str, dict[str, str]]:
    """A file's text with the functions that `@reader("…")` registers taken out, and each of those by its name.

    A reader is asked of the families that name it; what the readers share stays with the file.
    """
    lines = source.splitlines(keepends=True)
    readers: dict[str, str] = {}
    for node in reversed(ast.parse(source).body):
        marks = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        for mark in marks:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "reader":
                start, end = mark.lineno - 1, node.end_lineno or node.lineno
                readers[ast.literal_eval(mark.args[0])] = "".join(lines[start:end])
                del lines[start:end]
                break
    return "".join(lines), readers


def imported(path: Path, name: str) -> list[str]:
    """The modules of this package that a file may import, at its top or inside a function, by statement or by name."""
    return _imported(path.read_bytes(), name, path.name == "__init__.py")


@cache
def _imported(source: bytes, name: str, package: bool) -> list[str]:
    found: list[str] = []
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        found += _names(node, name, package)
        waiting += node.orelse if _is_for_types(node) else ast.iter_child_nodes(node)
    return found


def _names(node: ast.AST, name: str, package: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names if each.name.startswith("nnpedia"))
    elif isinstance(node, ast.ImportFrom):
        above = name.split(".")[: len(name.split(".")) - node.level + package] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        if module.split(".")[0] == "nnpedia":
            yield module
            yield from (f"{module}.{each.name}" for each in node.names)  # a name may be a module of a package
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value.partition(":")[0]  # "nnpedia.model", which `import_module` is given
        if word.startswith("nnpedia.") and all(part.isidentifier() for part in word.split(".")):
            yield word


def _is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    """Whether this is `if TYPE_CHECKING:`, whose imports never run."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _file(package: Path, name: str) -> Path | None:
    parts = name.split(".")[1:]
    for path in (package.joinpath(*parts, "__init__.py"), package.joinpath(*parts).with_suffix(".py")):
        if path.is_file() and (parts or path.name == "__init__.py"):
            return path
    return None
