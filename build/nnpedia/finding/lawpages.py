"""Law pages: one for each law of the vocabulary and of the families, and the list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from nnpedia import lawrows, overview
from nnpedia.entry import Entry
from nnpedia.finding.holders import by_number
from nnpedia.lawrows import LawForm, LawRow
from nnpedia.linebreaks import breakable_formula
from nnpedia.pages import Page, plain, render
from nnpedia.prose import Heading
from nnpedia.views import Pair
from nnpedia.vocabulary import LawSpec, Vocabulary, load_vocabulary


@dataclass(frozen=True)
class Holding:
    """A law on a family, as it reads on some of its checkpoints."""

    family: str
    form: LawForm

    @property
    def excepted(self) -> bool:
        return self.form.exception is not None

    @property
    def error(self) -> float | None:
        """The largest error measured, in epsilons; `None` where nothing was measured."""
        worst = self.form.worst
        return worst.fact.error if worst else None

    @property
    def broken(self) -> bool:
        worst = self.form.worst
        return worst is not None and not worst.fact.holds


@dataclass(frozen=True)
class LawEntry:
    """A law over all families."""

    host: str
    name: str
    says: str  # and its formula: the vocabulary's, or where no family has that one, what most have in its place
    formula: str
    tolerance: float
    holdings: list[Holding]
    missing: dict[str, list[str]]  # why it does not apply, and the families it does not apply to

    @property
    def uri(self) -> str:
        return f"laws/{self.host}.{self.name}/"

    @property
    def holding(self) -> list[Holding]:
        return [each for each in self.holdings if not each.excepted]

    @property
    def excepted(self) -> list[Holding]:
        return [each for each in self.holdings if each.excepted]

    @property
    def families(self) -> list[str]:
        """Those on which it holds, on some of their checkpoints at least."""
        return list(dict.fromkeys(each.family for each in self.holding))

    @property
    def groups(self) -> list[tuple[str, list[Holding]]]:
        """By formula, the vocabulary's first, then the one that most families have."""
        found: dict[str, list[Holding]] = {}
        for each in self.holding:
            found.setdefault(each.form.formula, []).append(each)
        return sorted(found.items(), key=lambda group: (group[0] != self.formula, -len(group[1])))

    @property
    def exact(self) -> int:
        """On how many of its families every run found it exact."""
        inexact = {each.family for each in self.holding if each.error != 0.0}
        return len(set(self.families) - inexact)

    @property
    def worst(self) -> float | None:
        """The largest error of a family it holds on, in epsilons."""
        return max((each.error for each in self.holding if each.error is not None), default=None)


def formula_links(known: Collection[Pair], root: str) -> Callable[[str, str], Markup]:
    """What turns a formula of a host into one whose values lead to their pages; `root` leads to the site's."""

    def links(formula: str, host: str) -> Markup:
        return Markup("").join(
            breakable_formula(word)
            if pair is None
            else Markup('<a href="{}values/{}.{}/">{}</a>').format(root, *pair, word)
            for word, pair in lawrows.worded(formula, host, known)
        )

    return links


def law_entries(folder: Path, entries: Mapping[str, Entry]) -> list[LawEntry]:
    """Every law, in the vocabulary's order, with what the runs of every family say of it."""
    vocabulary = load_vocabulary(folder)
    known = pairs_of(vocabulary)
    rows = {name: {(row.host, row.name): row for row in lawrows.law_rows(entry)} for name, entry in entries.items()}
    cells = {name: overview.cells(entry) for name, entry in entries.items()}
    return [
        _entry(host, name, spec, known, rows, cells)
        for host, laws in vocabulary.laws.items()
        for name, spec in laws.items()
    ]


def _entry(
    host: str,
    name: str,
    spec: LawSpec,
    known: Collection[Pair],
    rows: Mapping[str, Mapping[Pair, LawRow]],
    cells: Mapping[str, Mapping[Pair, overview.Cell]],
) -> LawEntry:
    named = {pair for _, pair in lawrows.worded(spec.formula, host, known) if pair is not None}
    holdings = [
        Holding(family, form) for family, own in rows.items() if (row := own.get((host, name))) for form in row.forms
    ]
    missing: dict[str, list[str]] = {}
    for family, own in rows.items():
        if (host, name) not in own:
            lacking = [cells[family][pair].says for pair in sorted(named) if not cells[family][pair].served]
            why = "; ".join(dict.fromkeys(lacking)) or "no run measured it"
            missing.setdefault(why, []).append(family)
    says, formula = _reading(spec, [each.form for each in holdings if not each.excepted])
    return LawEntry(host, name, says, formula, spec.tolerance, holdings, by_number(missing))


def _reading(spec: LawSpec, forms: Sequence[LawForm]) -> tuple[str, str]:
    """What a law says and its formula, as some family has it."""
    found = Counter((form.says, form.formula) for form in forms)
    if not found or any(formula == spec.formula for _, formula in found):
        return spec.says, spec.formula
    return found.most_common(1)[0][0]


def pairs_of(vocabulary: Vocabulary) -> set[Pair]:
    """Every value by host and name."""
    return {(host, name) for host, values in vocabulary.values.items() for name in values}


def law_pages(folder: Path, laws: list[LawEntry], entries: Mapping[str, Entry]) -> list[Page]:
    """The list of laws and a page for each."""
    vocabulary = load_vocabulary(folder)
    known = pairs_of(vocabulary)
    links = formula_links(known, "../")
    html = render("lawlist.html", vocabulary=vocabulary, laws=laws, total=len(entries), formula=links)
    says = f"{len(laws)} identities between the values and weights of a transformer, each measured on live models."
    head = "Identities inside transformers, measured"
    listing = Page("laws/index.md", "Laws", html, description=says, wide=True, head=head)
    return [listing, *(law_page(law, laws, vocabulary, entries, formula_links(known, "../../")) for law in laws)]


def law_page(
    law: LawEntry,
    laws: list[LawEntry],
    vocabulary: Vocabulary,
    entries: Mapping[str, Entry],
    formula: Callable[[str, str], Markup],
) -> Page:
    html = render("law.html", law=law, laws=laws, vocabulary=vocabulary, entries=entries, formula=formula)
    says = f"{law.says}: {law.formula}. Measured on {len(law.families)} transformer families, with the error on each."
    headings = [Heading(2, "holds", "Where it holds")]
    head = plain(f"{law.name}: {law.says}")
    return Page(f"{law.uri.rstrip('/')}.md", law.name, html, headings, plain(says), wide=True, head=head)
