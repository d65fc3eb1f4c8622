"""Line breaks: where names, addresses and formulas may go on in the next line of a narrow column.

A browser finds no place to break in `attn_implementation="eager"`, and cuts it where the column ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from markupsafe import Markup, escape

#: Letters of a name that some column of a table does not hold in one line.
LONG = 24
_MARKS = re.compile(r"(?<=.)(?=[.@])|(?<=\S)(?=\[\{)|(?<=\S=)(?=[^\s=])")
_NAMES = re.compile(r"\w+")
_STEPS = re.compile(r"(?<=[^_]_)(?=[^_])")
_WORDS = re.compile(r"(?<=[^_]_)(?=[^_])|(?<=[a-z\d])(?=[A-Z][a-z])")
_BRACKETS = re.compile(r"(?<=\()(?!\))")


def breakable(text: str, long: int = LONG) -> Markup:
    """An address or a condition that may be broken before its dots and marks, and inside a name of `long` letters."""
    return _broken(text, _inside(text, long, _STEPS) | {mark.start() for mark in _MARKS.finditer(text)})


def breakable_value(text: str, long: int = 12) -> Markup:
    """A config's value, which may be broken between the words, or a class's capitals, of a name of `long` letters."""
    return _broken(text, _inside(text, long, _WORDS))


def breakable_formula(text: str) -> Markup:
    """A part of a formula, which may be broken after a bracket that opens."""
    return _broken(text, {bracket.start() for bracket in _BRACKETS.finditer(text)})


def _inside(text: str, long: int, steps: re.Pattern[str]) -> set[int]:
    names = (name for name in _NAMES.finditer(text) if len(name[0]) >= long)
    return {name.start() + step.start() for name in names for step in steps.finditer(name[0])}


def _broken(text: str, places: Iterable[int]) -> Markup:
    return Markup("<wbr>").join(escape(text[start:end]) for start, end in pairwise([0, *sorted(places), len(text)]))
