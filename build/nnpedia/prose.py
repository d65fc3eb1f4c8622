"""Prose: the Markdown of notes and specs as HTML, with each snippet's result under it.

Notes are Markdown and nothing more: raw HTML comes out as text, and links lead inside the site or
to http(s). Fences are matched to the build's record of them by line, both ways: a fence without a
record and a record without a fence are errors, so that nothing a page shows as Python was left
unrun without saying so.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from markdown import Markdown
from markdown.extensions import Extension
from markdown.extensions.toc import slugify
from markdown.treeprocessors import Treeprocessor
from markupsafe import Markup

from nnpedia.errors import BuildFailure
from nnpedia.fences import is_python, read_document
from nnpedia.record import SnippetFact
from nnpedia.rendering import EXTENSIONS

#: Headings of notes get this before their slug, so that none meets an id of the page's own.
PREFIX = "notes-"
_MARK = "\ue000"  # private use: stands for a result while Markdown is at work


@dataclass(frozen=True)
class Heading:
    level: int
    id: str
    text: str  # HTML


@dataclass(frozen=True)
class Prose:
    html: Markup
    headings: list[Heading] = field(default_factory=list)


def with_marks(text: str, file: str, snippets: Sequence[SnippetFact]) -> tuple[str, list[SnippetFact]]:
    """The text with a mark after every Python fence, and the records the marks stand for.

    Raises `BuildFailure` for a fence without a record and for a record without a fence.
    """
    text = text.replace(_MARK, "")
    facts = {snippet.line: snippet for snippet in snippets}
    lines = text.splitlines()
    ordered: list[SnippetFact] = []
    marks: dict[int, str] = {}
    for fence in read_document(file, text).fences:
        fact = facts.pop(fence.line, None)
        if fact is None:
            raise BuildFailure("no record says what this Python fence gave; build again", where=f"{file}:{fence.line}")
        marks[fence.closing] = f"\n{fence.indent}{_MARK}{len(ordered)}{_MARK}\n"
        ordered.append(fact)
    for line in facts:
        raise BuildFailure("a snippet was recorded here and the page shows none", where=f"{file}:{line}")
    for closing in sorted(marks, reverse=True):
        lines.insert(closing, marks[closing])
    return "\n".join(lines), ordered


def with_results(body: str, facts: Sequence[SnippetFact], show: Callable[[SnippetFact], str], file: str) -> str:
    """The rendered body with every mark replaced by what its snippet gave; the facts in the order of their lines."""
    for index, fact in enumerate(facts):
        mark = f"<p>{_MARK}{index}{_MARK}</p>"
        if body.count(mark) != 1:
            raise BuildFailure("this snippet does not stand on its own on the page", where=f"{file}:{fact.line}")
        body = body.replace(mark, show(fact))
    return body


def render(
    text: str,
    *,
    file: str = "text",
    snippets: Sequence[SnippetFact] = (),
    show: Callable[[SnippetFact], str] = lambda fact: "",
    links: Mapping[str, str] | None = None,
) -> Prose:
    """The Markdown `text` of `file` as HTML.

    Args:
        file: As errors name it.
        snippets: What the build recorded of its Python fences.
        show: A record as the HTML that goes under its fence.
        links: Inline code that leads somewhere, such as the name of a value to its row.

    Raises:
        BuildFailure: a Python fence without a record, or a record without a fence.
    """
    marked, facts = with_marks(text, file, snippets)
    converter = converter_of_notes(links or {})
    shown = count_python(converter)
    body = with_results(converter.convert(marked), facts, show, file)
    if shown() != len(facts):
        raise BuildFailure(f"the page shows {shown()} Python blocks, the build ran {len(facts)}", where=file)
    tokens = flat(getattr(converter, "toc_tokens", []))
    headings = [Heading(int(token["level"]), str(token["id"]), str(token["name"])) for token in tokens]
    return Prose(Markup(body), headings)


def converter_of_notes(links: Mapping[str, str]) -> Markdown:
    """The site's Markdown, with headings below the page's own and raw HTML as text."""
    contents = {
        "baselevel": 2,  # notes start at ##, below the page's own h2
        "permalink": "#",
        "permalink_title": "Link to this heading",
        "slugify": lambda value, separator: PREFIX + slugify(value, separator),
    }
    return Markdown(
        extensions=[*EXTENSIONS, _Notes(links)],
        extension_configs={**EXTENSIONS, "toc": contents},
        output_format="html",
    )


def count_python(converter: Markdown) -> Callable[[], int]:
    """Count the blocks the converter is about to render as Python."""
    preprocessor: Any = converter.preprocessors["fenced_code_block"]
    close, seen = preprocessor.process_nested_block, []

    def note_and_close(*place: Any) -> None:
        seen.append(preprocessor.lang or "")
        close(*place)

    preprocessor.process_nested_block = note_and_close
    return lambda: sum(is_python(language) for language in seen)


def flat(tokens: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for token in tokens for each in (token, *flat(token["children"]))]


class _Notes(Extension):
    """Raw HTML off, links checked, names of values linked."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self.links = links

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.deregister("html_block")
        md.inlinePatterns.deregister("html")
        md.treeprocessors.register(_Links(md, self.links), "nnpedia_links", 4)


class _Links(Treeprocessor):
    def __init__(self, md: Markdown, links: Mapping[str, str]) -> None:
        super().__init__(md)
        self.links = links

    def run(self, root: ElementTree.Element) -> None:
        for parent in list(root.iter()):
            for index, child in enumerate(list(parent)):
                for name in [name for name in child.attrib if name.startswith("on") or name == "style"]:
                    del child.attrib[name]
                if child.tag == "a":
                    self.lead(child)
                elif child.tag == "img":
                    child.tag, child.text = "span", child.attrib.pop("alt", "")
                    child.attrib.clear()
                elif child.tag == "code" and parent.tag not in ("a", "pre") and (child.text or "") in self.links:
                    link = {"href": self.links[child.text or ""], "class": "nn-ref"}
                    wrapped(parent, index, ElementTree.Element("a", link))
                elif child.tag == "table":
                    child.set("class", "nn-prose-table")
                    # a wide table scrolls in a box of its own, which the keyboard reaches
                    wrapped(parent, index, ElementTree.Element("div", {"class": "nn-scroll", "tabindex": "0"}))

    def lead(self, link: ElementTree.Element) -> None:
        """Where a link goes: `#heading` within the notes, `../gpt2/notes.md` to that family's page."""
        url = html.unescape(link.get("href", "")).strip()
        scheme = re.match(r"([^/?#]*):", url)
        family = re.fullmatch(r"\.\./([\w-]+)/(?:notes\.md)?(?:#(.*))?", url)
        if link.get("class") == "headerlink" or url.startswith(("#value-", "#law-", "#fn")):
            return
        if url.startswith("#"):
            link.set("href", f"#{PREFIX}{url[1:]}")
        elif scheme and scheme[1].lower() not in ("http", "https"):
            del link.attrib["href"]
        elif family:
            link.set("href", f"../{family[1]}/" + (f"#{PREFIX}{family[2]}" if family[2] else ""))


def wrapped(parent: ElementTree.Element, index: int, around: ElementTree.Element) -> None:
    """Put `around` where the parent's child is, and the child inside it."""
    child = parent[index]
    around.tail, child.tail = child.tail, None
    parent[index] = around
    around.append(child)
