"""What a draft says of each value: places that hold it, why it is absent, or why it is not worked out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nnpedia.draft.candidates import Candidate, Pair, holds, host_path, layout_of
from nnpedia.draft.places import Place, resolve
from nnpedia.draft.recurring import is_kept
from nnpedia.draft.sighting import Kind, Sighting
from nnpedia.family import Family
from nnpedia.vocabulary import ValueSpec

#: Values that are the call's own: every model has them where the vocabulary says.
CALLS = (
    "input_ids",
    "attention_mask",
    "input_size",
    "token_embeddings",
    "lm_head_output",
    "logits",
    "next_token_probs",
)
CONTRIBUTIONS = ("attention_output", "mlp_output", "linear_attn_output")


@dataclass
class Said:
    """What a draft says of a value.

    Attributes:
        choices: Places that hold it, best first, each with the loads it does so under.
        absent: Why the model has none, where that was seen.
        todo: Why it is not worked out.
        taken: What another family says of it, whole, where a recurrence reads like that family's.
        layout: Its layout, where that is not the vocabulary's.
        others: What else it may be, where that was searched for.
        by_class: The address on blocks of other classes.
        retried: Whether a first place was given up because no law of it held.
    """

    choices: list[Candidate] = field(default_factory=list)
    absent: str | None = None
    todo: str | None = None
    taken: ValueSpec | None = None
    layout: str | None = None
    others: list[ValueSpec] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    by_class: dict[str, str] = field(default_factory=dict)
    retried: bool = False

    @property
    def at(self) -> Candidate | None:
        return self.choices[0] if self.choices and not (self.absent or self.todo) else None

    @property
    def given(self) -> bool:
        """Whether the draft has the value."""
        return self.at is not None or (self.taken is not None and not self.todo)


def said_of(seen: Sighting, pool: Sequence[Family]) -> dict[Pair, Said]:
    """What can be said of every value of the vocabulary but the root's."""
    said: dict[Pair, Said] = {}
    for host, table in seen.vocabulary.values.items():
        if host == "model":
            continue
        for name in table:
            said[host, name] = _said(seen, (host, name), pool)
    _take_recurrence(seen, said, pool)
    return said


def _take_recurrence(seen: Sighting, said: dict[Pair, Said], pool: Sequence[Family]) -> None:
    """A recurrence whose forward has every place another family's has is read as that one; its laws tell whether so."""
    kinds = seen.kinds_with("recurrent")
    table = seen.vocabulary.values["linear_attn"]
    if not kinds:
        return
    found: list[tuple[int, Family | None]] = []
    for family in [None, *(one for one in pool if "recurrent" in one.parts)]:
        specs = table if family is None else family.values["linear_attn"]
        there = [name for name, spec in specs.items() if spec.at and all(_there(seen, kind, spec) for kind in kinds)]
        wanted = [name for name, spec in specs.items() if spec.at]
        if set(wanted) <= {*there, "linear_attn_output", "premix", "state_output"}:
            found.append((-len(there), family))
    if not found:
        _search_recurrence(seen, said, kinds[0])
        return
    family = min(found, key=lambda one: one[0])[1]
    taken = table if family is None else family.values["linear_attn"]
    for name, spec in taken.items():
        if not said["linear_attn", name].given:
            said["linear_attn", name] = Said(taken=spec, order=list(taken))


def _search_recurrence(seen: Sighting, said: dict[Pair, Said], kind: Kind) -> None:
    """A recurrence that no family has is looked for among the tensors of its forward."""
    from nnpedia.draft.searched import specs_of

    found = None if kind.recurrence is None else specs_of(seen, kind, kind.recurrence)
    if found is None:
        return
    specs, order = found
    for name, choices in specs.items():
        said["linear_attn", name] = Said(taken=choices[0], others=choices[1:], order=order)


def order_of(seen: Sighting, said: Mapping[Pair, Said]) -> list[str]:
    """The recurrent values in the order the family they are read as has them; the vocabulary's order without one."""
    taken = [name for (host, name), one in said.items() if host == "linear_attn" and one.order]
    return said["linear_attn", taken[0]].order if taken else list(seen.vocabulary.values["linear_attn"])


def _there(seen: Sighting, kind: Kind, spec: ValueSpec) -> bool:
    """Whether a spec's place holds a tensor in a block."""
    path = host_path(kind, "linear_attn")
    if path is None or spec.at is None:
        return False
    event = resolve(spec.at, seen.first, path, kind.block.path, seen.names.natives)
    if event is None:
        return False
    sides = len(seen.vocabulary.axes_of(spec.layout)) if spec.native is None else len(parse(spec.native))
    return event.tensor.dim() == sides


def parse(native: str) -> list[str]:
    """The axes on the native side of a pattern, merged ones as one."""
    return re.findall(r"\([^()]*\)|[^\s()]+", native.split("->")[0])


def parts_of(seen: Sighting) -> list[str]:
    """The parts of the vocabulary that some block has."""
    mixtures = [kind for kind in seen.kinds if kind.feeding and kind.feeding.mixture]
    dense = [kind for kind in seen.kinds if kind.feeding and not kind.feeding.mixture]
    has = {
        "attention": seen.kinds_with("attention"),
        "mlp": dense,
        "mixture": mixtures,
        "recurrent": seen.kinds_with("recurrent"),
    }
    return [part for part, kinds in has.items() if kinds]


def _said(seen: Sighting, pair: Pair, pool: Sequence[Family]) -> Said:
    spec = seen.vocabulary.values[pair[0]][pair[1]]
    if spec.any_of and not set(spec.any_of) & set(parts_of(seen)):
        left_out = [
            kind.block.left_out[part] for kind in seen.kinds for part in spec.any_of if part in kind.block.left_out
        ]
        return Said(todo=left_out[0]) if left_out else Said(absent="part")
    having = [kind for kind in seen.kinds if kind.targets.get(pair)]
    if not having:
        return _without(seen, pair)
    found: dict[Place, list[Candidate]] = {}
    known = list(_known(pair, pool, seen))
    spelled = {place.at for place in known}
    for kind in having:
        pooled = {}
        for index, place in enumerate(known):
            loads = holds(seen, kind, pair, _as_spec(spec, place))
            if loads:
                pooled[place] = Candidate(place, loads, (-len(loads), 0, index))
        own = {
            place: Candidate(
                place, one.loads, (one.rank[0], int(place.at not in spelled), *_reordered(pair, place, one))
            )
            for place, one in kind.candidates.get(pair, {}).items()
            if place not in pooled
        }
        for place, candidate in {**pooled, **own}.items():
            found.setdefault(place, []).append(candidate)
    everywhere = [
        Candidate(place, frozenset.intersection(*(one.loads for one in ones)), max(one.rank for one in ones))
        for place, ones in found.items()
        if len(ones) == len(having)
    ]
    everywhere = sorted((one for one in everywhere if one.loads), key=lambda one: (-len(one.loads), one.rank))
    if everywhere:
        layout = layout_of(seen, having[0], pair)
        return Said(everywhere[:12], layout=layout if layout != spec.layout else None)
    return _by_class(seen, pair, having, found)


def _by_class(seen: Sighting, pair: Pair, having: list[Kind], found: Mapping[Place, list[Candidate]]) -> Said:
    """A place for each class of host, where blocks of one model are classes of their own."""
    best: dict[str, Candidate] = {}
    for kind in having:
        path = host_path(kind, pair[0])
        options = sorted(kind.candidates.get(pair, {}).values(), key=lambda one: one.rank)
        if path is None or not options:
            tried = ", ".join(sorted({place.at for place in found})[:4]) or "no place holds it"
            return Said(todo=f"no one place holds it on every block; on some: {tried}")
        name = type(seen.trial.model.get_submodule(path)).__name__
        best.setdefault(name, options[0])
    places = list(best.values())
    if len(best) > 1 and len({(one.place.native, one.place.scale) for one in places}) == 1:
        return Said(places[:1], by_class={name: one.place.at for name, one in list(best.items())[1:]})
    return Said(todo="blocks of one class hold it in different places")


def _reordered(pair: Pair, place: Place, candidate: Candidate) -> tuple[int, ...]:
    """What the plain order of places gets wrong: an attention's interior is read inside it, not on its way out."""
    if pair == ("layers", "mlp_input"):
        return (int(not place.at.endswith(".input")), *candidate.rank[1:])
    if pair[0] != "self_attn" or pair[1] in ("attention_premix", "attention_output"):
        return (0, *candidate.rank[1:])
    last = place.at.rpartition("@")[2]
    outside = int("@" not in place.at) + int(place.at.startswith("^"))
    passing = int(last.startswith("self_")) + int("head_dim)" in (place.native or ""))
    return (outside, passing, *candidate.rank[1:])


def _known(pair: Pair, pool: Sequence[Family], seen: Sighting) -> Iterator[Place]:
    """Places that the vocabulary or a family that is there reads the value at, each once."""
    given: dict[Place, None] = {}
    for spec in [seen.vocabulary.values[pair[0]][pair[1]], *(family.values[pair[0]][pair[1]] for family in pool)]:
        if spec.at is not None:
            given.setdefault(Place(spec.at, spec.native, spec.scale, spec.copies))
    yield from given


def _as_spec(spec: ValueSpec, place: Place) -> ValueSpec:
    return spec.model_copy(
        update={"at": place.at, "native": place.native, "scale": place.scale, "copies": place.copies, "reader": None}
    )


def _without(seen: Sighting, pair: Pair) -> Said:
    """A value no block has: absent where that was seen, else not worked out."""
    name = pair[1]
    shapes = {kind.block.shape for kind in seen.kinds}
    feedings = [kind.feeding for kind in seen.kinds if kind.feeding]
    mixers = [part for kind in seen.kinds for part in kind.block.sublayers if part.role != "mlp"]
    mlps = [part for kind in seen.kinds if (part := kind.block.of("mlp"))]
    if name == "layer_mid" and shapes == {"parallel"}:
        return Said(absent="attention and MLP are added to the stream together, so it has no state between them")
    if name == "attention_norm_output" and mixers and all(_is_stream(part, seen) for part in mixers):
        return Said(absent="nothing norms the stream before the attention reads it")
    if name == "mlp_norm_output" and mlps:
        if all(part.norm and any(part.norm == one.norm for one in mixers) for part in mlps):
            return Said(
                absent="the block has one norm, and the MLP reads what the attention reads: attention_norm_output"
            )
        if all(_is_stream(part, seen) for part in mlps):
            return Said(absent="nothing norms the stream before the MLP reads it")
    if pair[0] == "linear_attn" and name not in ("premix", "linear_attn_output") and _only_convolves(seen):
        return Said(absent="its mixer is a convolution over the last few tokens: no recurrence keeps a state")
    reasons = [one.absent[name] for one in feedings if one.mixture and name in one.absent]
    if reasons and len(reasons) == sum(one.mixture for one in feedings):
        return Said(absent=reasons[0])
    why = [one.why[name] for one in feedings if name in one.why]
    why += [kind.attention.why[name] for kind in seen.kinds if kind.attention and name in kind.attention.why]
    why += [kind.block.why for kind in seen.kinds if kind.block.why]
    return Said(todo=why[0] if why else "nothing in a block was recognized as it")


def _only_convolves(seen: Sighting) -> bool:
    """Whether every recurrent mixer has a convolution, and none gives the cache the state of a recurrence."""
    hosts = [host for kind in seen.kinds_with("recurrent") if (host := host_path(kind, "linear_attn")) is not None]
    return bool(hosts) and all(
        any(isinstance(one, nn.Conv1d) for one in seen.trial.model.get_submodule(host).modules())
        and not any(event.operations and is_kept(event) for event in seen.first.within(host))
        for host in hosts
    )


def _is_stream(part: Any, seen: Sighting) -> bool:
    """Whether a sublayer is called with the stream itself."""
    from nnpedia.draft.places import same

    blocks = [kind.block for kind in seen.kinds if any(one is part for one in kind.block.sublayers)]
    return any(
        same(part.reads.reshape(stream.shape), stream)
        for block in blocks
        for stream in (block.entering, block.mid)
        if stream is not None and part.reads.numel() == stream.numel()
    )
