"""Policy: whether a built site keeps its own content security policy.

The policy stands in `mkdocs.yml` and, by the theme's templates, on every page. It forbids scripts and
styles that stand in a page; one that did would be dead there, without a word, so a build looks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from nnpedia.kept import Kept

_DATA = ("application/json", "application/ld+json")
_LOADS = ("script", "link", "style", "img", "iframe", "object", "embed")


@dataclass
class _Markup(HTMLParser):
    """What of a page a policy forbids, each with its line."""

    policy: str
    stated: bool = False
    found: list[tuple[int, str]] = field(default_factory=list)
    _inline: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta" and (given.get("http-equiv") or "").lower() == "content-security-policy":
            self.stated = given.get("content") == self.policy
        if tag in _LOADS and not self.stated:
            self.note(f"<{tag}> stands before the content security policy")
        if tag == "style" or "style" in given:
            self.note(f"a style stands in the page, at <{tag}>")
        self._inline = tag == "script" and "src" not in given and given.get("type") not in _DATA
        for name, value in attrs:
            if name.startswith("on"):
                self.note(f"a script stands in the page, in {name} of <{tag}>")
            if name in ("href", "src", "action") and (value or "").strip().lower().startswith("javascript:"):
                self.note(f"a script stands in the page, in {name} of <{tag}>")

    def handle_data(self, data: str) -> None:
        if self._inline and data.strip():
            self.note("a script stands in the page")

    def handle_endtag(self, tag: str) -> None:
        self._inline = False

    def note(self, what: str) -> None:
        self.found.append((self.getpos()[0], what))


def broken_policy(site: Path, policy: str, known: Kept | None = None) -> list[str]:
    """What is wrong, a line each: `families/phimoe/index.html:12: …`; empty when every page keeps `policy`.

    `known` is what earlier builds saw on pages.
    """
    known = known or Kept()
    problems = []
    for path in sorted(site.rglob("*.html")):
        name, text = path.relative_to(site).as_posix(), path.read_text(encoding="utf-8")
        stated, found = known.answer(f"{policy}\0{text}", partial(forbidden, text, policy))
        if not stated:
            problems.append(f"{name}: the page does not state the content security policy of mkdocs.yml")
        problems += [f"{name}:{line}: {what}" for line, what in found if stated or "before" not in what]
    return problems


def forbidden(text: str, policy: str) -> tuple[bool, list[tuple[int, str]]]:
    """Whether a page states the policy, and what of the page it forbids."""
    markup = _Markup(policy)
    markup.feed(text)
    markup.close()
    return markup.stated, markup.found
