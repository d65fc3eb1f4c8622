"""Operators: what a law puts between one value and the next besides a module's call.

A multiplier of the config, a gate, a softcap or a skip belongs to no module, so a printout does not
show it. The laws do: `down_proj(mlp_neurons) * config.residual_multiplier == mlp_output`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nnpedia.errors import SpecError
from nnpedia.formula import Formula, parse
from nnpedia.record import LawFact

GLYPHS: dict[type, str] = {ast.Mult: "×", ast.Div: "÷", ast.Add: "+", ast.Sub: "−"}
#: Functions of formulas that are an operation of their own, and what an operation is called by.
CALLED = {"softcap": "softcap", "softmax_beside": "sinks"}
SAME = ("unmasked", "in_bfloat16")  # what these say of their first argument they say of the value
LONGEST = 40


@dataclass(frozen=True)
class Step:
    """One operation: its sign, what it is done with, and the law that says so, where one does."""

    glyph: str
    by: str
    law: LawFact | None = None
    key: str = ""  # the key of the config that holds the number, where it is one's


def steps(
    laws: Iterable[LawFact],
    host: str,
    value: str,
    here: Collection[str],
    named: Collection[str],
    unset: Collection[str] = (),
    through: bool = False,
) -> list[Step]:
    """The operations that make a value of `host`, innermost first; none where no measured law tells of any.

    `here` are the names of the values that the block has, `named` those of all values there are: a law about a value
    that the block lacks is not about this block. `unset` are the config's keys that are None: nothing is done with such
    a number. With `through`, a module that a value passes counts too.
    """
    for law in laws:
        formula = _parsed(law)
        if law.host != host or formula is None or formula.right is None or _result(formula.right) != value:
            continue
        used = {name.rpartition(".")[2] for name in formula.names()} & set(named)
        if used <= set(here):
            found = [
                Step(glyph, by, law, next((name[7:] for name in names if name.startswith("config.")), ""))
                for glyph, by, names in _walk(formula.left, named, through)
            ]
            return [step for step in reversed(found) if step.key not in unset]
    return []


def adding(laws: Sequence[LawFact], output: str, sums: Collection[str]) -> LawFact | None:
    """The law that adds a sublayer's output to the stream: of those that name it, the one that says least besides."""
    found = []
    for law in laws:
        formula = _parsed(law)
        if law.host == "layers" and formula is not None and formula.right is not None:
            names = [name.rpartition(".")[2] for name in formula.names()]
            if output in names and _result(formula.right) in sums:
                found.append((len(names), law))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def norming(laws: Sequence[LawFact], value: str) -> str:
    """The norm that the stream itself passes after an add, where a block has one: the module's name."""
    for law in laws:
        formula = _parsed(law)
        if law.host != "layers" or formula is None or formula.right is None or _result(formula.right) != value:
            continue
        left = formula.left
        if isinstance(left, ast.Call) and left.args and isinstance(left.args[0], ast.BinOp):
            return ast.unparse(left.func)
    return ""


def scaling(laws: Iterable[LawFact], value: str, here: Collection[str], named: Collection[str]) -> Step | None:
    """What the stream itself is multiplied by on the way to a value of the block, where a law says so."""
    for law in laws:
        formula = _parsed(law)
        if law.host != "layers" or formula is None or formula.right is None or _result(formula.right) != value:
            continue
        used = {name.rpartition(".")[2] for name in formula.names()} & set(named)
        left = formula.left
        if used <= set(here) and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult | ast.Div):
            glyph, by, names = next(_walk(left, named))
            return Step(glyph, by, law, next((name[7:] for name in names if name.startswith("config.")), ""))
    return None


def _parsed(law: LawFact) -> Formula | None:
    return _formula(law.formula) if law.exception is None else None


@lru_cache(maxsize=1024)
def _formula(text: str) -> Formula | None:
    try:
        return parse(text, law=True)
    except SpecError:
        return None


def _result(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in SAME:
        node = node.args[0]
    return ast.unparse(node).rpartition(".")[2]


def _walk(node: ast.expr, named: Collection[str], through: bool = False) -> Iterator[tuple[str, str, list[str]]]:
    """The operations on the way in from the law's left side, outermost first."""
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        if function in CALLED:
            yield "ƒ", CALLED[function], [name for argument in node.args[1:] for name in _names(argument)]
        elif through and len(node.args) == 1 and ast.unparse(node.args[0]) in named:
            yield "ƒ", function, []
        if node.args and (len(node.args) == 1 or function in CALLED or function in SAME):
            yield from _walk(node.args[0], named, through)
    elif isinstance(node, ast.BinOp) and type(node.op) in GLYPHS:
        carried, other = node.left, node.right
        if not isinstance(node.op, ast.Div) and not _mentions(carried, named):
            carried, other = other, carried
        yield GLYPHS[type(node.op)], _short(other), _names(other)
        yield from _walk(carried, named, through)


def _names(node: ast.expr) -> list[str]:
    return Formula("", node, None).names()


def _mentions(node: ast.expr, named: Collection[str]) -> bool:
    return any(name.rpartition(".")[2] in named for name in _names(node))


def _short(node: ast.expr) -> str:
    """What an operand is called by: itself where it is short, else the functions that give it."""
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        if function in SAME:
            return _short(node.args[0])
        inner = node.args[0] if node.args else None
        nested = f"{function}({_short(inner)})" if isinstance(inner, ast.Call) else function
        return nested if len(nested) <= LONGEST else function
    text = ast.unparse(node)
    if len(text) > LONGEST and isinstance(node, ast.BinOp):
        return _short(node.left)
    return text.removeprefix("config.")
