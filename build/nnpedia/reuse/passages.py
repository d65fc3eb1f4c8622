"""Passages: notes cut into prose and Python, in order, for the forms that are no web page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnpedia.errors import BuildFailure
from nnpedia.fences import Fence, read_document
from nnpedia.record import SnippetFact

_OPENS = re.compile(r"^\s*(`{3,}|~{3,})")
_LINK = re.compile(r"(?<=\]\()(?P<url>[^)\s]+)")
_ATTRIBUTES = re.compile(r"\s*\{:?\s*[.#][^}]*\}")


@dataclass(frozen=True)
class Passage:
    """A stretch of prose, as Markdown; or a Python fence and what it gave."""

    text: str = ""
    fence: Fence | None = None
    fact: SnippetFact | None = None


def passages(text: str, file: str, snippets: Sequence[SnippetFact], links: Mapping[str, str]) -> list[Passage]:
    """The page `text` of `file` cut at its Python fences.

    Args:
        links: The start of a link's address to what stands for it, as `sent` takes it.

    Raises:
        BuildFailure: a fence without a record.
    """
    facts = {snippet.line: snippet for snippet in snippets}
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[Passage] = []
    at = 0
    for fence in read_document(file, text).fences:
        fact = facts.get(fence.line)
        if fact is None:
            raise BuildFailure("no record says what this Python fence gave; build again", where=f"{file}:{fence.line}")
        found.append(Passage(prose(lines[at : fence.opening - 1], links)))
        found.append(Passage(fence=fence, fact=fact))
        at = fence.closing
    found.append(Passage(prose(lines[at:], links)))
    return [passage for passage in found if passage.fence or passage.text]


def prose(lines: Sequence[str], links: Mapping[str, str]) -> str:
    """Markdown that any reader takes: links lead on from the new place, nothing carries attributes."""
    text, fenced = [], ""
    for line in lines:
        opens = _OPENS.match(line)
        if opens and (not fenced or opens[1].startswith(fenced)):
            fenced = "" if fenced else opens[1]
        text.append(line if fenced else plain(line, links))
    return "\n".join(text).strip("\n")


def plain(line: str, links: Mapping[str, str]) -> str:
    return _ATTRIBUTES.sub("", _LINK.sub(lambda match: sent(match["url"], links), line))


def sent(url: str, links: Mapping[str, str]) -> str:
    """Where a link of the notes leads: the first pattern of `links` that the whole address matches says it."""
    for pattern, target in links.items():
        if match := re.fullmatch(pattern, url):
            return match.expand(target)
    return url


def from_notes(extension: str) -> dict[str, str]:
    """Links of a family's notes as a file beside the family's page has them; another family's is its own such file."""
    return {
        r"(#(?:value|law)-.*)": r"./index.html\1",
        r"\.\./([\w-]+)/(?:notes\.md)?(#.*)?": rf"../\1/\1.{extension}",
    }
