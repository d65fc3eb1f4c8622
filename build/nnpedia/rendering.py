"""Rendering: what Markdown means on this site, and which code blocks of a page reach its reader.

`EXTENSIONS` is what `mkdocs.yml` configures; a test compares the two.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import markdown

EXTENSIONS: dict[str, dict[str, Any]] = {
    "toc": {},
    "tables": {},
    "attr_list": {},
    "md_in_html": {},
    "def_list": {},
    "footnotes": {},
    "admonition": {},
    "pymdownx.details": {},
    "pymdownx.tabbed": {"alternate_style": True},
    "pymdownx.highlight": {},
    # Relaxed: an option superfences does not know (`on=forge`) would else turn the fence into text.
    "pymdownx.superfences": {"relaxed_headers": True},
}

OPENING = re.compile(r"^[>\s]*(?:(?:[-*+]|\d+[.)])\s+)?(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
"""A line that opens a fence, or looks as if it did."""

_MARK = "data-nnpedia-block"
_LANGUAGE_CLASS = re.compile(r"^(?:language|lang|highlight)-(?P<language>.+)$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, of any language (empty when it names none)."""

    language: str
    code: str
    opening: int  # line numbers of the two fence lines, from 1
    closing: int
    indent: str


@dataclass(frozen=True)
class Rendering:
    """What reached the HTML: the fenced blocks, and the languages of code written as HTML."""

    blocks: list[Block]
    raw_html_languages: list[str]


def renderer() -> markdown.Markdown:
    """Markdown as the site converts it."""
    return markdown.Markdown(extensions=list(EXTENSIONS), extension_configs=EXTENSIONS)


def rendered_blocks(text: str) -> Rendering:
    """The fenced blocks that a reader of the page sees, in order of their lines."""
    converter = renderer()
    # Superfences works on lines before anything else moves them, so here their numbers are
    # still the file's. Each block it closes is noted, and rendered as a mark.
    preprocessor: Any = converter.preprocessors["fenced_code_block"]
    close, noted = preprocessor.process_nested_block, []

    def note_and_close(ws: str, content: str, start: int, end: int) -> None:
        noted.append(
            Block(
                language=preprocessor.lang or "",
                code=preprocessor.rebuild_block(preprocessor.code),
                opening=start + 1,
                closing=end,
                indent=preprocessor.ws,
            )
        )
        mark = f'<pre {_MARK}="{len(noted) - 1}"></pre>'
        preprocessor.formatter = lambda **_: mark
        close(ws, content, start, end)

    preprocessor.process_nested_block = note_and_close
    marks = _Marks()
    marks.feed(converter.convert(text))
    marks.close()
    return Rendering([block for index, block in enumerate(noted) if index in marks.seen], marks.languages)


def is_known(language: str) -> bool:
    """Whether there is a language of this name to colour a fence by, or it means Python."""
    return _lexer(language) is not None or is_python(language)


@functools.lru_cache(maxsize=256)
def is_python(language: str) -> bool:
    """Whether a fence of this language is coloured as Python code on the page, or means to be."""
    word = language.strip(".{}").lower()
    if re.match(r"i?python|py\d*\b", word):
        return True
    lexer = _lexer(word)
    return type(lexer).__module__ == "pygments.lexers.python" and "Traceback" not in lexer.name


@functools.lru_cache(maxsize=256)
def _lexer(word: str) -> Any:
    """The lexer of this name; `None` where there is none."""
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(word)
    except ClassNotFound:
        return None


@dataclass
class _Marks(HTMLParser):
    seen: set[int] = field(default_factory=set)
    languages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get(_MARK):
            self.seen.add(int(given[_MARK] or 0))
        for name in (given.get("class") or "").split():
            match = _LANGUAGE_CLASS.match(name)
            if match:
                self.languages.append(match["language"])
            elif tag in ("pre", "code"):
                self.languages.append(name)
