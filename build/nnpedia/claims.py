"""Claims: what a snippet's code asserts or shows, as far as it can be read without running it."""

from __future__ import annotations

import ast
import warnings

from nnpedia.fences import Document, Fence
from nnpedia.record import Problem

SHOWING = ("print", "pprint", "display")


def count_asserts(code: str) -> int:
    """How many assertions stand in the code: `assert`, and calls such as `torch.testing.assert_close`."""
    tree = _parsed(code)
    if tree is None:
        return 0
    return sum(isinstance(node, ast.Assert) for node in ast.walk(tree)) + sum(
        name.startswith("assert_") for name in _called(tree)
    )


def unfounded(document: Document) -> list[Problem]:
    """What is wrong with the snippets of a page before they run: code that does not compile, or that shows nothing."""
    problems = []
    for fence in document.fences:
        if fence.runs and not fence.problem and (problem := _problem(fence)):
            problems.append(problem)
    return problems


def _problem(fence: Fence) -> Problem | None:
    code = "\n" * (fence.line - 1) + fence.code + "\n"
    try:
        with warnings.catch_warnings(action="ignore"):  # of an odd escape, which running it tells of too
            compile(code, fence.file, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno if error.lineno and fence.line <= error.lineno <= fence.closing else fence.line
        return Problem(where=f"{fence.file}:{line}", what=f"{type(error).__name__}: {error.msg}")
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return Problem(where=fence.where, what=f"this is no Python that can be compiled ({error})")
    if count_asserts(fence.code) or _shows(fence.code):
        return None
    return Problem(
        where=fence.where, what="neither asserts nor shows anything: assert what it establishes, or print it"
    )


def _shows(code: str) -> bool:
    """Whether the code ends in an expression, or prints."""
    tree = _parsed(code)
    if tree is None or not tree.body:
        return False
    return isinstance(tree.body[-1], ast.Expr) or any(name in SHOWING for name in _called(tree))


def _called(tree: ast.AST) -> list[str]:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [getattr(call, "attr", getattr(call, "id", "")) for call in calls]


def _parsed(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
