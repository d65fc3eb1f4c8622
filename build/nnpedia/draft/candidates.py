"""Candidates: the places of a block that hold the tensor a value is, under each load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from nnpedia.draft.places import ACROSS, SAME, Finder, Place, resolve, same
from nnpedia.draft.recording import Event
from nnpedia.errors import NnpediaError
from nnpedia.layout import parse_pattern
from nnpedia.vocabulary import ValueSpec

if TYPE_CHECKING:
    from nnpedia.draft.sighting import Kind, Sighting

Pair = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """A place that holds a value, and the loads it does so under; `rank` orders the candidates of one value."""

    place: Place
    loads: frozenset[str]
    rank: tuple[int, ...]


def host_path(kind: Kind, host: str) -> str | None:
    """The native path of a host in a block."""
    if host == "layers":
        return kind.block.path
    part = kind.block.of({"self_attn": "attention", "mlp": "mlp", "linear_attn": "recurrent"}[host])
    return None if part is None else part.host


def layout_of(seen: Sighting, kind: Kind, pair: Pair) -> str:
    """The layout a block has a value in: the one it was seen in, else the vocabulary's."""
    own = kind.feeding.layouts if kind.feeding and pair[0] == "mlp" else {}
    return own.get(pair[1]) or seen.vocabulary.values[pair[0]][pair[1]].layout


def candidates_of(seen: Sighting, kind: Kind, pair: Pair, targets: list[Tensor]) -> dict[Place, Candidate]:
    path = host_path(kind, pair[0])
    if path is None:
        return {}
    axes = seen.vocabulary.axes_of(layout_of(seen, kind, pair))
    scales = seen.scales if pair[1] in ("attention_output", "mlp_output", "linear_attn_output") else None
    loads: dict[Place, set[str]] = {}
    ranks: dict[Place, tuple[int, ...]] = {}
    for label, recording in seen.recordings.items():
        finder = Finder(recording, path, kind.block.path, seen.names.paths)
        for index, target in enumerate(targets):
            if target.dim() != len(axes):
                continue
            found = list(finder.places(target, axes, SAME if label == next(iter(seen.loads)) else ACROSS, scales))
            if not found and pair[1] in ("attention_keys", "attention_values") and kind.attention:
                copies = kind.attention.sizes["num_heads"] // max(target.shape[1], 1)
                found = list(finder.copied(target, axes, "num_kv_heads", copies)) if copies > 1 else []
            for event, place in found:
                if pair[1] == "layer_mid" and event.access != "output":
                    continue  # of several roads to one tensor only its source leads to all that reads it
                loads.setdefault(place, set()).add(label)
                ranks.setdefault(place, (*_rank(pair, event, place), index))
    merged: dict[Place, Candidate] = {}
    for place in ranks:
        merged[place] = Candidate(place, frozenset(loads[place]), (-len(loads[place]), *ranks[place]))
    return merged


def _rank(pair: Pair, event: Event, place: Place) -> tuple[int, ...]:
    """Plainer places first; of the stream the earliest, of what an attention computes the last."""
    order = -event.order if pair[0] == "self_attn" else event.order
    own = int(not (place.at.startswith(("output", "input", "args", "kwargs"))))
    arguments = int(event.access in ("args", "kwargs", "input") and not event.operations)
    return (int(place.scale is not None), own, len(event.operations), arguments, order)


def holds(seen: Sighting, kind: Kind, pair: Pair, spec: ValueSpec) -> frozenset[str]:
    """The loads under which a spec's place holds a value in this block."""
    path = host_path(kind, pair[0])
    if path is None or spec.at is None:
        return frozenset()
    axes = seen.vocabulary.axes_of(layout_of(seen, kind, pair))
    good = set()
    for label, recording in seen.recordings.items():
        try:
            event = resolve(spec.at, recording, path, kind.block.path, seen.names.natives)
        except NnpediaError:
            continue
        if event is None:
            continue
        exact = SAME if label == next(iter(seen.loads)) else ACROSS
        for target in kind.targets.get(pair, []):
            tensor = _as_said(seen, event.tensor, spec, axes, target)
            if tensor is not None and same(tensor, target, exact) and event.written_over <= spec.copies:
                good.add(label)
                break
    return frozenset(good)


def _as_said(seen: Sighting, tensor: Tensor, spec: ValueSpec, axes: tuple[str, ...], target: Tensor) -> Tensor | None:
    if len(axes) != target.dim():
        return None
    sizes = dict(zip(axes, target.shape, strict=True))
    try:
        if spec.native is not None:
            if "copies" in spec.native:
                sizes["copies"] = tensor.numel() // max(target.numel(), 1)
            tensor = parse_pattern(spec.native, axes).split(tensor, sizes)
    except Exception:  # einops raises its own error for a shape that does not fit
        return None
    if spec.scale is None:
        return tensor
    factor = seen.scales.get(spec.scale)
    return None if factor is None else tensor * factor
