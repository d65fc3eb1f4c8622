"""Links: whether everything a built site points at inside itself is there.

MkDocs checks what it rendered from Markdown; the generated pages are HTML, so this looks at the
result: every `href` and `src` of every page, with its fragment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from nnpedia.kept import Kept


@dataclass
class Document(HTMLParser):
    """A page's ids and the places it points at, with their lines."""

    ids: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    targets: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                (self.repeated if value in self.ids else self.ids).add(value)
            elif name in ("href", "src") and value is not None:
                self.targets.append((value, self.getpos()[0]))


def broken_links(site: Path, base: str = "/", known: Kept | None = None) -> list[str]:
    """What is wrong, a line each: `families/phimoe/index.html:12: …`; empty when all is well.

    `base` is the path that the site is published below, which only the page for what is missing knows.
    `known` is what earlier builds saw on pages.
    """
    known = known or Kept()
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    documents = {name: parsed(site / name, known) for name in sorted(files) if name.endswith(".html")}
    problems = []
    for name, document in documents.items():
        problems += [f"{name}: the id {each!r} is given twice" for each in sorted(document.repeated)]
        for target, line in document.targets:
            problem = check(name, target, files, documents, base)
            if problem:
                problems.append(f"{name}:{line}: {problem}")
    return problems


def parsed(path: Path, known: Kept) -> Document:
    text = path.read_text(encoding="utf-8")
    ids, repeated, targets = known.answer(text, lambda: seen(text))
    return Document(set(ids), set(repeated), [(target, line) for target, line in targets])


def seen(text: str) -> tuple[list[str], list[str], list[tuple[str, int]]]:
    """A page's ids, those given twice, and the places it points at."""
    document = Document()
    document.feed(text)
    document.close()
    return sorted(document.ids), sorted(document.repeated), document.targets


def check(page: str, target: str, files: set[str], documents: dict[str, Document], base: str) -> str | None:
    """What is wrong with a link from `page` to `target`; None for other hosts and for good ones."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    if page == "404.html" and parts.path.startswith(base):
        path = unquote(parts.path.removeprefix(base))  # served from anywhere, so its links start at the site's root
    elif parts.path.startswith("/"):
        return f"the link {target!r} starts at the host's root and breaks under a sub-path"
    else:
        folder = page.rpartition("/")[0]
        path = normpath(f"{folder}/{unquote(parts.path)}".lstrip("/")) if parts.path else page
    if parts.path.endswith("/") or path in (".", ""):
        path = normpath(f"{path}/index.html")
    if path not in files and f"{path}/index.html" in files:
        path = f"{path}/index.html"
    if path not in files:
        return f"the link {target!r} leads to no file"
    fragment = unquote(parts.fragment)
    if fragment and path in documents and fragment not in documents[path].ids:
        return f"the link {target!r} names no anchor of {path}"
    return None
