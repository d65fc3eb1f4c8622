"""Views: what a family page shows, worked out from the family's records.

Records are kept per checkpoint; a page reads per value and per law. The functions here turn the
one into the other and decide nothing about markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nnpedia import kinds
from nnpedia.entry import Entry, once
from nnpedia.readings import Reading, condition
from nnpedia.record import ConfigRow, HostFact, Load, Reference, Run, ValueFact
from nnpedia.variants import Signature, named, signature
from nnpedia.wording import blocks

#: Axes that belong to the call, not to the model: they keep their names where others show numbers.
CALL_AXES = {"batch", "seq", "query", "key"}


@dataclass(frozen=True)
class Form:
    """A value as some of a family's checkpoints have it, where they do not all have it alike."""

    fact: ValueFact
    where: str  # the variants or checkpoints that have it so


@dataclass(frozen=True)
class ValueRow:
    """A value as the page shows it.

    `fact` is the first record's that has the value; `of` names that record's variant or checkpoint where others differ.
    `otherwise` is how the others have it, or that they lack it. `layers` names the blocks, by checkpoint, where not
    every block has the value.
    """

    fact: ValueFact
    path: str  # "model.layers[i].self_attn"
    readings: list[Reading]
    assignable: bool
    causal: bool | None
    in_place: bool | None
    of: str = ""
    sized_on: str = ""  # the checkpoint whose sizes the shape has, where it is not the page's first
    otherwise: list[Form] = field(default_factory=list)
    absent_on: dict[str, str] = field(default_factory=dict)  # run to the reason
    layers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return anchor(self.fact.host, self.fact.name)

    @property
    def lacking(self) -> list[Form]:
        """The checkpoints that do not have it, with the reason."""
        return [form for form in self.otherwise if form.fact.absent is not None]

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
    virtual: bool = False  # no module of its own: read on the block


@dataclass(frozen=True)
class AbsentRow:
    """A reason, with the hosts it takes away as a whole and the single values it takes away."""

    reason: str
    whole: dict[str, list[ValueFact]]
    some: list[ValueFact]


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


def anchor(host: str, name: str) -> str:
    return f"value-{host}-{name}"


def hosts_of(fact: Reference | Run) -> list[HostFact]:
    """The root's hosts, then those of every block kind, once each."""
    hosts = [*fact.root, *(host for kind in fact.kinds for host in kind.hosts)]
    return list({(host.name, host.native_class): host for host in hosts}.values())


Pair = tuple[str, str]
Record = Reference | Run


@once
def host_views(entry: Entry) -> Sequence[HostView]:
    """The values that some checkpoint of the family has, host by host in the records' order."""
    paths: dict[str, str] = {}
    classes: dict[str, list[str]] = {}
    for record in entry.facts:
        for host in hosts_of(record):
            paths.setdefault(host.name, host.path)
            known = classes.setdefault(host.name, [])
            if host.native_class not in known:
                known.append(host.native_class)
    virtual = virtual_hosts(entry)
    said = {pair: facts for pair, facts in facts_of(entry).items() if any(fact.absent is None for _, fact in facts)}
    names = [*paths, *(host for host, _ in said if host not in paths)]
    return [
        HostView(name, paths.get(name, name), [] if name in virtual else classes.get(name, []), rows, name in virtual)
        for name in dict.fromkeys(names)
        if (rows := [value_row(entry, said[pair], paths.get(name, name)) for pair in said if pair[0] == name])
    ]


def virtual_hosts(entry: Entry) -> set[str]:
    """The hosts that are no module of their own."""
    each = (kind.hosts for record in entry.facts for kind in record.kinds)
    return {host.name for hosts in each for host in hosts if kinds.is_virtual(host, hosts)}


def facts_of(entry: Entry) -> dict[Pair, list[tuple[Record, ValueFact]]]:
    """What every record says of every value."""
    said: dict[Pair, list[tuple[Record, ValueFact]]] = {}
    for record in entry.facts:
        for fact in record.values:
            said.setdefault((fact.host, fact.name), []).append((record, fact))
    return said


def absent(entry: Entry) -> list[AbsentRow]:
    """The values no checkpoint of the family has, by the reason, hosts that are absent as a whole first."""
    said = facts_of(entry)
    missing = {pair: facts[0][1] for pair, facts in said.items() if all(fact.absent is not None for _, fact in facts)}
    sizes = Counter(host for host, _ in said)
    reasons: dict[str, dict[str, list[ValueFact]]] = {}
    for (host, _), fact in missing.items():
        reasons.setdefault(fact.absent or "", {}).setdefault(host, []).append(fact)
    return [
        AbsentRow(
            reason,
            whole={host: facts for host, facts in hosts.items() if len(facts) == sizes[host]},
            some=[fact for host, facts in hosts.items() if len(facts) < sizes[host] for fact in facts],
        )
        for reason, hosts in reasons.items()
    ]


def value_row(entry: Entry, said: Sequence[tuple[Record, ValueFact]], path: str) -> ValueRow:
    """The row of a value, from what every record says of it; at least one record has it."""
    first, fact = next((record, fact) for record, fact in said if fact.absent is None)
    forms: dict[Signature, list[Record]] = {}
    for record, each in said:
        forms.setdefault(signature(each), []).append(record)
    facts = {signature(each): each for _, each in reversed(said)}
    probed = [(record, each) for record, each in said if isinstance(record, Run) and each.absent is None]
    return ValueRow(
        fact=fact,
        path=path,
        readings=[
            Reading(run.origin.name, load, each.readable[load.label], each.reasons.get(load.label))
            for run, each in probed
            for load in run.loads
            if load.label in each.readable
        ],
        assignable=any(each.assignable for _, each in probed) if probed else fact.assignable,
        causal=agreed(each.causal for _, each in probed),
        in_place=agreed(each.in_place for _, each in probed),
        of=named(entry, forms[signature(fact)], entry.facts) if len(forms) > 1 else "",
        sized_on="" if first is entry.facts[0] else first.origin.name,
        otherwise=[
            Form(facts[key], named(entry, records, entry.facts))
            for key, records in forms.items()
            if key != signature(fact)
        ],
        absent_on={record.origin.name: each.absent for record, each in said if each.absent is not None},
        layers=some_layers(said),
    )


def some_layers(said: Sequence[tuple[Record, ValueFact]]) -> list[tuple[str, str]]:
    """The blocks that have a value, where not every block does: on the first such reference and on every run.

    Checkpoints and blocks, both in words.
    """
    found: dict[str, list[str]] = {}
    full_size = False
    for record, fact in said:
        layers = kinds.layers_of(record, fact)
        if layers is None or fact.absent is not None or (full_size and isinstance(record, Reference)):
            continue
        full_size = full_size or isinstance(record, Reference)
        total = sum(len(kind.layers) for kind in record.kinds)
        found.setdefault(blocks(layers, total), []).append(record.origin.name)
    return [(", ".join(names), layers) for layers, names in found.items()]


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
    lacking = row.absent_on
    cells: list[tuple[bool | None, str]] = []
    for run, loads in heads:
        for load in loads:
            reading = found.get((run, load.label))
            if reading is not None:
                cells.append((reading.found, reading.reason or ""))
            else:
                cells.append((False, lacking[run]) if run in lacking else (None, "not probed"))
    return cells


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
