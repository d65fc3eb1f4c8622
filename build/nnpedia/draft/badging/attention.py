"""Badges of attention."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from nnpedia import formula
from nnpedia.draft.badging.registry import attentions_of, badge, form_of, kinds_of, module_at, projections_of
from nnpedia.draft.candidates import host_path
from nnpedia.draft.places import same
from nnpedia.draft.proving import Draft
from nnpedia.draft.sighting import Kind


@badge("biased-qkv")
def _biased_qkv(draft: Draft) -> bool:
    biases = [
        getattr(module, "bias", None) is not None
        for kind, host in attentions_of(draft)
        for _, module in projections_of(draft, kind, host)
    ]
    return bool(biases) and all(biases)


@badge("fused-qkv")
def _fused_qkv(draft: Draft) -> bool:
    counts = []
    for kind, host in attentions_of(draft):
        part = kind.block.of("attention")
        reading = [
            name
            for name, _ in projections_of(draft, kind, host)
            if part is not None
            and (event := draft.seen.first.at(f"{host}.{name}", (), "input", ())) is not None
            and event.tensor.shape == part.reads.shape
            and torch.equal(event.tensor, part.reads)
        ]
        counts.append(len(reading))
    return bool(counts) and max(counts) == 1 and not hasattr(draft.seen.trial.config, "kv_lora_rank")


@badge("clipped-qkv")
def _clipped(draft: Draft) -> bool:
    """Whether an operation that clamps gives what a projection returned, cut off at one bound on either side."""
    for kind, host in attentions_of(draft):
        called = [
            draft.seen.first.at(f"{host}.{name}", (), "output", ()) for name, _ in projections_of(draft, kind, host)
        ]
        made = [event.tensor.flatten() for event in called if event is not None]
        for event in draft.seen.first.within(host):
            clamps = bool(event.operations) and re.search(r"(^|_)(clamp|clip)_", event.operations[-1]) is not None
            if not clamps or event.access != "output" or not event.tensor.is_floating_point():
                continue
            cut, bound = event.tensor.flatten(), float(event.tensor.abs().max())
            if any(one.numel() == cut.numel() and same(one.clamp(-bound, bound), cut) for one in made):
                return True
    return False


def _heads(draft: Draft) -> list[tuple[int, int]]:
    """For each attention, its heads of queries and of keys; keys that are copied for every query count once."""
    found = []
    for kind, _ in attentions_of(draft):
        if kind.attention is None or "num_kv_heads" not in kind.attention.sizes:
            continue
        keys = kind.attention.targets.get("attention_keys", [])
        own = len(keys[0].transpose(0, 1).flatten(1).unique(dim=0)) if keys else kind.attention.sizes["num_kv_heads"]
        found.append((kind.attention.sizes["num_heads"], own))
    return found


@badge("grouped-query-attention")
def _grouped(draft: Draft) -> bool:
    return any(1 < keys < queries for queries, keys in _heads(draft))


@badge("multi-query-attention")
def _multi_query(draft: Draft) -> bool:
    counts = _heads(draft)
    return bool(counts) and all(keys == 1 < queries for queries, keys in counts)


def _patterns(draft: Draft) -> list[Tensor]:
    found = [kind.attention.targets.get("attention_probabilities", []) for kind, _ in attentions_of(draft)]  # type: ignore[union-attr]
    return [targets[0] for targets in found if targets]


def _first_keys(pattern: Tensor) -> list[int]:
    """For each query, the first key any head of any prompt attends to."""
    there = (pattern > 0).any(0).any(0)
    return [int(row.nonzero()[0]) for row in there if bool(row.any())]


@badge("sliding-window")
def _sliding(draft: Draft) -> bool:
    steps = [{after - before for before, after in pairwise(first)} for first in map(_first_keys, _patterns(draft))]
    return any(step == {0, 1} for step in steps)


@badge("chunked-attention")
def _chunked(draft: Draft) -> bool:
    return any(
        max((after - before for before, after in pairwise(first)), default=0) > 1
        for first in map(_first_keys, _patterns(draft))
    )


@badge("attention-sinks")
def _sinks(draft: Draft) -> bool:
    return "softmax_beside" in form_of(draft, "self_attn", "pattern")


@badge("attention-softcap")
def _attention_softcap(draft: Draft) -> bool:
    return "softcap" in form_of(draft, "self_attn", "scores")


@badge("alibi")
def _alibi(draft: Draft) -> bool:
    return "alibi" in form_of(draft, "self_attn", "scores")


@badge("unscaled-attention")
def _unscaled(draft: Draft) -> bool:
    """Whether the scores are the dot products as they are, and no attention has a scale, or only one of 1.0."""
    scales = [
        value
        for _, host in attentions_of(draft)
        for name, value in vars(module_at(draft, host)).items()
        if "scal" in name
    ]
    plain = _is_plain(form_of(draft, "self_attn", "scores"))
    return plain and all(type(value) is float and value == 1.0 for value in scales)


def _is_plain(law: str) -> bool:
    """Whether a law's scores are the dot products of queries and keys, at most times a scale that modules have."""
    if not law:
        return False
    match formula.parse(law, law=True).left:
        case ast.Call(func=ast.Name("unmasked"), args=[scores, *_]):
            pass
        case _:
            return False
    match scores:
        case ast.BinOp(left=ast.Name(scale), op=ast.Mult(), right=product) if "scal" in scale:
            scores = product
        case ast.BinOp(left=product, op=ast.Mult(), right=ast.Name(scale)) if "scal" in scale:
            scores = product
    return ast.unparse(scores) == "dot(attention_queries, attention_keys)"


@badge("scaled-scores")
def _scaled_scores(draft: Draft) -> bool:
    given = {key: value for key, value in draft.seen.trial.config.to_dict().items() if isinstance(value, float)}
    factors = [getattr(module_at(draft, host), "scaling", None) for _, host in attentions_of(draft)]
    return any(key for key, value in given.items() if value in factors and value not in (0.0, 1.0))


@badge("latent-attention")
def _latent(draft: Draft) -> bool:
    rank = getattr(draft.seen.trial.config, "kv_lora_rank", None)
    return rank is not None and any(
        isinstance(weight := module.weight, Tensor) and weight.shape[1] == rank
        for kind, host in attentions_of(draft)
        for _, module in projections_of(draft, kind, host)
    )


@badge("gated-output")
def _gated_output(draft: Draft) -> bool:
    if "sigmoid" in form_of(draft, "self_attn", "premix"):
        return True
    return any(
        not same(premix[0].flatten(), outs.tensor.flatten())
        for kind in kinds_of(draft)
        if (premix := kind.targets.get(("linear_attn", "premix")))
        and (outs := _recurrence_output(draft, kind, premix[0].numel())) is not None
    )


def _recurrence_output(draft: Draft, kind: Kind, size: int) -> Any:
    """What the recurrent kernel gives, by the operation the vocabulary or another family reads it at."""
    path = host_path(kind, "linear_attn")
    events = [] if path is None else draft.seen.first.within(path)
    kernels = [e for e in events if e.operations and re.search(r"(_scan|delta_rule)_\d+$", e.operations[0])]
    return next((e for e in reversed(kernels) if e.access == "output" and e.tensor.numel() == size), None)
