"""Cards: the families at a glance, and the filters that narrow them down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from nnpedia import overview, views
from nnpedia.badges import Badge
from nnpedia.entry import Entry
from nnpedia.pages import Page, render, summary


@dataclass(frozen=True)
class Option:
    """Something a family has or has not; `families` are those that have it."""

    value: str
    title: str
    group: str
    families: frozenset[str]


@dataclass(frozen=True)
class Facet:
    """What the cards can be narrowed down by; its name is the key in the page's URL."""

    name: str
    title: str
    options: list[Option]

    def bits(self, family: str) -> str:
        """A digit for each option, 1 where the family has it."""
        return "".join("1" if family in option.families else "0" for option in self.options)


def facets(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> list[Facet]:
    """Badges, hosts, values and trained weights, each with the options that some family has."""
    if not entries:
        return []
    served = {
        name: {pair for pair, cell in overview.cells(entry).items() if cell.served} for name, entry in entries.items()
    }
    vocabulary = next(iter(entries.values())).family.vocabulary

    def some(*pairs: views.Pair) -> frozenset[str]:
        """The families that have one of these values."""
        return frozenset(name for name, own in served.items() if not own.isdisjoint(pairs))

    values = [
        Option(f"{host}.{value}", value, vocabulary.hosts[host].path, some((host, value)))
        for host, names in vocabulary.values.items()
        for value in names
    ]
    hosts = [
        Option(host, vocabulary.hosts[host].path, "", some(*((host, value) for value in names)))
        for host, names in vocabulary.values.items()
    ]
    marks = [
        Option(name, badge.title, "", frozenset(each for each in entries if name in entries[each].family.badges))
        for name, badge in badges.items()
    ]
    weights = [Option("real", "real weights", "", frozenset(name for name, entry in entries.items() if entry.real))]
    found = [
        Facet("badge", "Badge", marks),
        Facet("host", "Host", hosts),
        Facet("value", "Value", values),
        Facet("weights", "Weights", weights),
    ]
    return [Facet(each.name, each.title, [one for one in each.options if one.families]) for each in found]


def index_cards(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> Markup:
    """The cards of the home page, which stands at the root of the site."""
    return render("cards.html", **_context(entries, badges), root="")


def families_page(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> Page:
    """Every family: its card, and a line in a table."""
    html = render("families.html", **_context(entries, badges), root="../")
    says = f"{len(entries)} transformer families, by badge, host, value and trained weights: each with its own page."
    return Page("families/index.md", "Families", html, description=says, wide=True, head="Transformer families")


def _context(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> dict[str, object]:
    return {
        "entries": list(entries.values()),
        "badges": badges,
        "facets": facets(entries, badges),
        "summaries": {name: summary(entry) for name, entry in entries.items()},
    }
