"""Views: what a family page shows, worked out from the family's records.

Records are kept per checkpoint; a page reads per value and per law. The functions here turn the
one into the other and decide nothing about markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nnpedia.entry import Entry
from nnpedia.record import ConfigRow, HostFact, LawFact, Load, Reference, Run, ValueFact
from nnpedia.wording import in_words

#: Axes that belong to the call, not to the model: they keep their names where others show numbers.
CALL_AXES = {"batch", "seq", "query", "key"}


@dataclass(frozen=True)
class Reading:
    """What one probe found of one value."""

    run: str
    load: Load
    found: bool
    reason: str | None


@dataclass(frozen=True)
class ValueRow:
    """A value as the page shows it."""

    fact: ValueFact  # the first record's; its shape is that of the full-size checkpoint
    path: str  # "model.layers[i].self_attn"
    readings: list[Reading]
    assignable: bool
    causal: bool | None
    in_place: bool | None

    @property
    def anchor(self) -> str:
        return anchor(self.fact.host, self.fact.name)

    @property
    def expression(self) -> str:
        return f"{self.path}.{self.fact.name}"

    @property
    def varies(self) -> bool:
        return len({reading.found for reading in self.readings}) > 1

    @property
    def never(self) -> bool:
        return bool(self.readings) and not any(reading.found for reading in self.readings)

    @property
    def condition(self) -> str | None:
        """Under which loads the value is there, where the probes differ."""
        return condition(self.readings) if self.varies or self.never else None

    @property
    def reasons(self) -> list[str]:
        return list(dict.fromkeys(reading.reason for reading in self.readings if reading.reason))

    @property
    def sized(self) -> str:
        """The axes with the full-size checkpoint's numbers: `[batch 32 seq 128]`."""
        fact = self.fact
        if not fact.axes or fact.shape is None or len(fact.shape) != len(fact.axes):
            return ""
        named = (axis if axis in CALL_AXES else str(size) for axis, size in zip(fact.axes, fact.shape, strict=True))
        return f"[{' '.join(named)}]"


@dataclass(frozen=True)
class HostView:
    """A host's heading and its rows."""

    name: str
    path: str
    classes: list[str]
    rows: list[ValueRow]


@dataclass(frozen=True)
class MatrixRow:
    row: ValueRow
    cells: list[tuple[bool | None, str]]  # per load: found, and why not


@dataclass(frozen=True)
class Matrix:
    """Loads by values, only the values that some load lacks."""

    heads: list[tuple[str, list[Load]]]  # per run: its loads
    rows: list[MatrixRow]
    constant: int  # values there under every load


@dataclass(frozen=True)
class Measure:
    run: str
    fact: LawFact


@dataclass(frozen=True)
class LawRow:
    host: str
    name: str
    says: str
    formula: str
    exception: str | None
    measures: list[Measure] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return f"law-{self.host}-{self.name}"

    @property
    def measured(self) -> list[Measure]:
        return [measure for measure in self.measures if measure.fact.error is not None or not measure.fact.holds]

    @property
    def findings(self) -> dict[tuple[bool, str], list[Measure]]:
        """The measures by what they found: whether the law holds, and the error in words."""
        found: dict[tuple[bool, str], list[Measure]] = {}
        for measure in self.measured:
            found.setdefault((measure.fact.holds, in_words(measure.fact.error)), []).append(measure)
        return found

    @property
    def allowance(self) -> float:
        return max((measure.fact.tolerance or 0.0 for measure in self.measures), default=0.0)


def anchor(host: str, name: str) -> str:
    return f"value-{host}-{name}"


def condition(readings: Sequence[Reading]) -> str:
    """What a load has to be for the value to be there, told per run where the runs differ."""
    runs: dict[str, list[Reading]] = {}
    for reading in readings:
        runs.setdefault(reading.run, []).append(reading)
    wanted: dict[str, list[str]] = {}
    for run, of_run in runs.items():
        if not all(reading.found for reading in of_run):
            wanted.setdefault(needs(of_run), []).append(run)
    everywhere = len(wanted) == 1 and sum(len(names) for names in wanted.values()) == len(runs)
    return "; ".join(what if everywhere else f"{what} on {', '.join(names)}" for what, names in wanted.items())


def needs(readings: Sequence[Reading]) -> str:
    """The options that tell one run's loads which give a value from those which do not, as one would write them."""
    if not any(reading.found for reading in readings):
        return "no load that was probed gives it"
    for key in sorted({key for reading in readings for key in reading.load.options}):
        good = [reading.load.options.get(key) for reading in readings if reading.found]
        bad = {reading.load.options.get(key) for reading in readings if not reading.found}
        if None not in good and not set(good) & bad:
            return f"needs {key}=" + " or ".join(f'"{choice}"' for choice in dict.fromkeys(good))
    labels = dict.fromkeys(reading.load.label for reading in readings if reading.found)
    return "only under " + ", ".join(labels)


def hosts_of(fact: Reference | Run) -> list[HostFact]:
    """The root's hosts, then those of every block kind, once each."""
    hosts = [*fact.root, *(host for kind in fact.kinds for host in kind.hosts)]
    return list({(host.name, host.native_class): host for host in hosts}.values())


def host_views(entry: Entry) -> list[HostView]:
    """The values this family has, host by host in the records' order."""
    facts = merged(entry)
    paths: dict[str, str] = {}
    classes: dict[str, list[str]] = {}
    for record in entry.facts:
        for host in hosts_of(record):
            paths.setdefault(host.name, host.path)
            known = classes.setdefault(host.name, [])
            if host.native_class not in known:
                known.append(host.native_class)
    present = [fact for fact in facts if fact.absent is None]
    names = [*paths, *(fact.host for fact in present if fact.host not in paths)]
    return [
        HostView(name, paths.get(name, name), classes.get(name, []), rows)
        for name in dict.fromkeys(names)
        if (rows := [value_row(entry, fact, paths.get(name, name)) for fact in present if fact.host == name])
    ]


def merged(entry: Entry) -> list[ValueFact]:
    """Every value any record speaks of, as the first record to speak of it does."""
    first: dict[tuple[str, str], ValueFact] = {}
    for record in entry.facts:
        for fact in record.values:
            first.setdefault((fact.host, fact.name), fact)
    return list(first.values())


def absent(entry: Entry) -> dict[str, list[ValueFact]]:
    """The values this family does not have, by the reason."""
    reasons: dict[str, list[ValueFact]] = {}
    for fact in merged(entry):
        if fact.absent is not None:
            reasons.setdefault(fact.absent, []).append(fact)
    return reasons


def value_row(entry: Entry, fact: ValueFact, path: str) -> ValueRow:
    probed = [
        (run, value) for run in entry.runs for value in run.values if (value.host, value.name) == (fact.host, fact.name)
    ]
    readings = [
        Reading(run.origin.name, load, value.readable[load.label], value.reasons.get(load.label))
        for run, value in probed
        for load in run.loads
        if load.label in value.readable
    ]
    return ValueRow(
        fact=fact,
        path=path,
        readings=readings,
        assignable=any(value.assignable for _, value in probed) if probed else fact.assignable,
        causal=agreed(value.causal for _, value in probed),
        in_place=agreed(value.in_place for _, value in probed),
    )


def agreed(findings: Iterable[bool | None]) -> bool | None:
    """True when every probe that looked found it so, None when none looked."""
    looked = [finding for finding in findings if finding is not None]
    return all(looked) if looked else None


def matrix(entry: Entry, hosts: Sequence[HostView]) -> Matrix:
    heads = [(run.origin.name, run.loads) for run in entry.runs if run.loads]
    rows = [row for host in hosts for row in host.rows]
    differing = [row for row in rows if row.varies or row.never]
    return Matrix(heads, [MatrixRow(row, _cells(row, heads)) for row in differing], len(rows) - len(differing))


def _cells(row: ValueRow, heads: list[tuple[str, list[Load]]]) -> list[tuple[bool | None, str]]:
    found = {(reading.run, reading.load.label): reading for reading in row.readings}
    cells: list[tuple[bool | None, str]] = []
    for run, loads in heads:
        for load in loads:
            reading = found.get((run, load.label))
            cells.append((reading.found, reading.reason or "") if reading else (None, "not probed"))
    return cells


def law_rows(entry: Entry) -> list[LawRow]:
    """The laws by host and name, with what every run measured."""
    rows: dict[tuple[str, str], LawRow] = {}
    for run in entry.runs:
        for law in run.laws:
            row = rows.setdefault(
                (law.host, law.name), LawRow(law.host, law.name, law.says, law.formula, law.exception)
            )
            row.measures.append(Measure(run.origin.name, law))
    return list(rows.values())


def contribution(laws: Sequence[LawRow]) -> LawRow | None:
    """The law that says what a block adds to the residual stream."""
    return next((law for law in laws if law.host == "layers" and law.name == "residual_sum"), None)


def size_table(references: Sequence[Reference]) -> tuple[list[str], list[tuple[Reference, list[int | None]]]]:
    """The sizes of the public checkpoints: column names, and a row per checkpoint."""
    names = list(dict.fromkeys(name for reference in references for name in reference.sizes))
    if all(reference.sizes.get("qk_head_dim") == reference.sizes.get("head_dim") for reference in references):
        names = [name for name in names if name != "qk_head_dim"]
    return names, [(reference, [reference.sizes.get(name) for name in names]) for reference in references]


def config_split(rows: Sequence[ConfigRow]) -> tuple[list[ConfigRow], list[ConfigRow]]:
    """What somebody set, and what is the config class's default."""
    said = [row for row in rows if row.origin != "defaults"]
    return said, [row for row in rows if row.origin == "defaults"]
