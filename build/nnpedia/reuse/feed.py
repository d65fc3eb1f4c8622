"""The Atom feed of changes, from CHANGELOG.md: an entry for each line of it, dated by the line's version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from nnpedia.errors import SpecError

URI = "feed.xml"
_ATOM = "http://www.w3.org/2005/Atom"
_VERSION = re.compile(r"^## (?P<version>\S+) \((?:unreleased, )?(?P<date>\d{4}-\d{2}-\d{2})\)$")


@dataclass(frozen=True)
class Change:
    version: str
    date: str  # "2026-11-30"
    text: str  # Markdown, on one line

    @property
    def id(self) -> str:
        """The same as long as the line is: readers know what they have seen by it."""
        digest = hashlib.sha256(f"{self.version} {self.text}".encode()).hexdigest()[:20]
        return f"tag:nnpedia,{self.date[:4]}:{self.version}/{digest}"


def changes(text: str, file: str = "CHANGELOG.md") -> Iterator[Change]:
    """The changes a changelog lists, in its order; raises `SpecError` for a version without a date."""
    version = date = ""
    bullet: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if bullet and not line.startswith("  "):
            yield Change(version, date, " ".join(bullet))
            bullet = []
        if line.startswith("## "):
            match = _VERSION.match(line)
            if match is None:
                what = "a version reads `## 0.1.0 (2026-11-30)` or `## 0.1.0 (unreleased, 2026-11-30)`"
                raise SpecError(what, where=f"{file}:{number}")
            version, date = match["version"], match["date"]
        elif line.startswith("- ") or (bullet and line.strip()):
            bullet.append(line.removeprefix("- ").strip())


def atom(made: list[Change], site: str) -> str:
    """The feed; `site` is the address it is published at, empty where none is known: links are then relative."""
    feed = ElementTree.Element("feed", {"xmlns": _ATOM})
    element(feed, "id", "tag:nnpedia,2026:changes")
    element(feed, "title", "nnpedia: changes")
    element(feed, "subtitle", "What is new in the encyclopedia and its library")
    element(feed, "updated", stamp(max((change.date for change in made), default="1970-01-01")))
    element(element(feed, "author"), "name", "the nnpedia authors")
    element(feed, "link", rel="self", type="application/atom+xml", href=f"{site}{URI}")
    element(feed, "link", rel="alternate", type="text/html", href=site or "./")
    for change in made:
        entry = element(feed, "entry")
        element(entry, "id", change.id)
        element(entry, "title", f"{change.version}: {plain(change.text)}")
        element(entry, "updated", stamp(change.date))
        element(entry, "link", rel="alternate", type="text/html", href=site or "./")
        element(entry, "content", change.text, type="text")
    ElementTree.indent(feed, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(feed, encoding="unicode") + "\n"


def element(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child


def stamp(date: str) -> str:
    return f"{date}T00:00:00Z"


def plain(text: str) -> str:
    """A line without Markdown, for a title."""
    bare = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("*", "").rstrip(".")
    return bare if len(bare) <= 120 else f"{bare[:117].rstrip()}…"
