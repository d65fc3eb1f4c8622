"""What of the families a row of the coverage table depends on.

A draft takes words of the families that are there: places, forms of laws, readouts, sizes, a recurrence. Those it took
have to be there still. What others offer matters to a draft in which something is open, as it may be what closes it;
to one with nothing open it only matters for which family is the nearest, and that is told as of the day of measuring.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nnpedia.family import Family
from nnpedia.vocabulary import LawSpec, ValueSpec, Vocabulary

Values = Mapping[str, Mapping[str, ValueSpec]]
Laws = Mapping[str, Mapping[str, LawSpec]]

#: What of a row says that something is open: of a family's score, and of another type's draft.
OPEN = ("wrong", "missing", "partly", "name_faults", "lacking", "added", "problems", "cause", "untold", "todo")


def beside(families: Mapping[str, Family], hidden: Iterable[str]) -> list[Family]:
    """The families that are not hidden and do not extend, over however many others, one that is."""
    gone = set(hidden)
    while more := {name for name, one in families.items() if one.extends in gone} - gone:
        gone |= more
    return [family for name, family in families.items() if name not in gone]


def words_of(family: Family) -> frozenset[str]:
    """All that a draft may take of a family, each as one line."""
    words = {f"readout {family.readout}", *_words(family.values, family.laws)}
    words |= {f"size {axis}: {texts}" for axis, texts in family.sizes.items()}
    for variant in family.variants.values():
        words |= {
            f"law {host}.{name}: {law.formula}"
            for host, table in variant.laws.items()
            for name, law in table.items()
            if law.formula is not None
        }
    if "recurrent" in family.parts:
        table = {name: _plain(spec) for name, spec in family.values["linear_attn"].items()}
        words.add(f"recurrence {json.dumps(table)}")
    return frozenset(words)


def _words(values: Values, laws: Laws) -> Iterable[str]:
    for host, table in values.items():
        for name, spec in table.items():
            if spec.at is not None:
                yield f"place {host}.{name}: {spec.at}, {spec.native}, {spec.scale}, {spec.copies}"
    for host, rules in laws.items():
        for name, law in rules.items():
            if law.exception is None:
                yield f"law {host}.{name}: {law.formula}"


def _plain(spec: ValueSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude={"says"}, exclude_none=True)


def taken(drafted: Family, base: Family | None, pool: Iterable[Family], vocabulary: Vocabulary) -> list[str]:
    """The families a draft took words of: its base, and for each word of its own the first that has it."""
    words = words_of(drafted) - set(_words(vocabulary.values, vocabulary.laws)) - {f"readout {vocabulary.readout}"}
    found = [] if base is None else [base.family]
    words -= frozenset() if base is None else words_of(base)
    for family in pool:
        if own := words & words_of(family):
            found.append(family.family)
            words -= own
    return found


def read_now(families: Mapping[str, Family], names: Iterable[str]) -> str:
    """A digest of all that drafting and scoring read of these families; their prose and small sizes are no part."""
    whole = {}
    for name in sorted(set(names)):
        one = families.get(name)
        whole[name] = one and {
            "words": sorted(words_of(one)),
            "values": {host: {key: _plain(spec) for key, spec in table.items()} for host, table in one.values.items()},
            "names": one.names,
            "parts": one.parts,
            "virtual": one.virtual,
            "badges": one.badges,
            "config": one.checkpoints[0].config if one.checkpoints else None,
        }
    return digest(json.dumps(whole, sort_keys=True))


def offered_now(families: Mapping[str, Family], hidden: Iterable[str]) -> str:
    """A digest of all that the families beside the hidden ones offer; which of them does is no part of it."""
    return digest("\n".join(sorted(frozenset().union(*(words_of(one) for one in beside(families, hidden))))))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def is_open(row: Mapping[str, Any]) -> bool:
    """Whether something in a row is not as it should be, so that another family's words may mend it."""
    return any(row.get(key) for key in OPEN) or row.get("state") in ("drafted", "not yet")
