"""Law rows: the laws as a page lists them, each with what every run measured of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from nnpedia.entry import Entry, once
from nnpedia.record import LawFact, Reference, Run
from nnpedia.variants import layout, named
from nnpedia.wording import in_words


@dataclass(frozen=True)
class Measure:
    run: str
    fact: LawFact


@dataclass
class LawForm:
    """A law as it reads on some of a family's checkpoints, and what the runs of those measured."""

    says: str
    formula: str
    exception: str | None
    measures: list[Measure] = field(default_factory=list)
    where: str = ""  # the variants or runs that have it so; empty when all have

    @property
    def measured(self) -> list[Measure]:
        return [measure for measure in self.measures if measure.fact.error is not None or not measure.fact.holds]

    @property
    def worst(self) -> Measure | None:
        """The run that found the largest error; one where the law is broken before any that holds."""
        return max(self.measured, key=lambda measure: (not measure.fact.holds, measure.fact.error or 0.0), default=None)

    @property
    def findings(self) -> list[tuple[bool, str, list[Measure]]]:
        """Whether the law holds, the error in words, and the runs that found it so, the worst first."""
        found: dict[tuple[bool, str], list[Measure]] = {}
        order = sorted(self.measured, key=lambda measure: (measure.fact.holds, -(measure.fact.error or 0.0)))
        for measure in order:
            found.setdefault((measure.fact.holds, in_words(measure.fact.error)), []).append(measure)
        return [(holds, error, measures) for (holds, error), measures in found.items()]

    @staticmethod
    def told(measures: Sequence[Measure]) -> list[tuple[str, str | None, int]]:
        """The runs of one finding in as few lines as say all: names, load, number of cases."""
        alike: dict[tuple[str | None, int], list[str]] = {}
        for measure in measures:
            alike.setdefault((measure.fact.load, measure.fact.cases), []).append(measure.run)
        return [(", ".join(runs), load, cases) for (load, cases), runs in alike.items()]

    @property
    def allowance(self) -> float:
        return max((measure.fact.tolerance or 0.0 for measure in self.measures), default=0.0)


@dataclass(frozen=True)
class LawRow:
    """A law; the first of its forms is the first run's."""

    host: str
    name: str
    forms: list[LawForm]

    @property
    def anchor(self) -> str:
        return f"law-{self.host}-{self.name}"

    @property
    def served(self) -> bool:
        """Whether some run measured it as a law that is meant to hold."""
        return any(form.measured and form.exception is None for form in self.forms)


@once
def law_rows(entry: Entry) -> Sequence[LawRow]:
    """The laws by host and name, with what every run measured."""
    rows: dict[tuple[str, str], LawRow] = {}
    for run in entry.runs:
        for law in run.laws:
            row = rows.setdefault((law.host, law.name), LawRow(law.host, law.name, []))
            said = (law.says, law.formula, law.exception)
            form = next((form for form in row.forms if (form.says, form.formula, form.exception) == said), None)
            if form is None:
                form = LawForm(*said)
                row.forms.append(form)
            form.measures.append(Measure(run.origin.name, law))
    runs = {run.origin.name: run for run in entry.runs}
    for row in rows.values():
        for form in row.forms:
            if len(form.measures) < len(entry.runs):
                form.where = named(entry, [runs[measure.run] for measure in form.measures], entry.runs)
    hosts = list(dict.fromkeys(host for host, _ in rows))  # one that only a later run has comes last, of its host
    return sorted(rows.values(), key=lambda row: hosts.index(row.host))


def reads_on(entry: Entry, form: LawForm, record: Reference | Run) -> bool:
    """Whether a law reads so on a checkpoint: a run of the same layout measured it."""
    measured = {measure.run for measure in form.measures}
    mine = layout(entry, record)
    return any(run.origin.name in measured and layout(entry, run) == mine for run in entry.runs)


def on_records(entry: Entry, law: LawRow, records: Collection[Reference | Run]) -> LawRow:
    """A law with the forms it has on these records alone; with all of its forms where no run speaks for them."""
    forms = [form for form in law.forms if any(reads_on(entry, form, record) for record in records)]
    return replace(law, forms=forms or law.forms)


def worded(formula: str, host: str, known: Collection[tuple[str, str]]) -> list[tuple[str, tuple[str, str] | None]]:
    """A formula cut into pieces, each with the value of `known` (host and name) that it names.

    A bare name is the host's own value, or else the only value called so on any host.
    """
    names = Counter(name for _, name in known)
    alone = {name: (host, name) for host, name in known if names[name] == 1}

    def value(word: str) -> tuple[str, str] | None:
        owner, _, name = word.rpartition(".")
        pair = owner or host, name
        return pair if pair in known else alone.get(name)

    pieces = re.split(r"([A-Za-z_][\w.]*)", formula)
    return [(piece, value(piece) if index % 2 else None) for index, piece in enumerate(pieces) if piece]


def contribution(laws: Sequence[LawRow], hosts: Iterable[str]) -> LawRow | None:
    """The law that says what a block with these sublayers adds to the residual stream.

    Of the laws that take `layer_input` to `layer_output` it is the one that names the most of the hosts, and no other.
    """
    known, best = set(hosts), None
    fit = 0
    for law in laws:
        formula = law.forms[0].formula
        if law.host != "layers" or "layer_input" not in formula or not formula.rstrip().endswith("layer_output"):
            continue
        named_hosts = set(re.findall(r"\b(self_attn|linear_attn|mlp)\.", formula))
        if named_hosts <= known and len(named_hosts) > fit:
            best, fit = law, len(named_hosts)
    return best
