"""Strays: Python on a page, or meant to be, that no fence of the page holds, and languages misspelt."""

from __future__ import annotations

import re

from nnpedia.errors import nearest
from nnpedia.record import Problem
from nnpedia.rendering import OPENING, Block, Rendering, is_known, is_python

#: What pages have blocks of: a word nearly like one of these, that is no language itself, is that one misspelt.
LANGUAGES = ("python", "yaml", "json", "bash", "text", "console", "markdown")

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def stray_python(file: str, lines: list[str], rendering: Rendering) -> list[Problem]:
    """What a reader would take for Python, or a writer meant as Python, outside the page's Python blocks."""
    return [
        *_stray_openings(file, lines, rendering.blocks),
        *_raw_html(file, lines, rendering.raw_html_languages),
        *_misspelt(file, rendering.blocks),
    ]


def _stray_openings(file: str, lines: list[str], blocks: list[Block]) -> list[Problem]:
    """Lines that open a Python fence in the source, and none on the page."""
    outside = list(lines)
    found: list[Problem] = []
    for block in blocks:
        outer = OPENING.match(lines[block.opening - 1])
        for number in range(block.opening + 1, block.closing):
            inner = OPENING.match(lines[number - 1])
            nested = outer and inner and inner["fence"].startswith(outer["fence"])
            if inner and nested and is_python(_word(inner["info"])) and not is_python(block.language):
                what = f"this fence opens inside the one of line {block.opening}: close that one first"
                found.append(Problem(where=f"{file}:{number}", what=what))
        outside[block.opening - 1 : block.closing] = [""] * (block.closing - block.opening + 1)
    visible = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), "\n".join(outside))
    for number, line in enumerate(visible.split("\n"), 1):
        match = OPENING.match(line)
        if match and is_python(_word(match["info"])):
            what = (
                "this fence is no code block on the page: close it, and indent it by what stands around it"
                " (to show a fence, wrap it in a longer one)"
            )
            found.append(Problem(where=f"{file}:{number}", what=what))
    return found


def _misspelt(file: str, blocks: list[Block]) -> list[Problem]:
    """Fences of a language that nobody knows and that is nearly one that pages are written in."""
    found = []
    for block in blocks:
        word = block.language.strip(".{}").lower()
        if word and not is_known(word) and (near := nearest(word, LANGUAGES)):
            what = f"no language is called {block.language!r}, so that the fence is plain text{near}"
            found.append(Problem(where=f"{file}:{block.opening}", what=what))
    return found


def _word(info: str) -> str:
    match = re.match(r"[\s.{]*([\w#+-]*)", info)
    return match[1] if match else ""


def _raw_html(file: str, lines: list[str], languages: list[str]) -> list[Problem]:
    """Code blocks written as HTML that say they are Python."""
    found = []
    for language in languages:
        if is_python(language):
            number = next((n for n, line in enumerate(lines, 1) if f"-{language}" in line and "<" in line), 1)
            found.append(Problem(where=f"{file}:{number}", what="Python written as HTML is not run: write ```python"))
    return found
