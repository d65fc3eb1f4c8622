"""Failures: what went wrong in a snippet, at its line of the page.

nnsight runs a traced block inside the model's forward, and an error there comes out with the
model's frames around it. The last frame that is the page's own is the line that failed; when
the model itself fails on what a block gave it, that is the line of the `with`.
"""

from __future__ import annotations

import ast
import traceback
from types import FrameType
from typing import Any

AROUND = 3
TRACEBACK = "Traceback inside the snippet:"
LONGEST = 500


def failure(error: BaseException, file: str, line: int, lines: list[str]) -> str:
    """`file:line: what`, the code around that line, and the traceback inside the page.

    Args:
        error: What was raised.
        file: The name the code was compiled under.
        line: The number of the snippet's first line, for an error that has no line there.
        lines: The source, each line at its number.
    """
    frames = [(frame, number) for frame, number in traceback.walk_tb(error.__traceback__) if _file(frame) == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        failing, what = error.lineno or line, f"{type(error).__name__}: {error.msg}"
    else:
        failing = frames[-1][1] if frames else line
        what = _what(error, frames[-1] if frames else None, lines)
    said = [f"{file}:{failing}: {what}", "", *excerpt(failing, line, lines)]
    if frames:
        said += ["", TRACEBACK]
        for frame, number in frames:
            said.append(f'  File "{file}", line {number}, in {frame.f_code.co_name}')
            said.append(f"    {_line(lines, number).strip()}")
    return "\n".join(said)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def excerpt(failing: int, first: int, lines: list[str]) -> list[str]:
    """The lines around a failing one, which is marked; none before a snippet's first."""
    start = max(failing - AROUND, min(first, failing))
    numbers = range(start, min(failing + AROUND, len(lines)) + 1)
    shown = [f"{'>' if number == failing else ' '} {number:4} | {_line(lines, number)}".rstrip() for number in numbers]
    while shown and shown[-1].endswith("|"):
        shown.pop()
    return shown


def _what(error: BaseException, frame: tuple[FrameType, int] | None, lines: list[str]) -> str:
    message = str(error)
    if isinstance(error, MemoryError) and not message:
        message = "more than the memory a snippet may use (NNPEDIA_MEMORY says how much)"
    if isinstance(error, AssertionError) and not message and frame:
        message = _assertion(frame[0], frame[1], lines)
    said = " ".join(f"{type(error).__name__}: {message}".split()).removesuffix(":")
    return said if len(said) <= LONGEST else said[:LONGEST] + " …"


def _assertion(frame: FrameType, number: int, lines: list[str]) -> str:
    """A bare assertion's condition, and what its two sides are when it compares two."""
    # Lines are blank outside the chain's code, and all of its code compiled.
    source = "\n".join(lines)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and node.lineno <= number <= (node.end_lineno or number):
            said = ast.get_source_segment(source, node.test) or ""
            if isinstance(node.test, ast.Compare) and len(node.test.comparators) == 1:
                sides = [_value(side, frame) for side in (node.test.left, node.test.comparators[0])]
                if None not in sides:
                    said += f" (left: {sides[0]}, right: {sides[1]})"
            return said
    return ""


def _value(node: ast.expr, frame: FrameType) -> str | None:
    """What the expression gives when it is evaluated once more, in short."""
    scope: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    try:
        said = " ".join(repr(eval(compile(ast.Expression(node), "<side>", "eval"), scope)).split())
    except Exception:
        return None
    return said if len(said) <= 160 else said[:160] + " …"
