"""Value pages: one for each value of the vocabulary, and the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nnpedia import lawrows, overview
from nnpedia.entry import Entry
from nnpedia.finding.holders import Held, held, rows_of
from nnpedia.finding.lawpages import LawEntry, formula_links, pairs_of
from nnpedia.pages import Page, plain, render
from nnpedia.prose import Heading
from nnpedia.translation import load_translation
from nnpedia.vocabulary import ValueSpec, Vocabulary, load_vocabulary


def value_uri(host: str, name: str) -> str:
    """Where a value's page is, from the site's root: `values/self_attn.attention_scores/`."""
    return f"values/{host}.{name}/"


def value_pages(folder: Path, entries: Mapping[str, Entry], laws: list[LawEntry]) -> list[Page]:
    """The list of values and a page for each. Raises `SpecError` for a translation that does not validate."""
    vocabulary = load_vocabulary(folder)
    rows = {name: rows_of(entry) for name, entry in entries.items()}
    cells = {name: overview.cells(entry) for name, entry in entries.items()}
    found = {
        (host, name): held(host, name, rows, cells) for host, values in vocabulary.values.items() for name in values
    }
    pages = [
        value_page(vocabulary, spec, found[host, name], entries, laws, folder)
        for host, values in vocabulary.values.items()
        for name, spec in values.items()
    ]
    html = render("valuelist.html", vocabulary=vocabulary, found=found, total=len(entries))
    says = f"The {len(found)} values of a transformer: what each is, its shape, and how many families have it."
    head = "Every value, its shape and meaning"
    return [Page("values/index.md", "Values", html, description=says, wide=True, head=head), *pages]


def value_page(
    vocabulary: Vocabulary,
    spec: ValueSpec,
    value: Held,
    entries: Mapping[str, Entry],
    laws: list[LawEntry],
    folder: Path,
) -> Page:
    host, name = value.host, value.name
    pair = host, name
    libraries = {
        library.title: (library, library.places(host, name)) for library in load_translation(folder).libraries.values()
    }
    known = pairs_of(vocabulary)
    html = render(
        "value.html",
        vocabulary=vocabulary,
        spec=spec,
        value=value,
        axes=vocabulary.axes_of(spec.layout),
        entries=entries,
        libraries=libraries,
        laws=[law for law in laws if any(pair == each for _, each in lawrows.worded(law.formula, law.host, known))],
        formula=formula_links(known, "../../"),
    )
    axes = " ".join(vocabulary.axes_of(spec.layout))
    shape = f" Shape [{axes}]." if axes else ""
    hooks = [f"{title}: {places[0].name}" for title, (_, places) in libraries.items() if places]
    also = f" In {'; '.join(hooks)}." if hooks else ""
    lacks = ", and why the others lack it" if value.lacking else ""
    says = f"{spec.says}.{shape} Where {len(value.families)} transformer families read it{lacks}.{also}"
    heads = (("where", "Where it is read"), ("laws", "Laws that speak of it"), ("lacking", "Who lacks it, and why"))
    headings = [Heading(2, *head) for head in heads]
    title = f"{name}: {spec.layout} [{axes}], {host}" if axes else f"{name}, {host}"
    return Page(f"values/{host}.{name}.md", name, html, headings, plain(says), wide=True, head=plain(title))
