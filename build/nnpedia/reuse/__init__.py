"""What the site offers besides its pages: for programs, for other tools, and to take home."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from nnpedia.badges import Badge
from nnpedia.entry import Entry
from nnpedia.pages import Page, render
from nnpedia.prose import Heading
from nnpedia.record import SnippetFact
from nnpedia.reuse import api, crawling, feed, inventory, library, markdown, notebook, openapi


@dataclass(frozen=True)
class Written:
    """A hand-written page: its source, what ran of it, and where it stands."""

    file: str  # "site/getting-started.md", as the records name it
    url: str  # "getting-started/"
    title: str
    description: str
    text: str
    snippets: Sequence[SnippetFact] = ()

    @property
    def markdown(self) -> str:
        """Where its Markdown stands: `getting-started/getting-started.md`."""
        return f"{self.url}{self.url.strip('/').rpartition('/')[2] or 'index'}.md"


def library_page() -> Page:
    """The library's public names."""
    entities = library.entities()
    headings = [Heading(2, each.anchor, each.name) for each in entities if not each.member and each.role == "class"]
    headings += [Heading(3, each.anchor, each.name.partition(".")[2]) for each in entities if each.member]
    headings += [Heading(2, "exceptions", "Exceptions")]
    headings += [Heading(3, each.anchor, each.name) for each in entities if each.role == "exception"]
    says = "The public names of the Python library."
    return Page(f"{library.PAGE}.md", "Library", render("library.html", entities=entities), headings, says)


def data(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> dict[str, str]:
    """The JSON of all families together: path from the site's root, and content. `family_data` has that of each."""
    return {**api.of_all(entries, badges), f"{api.ROOT}/openapi.json": openapi.description()}


def family_data(entry: Entry) -> dict[str, str]:
    """A family's JSON."""
    return api.of_one(entry)


def forms(entries: Mapping[str, Entry], badges: Mapping[str, Badge], pages: Sequence[Written]) -> dict[str, str]:
    """The pages in other forms: Markdown of each page, the notes of each family as a notebook."""
    found: dict[str, str] = {}
    for name, entry in entries.items():
        if entry.built:
            json = f"{api.ROOT}/families/{name}.json"
            found[f"families/{name}/{name}.md"] = markdown.family_markdown(entry, badges, json)
        if entry.runs:
            found[f"families/{name}/{name}.ipynb"] = notebook.notebook(entry)
    for page in pages:
        found[page.markdown] = markdown.page_markdown(page.text, page.file, page.snippets, page.url)
    return found


def guides(
    entries: Mapping[str, Entry],
    badges: Mapping[str, Badge],
    pages: Sequence[Written],
    *,
    site: str,
    urls: Collection[str],
    changelog: str,
) -> dict[str, str | bytes]:
    """The files that say what is where.

    Args:
        site: The address the site is published at, with its last slash; empty where none is known.
        urls: The addresses of all pages, from the site's root.
        changelog: The text of CHANGELOG.md.

    Raises:
        SpecError: the changelog has a version without a date.
    """
    written = [(page.title, page.markdown, page.description) for page in pages]
    return {
        "sitemap.xml": crawling.sitemap(site, urls),
        "robots.txt": crawling.robots(site),
        "llms.txt": crawling.llms(entries, written),
        feed.URI: feed.atom(list(feed.changes(changelog)), site),
        "objects.inv": inventory.inventory(entries, badges, version("nnpedia"), urls),
    }
