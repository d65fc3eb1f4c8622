"""Formulas: the small expressions of laws, sizes and readouts.

A formula is Python's expression syntax cut down to names, dotted names, numbers, arithmetic and
calls. Names are looked up by the caller; nothing else can be reached, so a formula in a spec is
data, not code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nnpedia.errors import SpecError

#: Looks a dotted name up; raises `LookupError` for a name it does not know.
Lookup = Callable[[str], Any]

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_LONGEST = 500
_LARGEST_POWER = 16


@dataclass(frozen=True)
class Formula:
    """A parsed formula; `right` is set for a law, `left == right`."""

    text: str
    left: ast.expr
    right: ast.expr | None

    def names(self) -> list[str]:
        """Every dotted name the formula uses, calls included, in order of appearance."""
        sides = [self.left, *([self.right] if self.right is not None else [])]
        return list(dict.fromkeys(name for side in sides for name in _names(side)))


def parse(text: str, *, law: bool = False) -> Formula:
    """The formula `text` spells; raises `SpecError` for anything outside the language."""
    if len(text) > _LONGEST:
        raise SpecError(f"a formula has at most {_LONGEST} characters")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SpecError(f"{text!r} is not a formula") from None
    if not law:
        _check(body, text)
        return Formula(text, body, None)
    if not (isinstance(body, ast.Compare) and len(body.ops) == 1 and isinstance(body.ops[0], ast.Eq)):
        raise SpecError(f"{text!r} is not a law: write `left == right`")
    _check(body.left, text)
    _check(body.comparators[0], text)
    return Formula(text, body.left, body.comparators[0])


def evaluate(expression: ast.expr, lookup: Lookup) -> Any:
    """The value of a checked expression; `lookup` gives names their meaning."""
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.UnaryOp):
        return -evaluate(expression.operand, lookup)
    if isinstance(expression, ast.BinOp):
        left, right = evaluate(expression.left, lookup), evaluate(expression.right, lookup)
        return _BINARY[type(expression.op)](left, right)
    if isinstance(expression, ast.Call):
        function = lookup(_dotted(expression.func) or "")
        return function(*(evaluate(argument, lookup) for argument in expression.args))
    return lookup(_dotted(expression) or "")


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _names(node: ast.expr) -> Iterator[str]:
    dotted = _dotted(node)
    if dotted is not None:
        yield dotted
    elif isinstance(node, ast.Call):
        yield _dotted(node.func) or ""
        for argument in node.args:
            yield from _names(argument)
    elif isinstance(node, ast.BinOp):
        yield from _names(node.left)
        yield from _names(node.right)
    elif isinstance(node, ast.UnaryOp):
        yield from _names(node.operand)


def _is_small_power(node: ast.BinOp) -> bool:
    """Whether a power takes no time: `9 ** 9 ** 9` would take for ever."""
    exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
    below = any(isinstance(other, ast.Pow) for other in ast.walk(node.left))
    return isinstance(exponent, ast.Constant) and isinstance(exponent.value, int | float) and not below and (
        abs(exponent.value) <= _LARGEST_POWER
    )  # fmt: skip


def _check(node: ast.expr, text: str) -> None:
    """Raise `SpecError` unless the expression stays inside the language."""
    dotted = _dotted(node)
    if dotted is not None:
        if any(part.startswith("_") for part in dotted.split(".")):
            raise SpecError(f"{text!r}: names in a formula do not start with an underscore")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand, text)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        if isinstance(node.op, ast.Pow) and not _is_small_power(node):
            raise SpecError(f"{text!r}: a power in a formula is of no other power, and to a number of at most 16")
        _check(node.left, text)
        _check(node.right, text)
    elif isinstance(node, ast.Call) and not node.keywords and _dotted(node.func):
        _check(node.func, text)
        for argument in node.args:
            _check(argument, text)
    elif not (isinstance(node, ast.Constant) and type(node.value) in (int, float)):
        raise SpecError(f"{text!r}: a formula has names, numbers, + - * / // ** and calls, nothing else")
