"""Attention by what it computes: pattern, scores, values, queries and keys, each from the tensors of one forward.

Every one is found by the identity it is in, not by its name: a pattern has nothing above its diagonal and rows that
sum to one, scores are what its softmax is taken of, values are what it mixes, queries and keys what the scores are
products of. What the arithmetic leaves open (a scale, slopes, a cap) the identities are blind to, and a law tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nnpedia.draft.places import laid_out, same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.sublayers import is_pattern
from nnpedia.draft.tree import Block, Sublayer, is_linear

PATTERN = ("batch", "num_heads", "query", "key")
QUERIES = ("batch", "num_heads", "seq", "qk_head_dim")
KEYS = ("batch", "num_kv_heads", "seq", "qk_head_dim")
VALUES = ("batch", "num_kv_heads", "seq", "head_dim")
HEADS = ("batch", "seq", "num_heads", "head_dim")


@dataclass
class Attention:
    """What an attention computes, in standard layouts, and why what is not there is not.

    Each of `targets` lists its candidates, best first: tensors that satisfy the identity.
    """

    targets: dict[str, list[Tensor]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    projection: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)


def see_attention(
    model: nn.Module, recording: Recording, block: Block, part: Sublayer, scales: Mapping[str, float]
) -> Attention:
    """The values of one attention."""
    found = Attention()
    batch, seq, _ = block.entering.shape
    events = [e for e in recording.within(part.host) if e.tensor.is_floating_point()]
    patterns = [e for e in events if is_pattern(e, batch, seq)]
    if not patterns:
        found.why["attention_probabilities"] = "no tensor of its forward is a pattern"
        return found
    heads = patterns[0].tensor.numel() // (batch * seq * seq)
    found.sizes["num_heads"] = heads
    _project(model, recording, part, patterns[0].order, heads, found)
    _mixture(events, patterns, block, heads, found)
    _scores(events, patterns, found)
    _products(events, block, heads, found, scales)
    return found


def _project(model: nn.Module, recording: Recording, part: Sublayer, after: int, heads: int, found: Attention) -> None:
    """The output projection: the linear map that gives what the attention returns, else the last that is called."""
    called: list[tuple[int, str, Tensor]] = []
    for name, module in model.get_submodule(part.host).named_modules():
        path = f"{part.host}.{name}"
        entered = recording.at(path, (), "input", ())
        if name and is_linear(module) and entered is not None and entered.order > after:
            called.append((entered.order, path, entered.tensor))
    if not called:
        found.why["attention_premix"] = "no projection is called after the pattern"
        return
    out = [recording.at(part.host, (), "output", index) for index in ((), (0,))]
    giving = [one for one in called if any(e and _given(recording, one[1], e.tensor) for e in out)]
    _, found.projection, premix = max(giving or called, key=lambda one: one[0])
    if premix.shape[-1] % heads:
        found.why["attention_premix"] = "what the output projection reads is no whole number of heads wide"
        return
    batch, seq = part.contribution.shape[:2]
    found.targets["attention_premix"] = [premix.reshape(batch, seq, heads, -1)]


def _given(recording: Recording, path: str, tensor: Tensor) -> bool:
    """Whether a tensor is what a module returned."""
    made = recording.at(path, (), "output", ())
    return (
        made is not None and made.tensor.numel() == tensor.numel() and same(made.tensor.reshape(tensor.shape), tensor)
    )


def _mixture(events: list[Event], patterns: list[Event], block: Block, heads: int, found: Attention) -> None:
    """Pattern, values and head outputs: two tensors and the third that is their product."""
    batch, seq, _ = block.entering.shape
    for event in reversed(patterns):
        pattern = event.tensor.reshape(batch, heads, seq, seq)
        for value in _unique(e for e in events if e.order < event.order and e.tensor.dim() in (3, 4)):
            for values in _grouped(value, VALUES, batch, seq, heads):
                mixed = (pattern @ values.repeat_interleave(heads // values.shape[1], 1)).transpose(1, 2)
                made = _equal(events, mixed, event.order)
                if made is None:
                    continue
                found.targets.setdefault("attention_probabilities", []).append(pattern)
                found.targets.setdefault("attention_values", []).append(values)
                found.targets.setdefault("attention_head_outputs", []).append(made)
        if found.targets.get("attention_values"):
            found.targets["attention_values"].sort(key=lambda values: values.shape[1])
            found.sizes["num_kv_heads"] = found.targets["attention_values"][0].shape[1]
            found.sizes["head_dim"] = found.targets["attention_values"][0].shape[3]
            return
    for name in ("attention_values", "attention_head_outputs", "attention_probabilities"):
        found.why[name] = "no tensor before the pattern gives, mixed by it, a tensor after it"


def _equal(events: list[Event], target: Tensor, after: int) -> Tensor | None:
    sizes = dict(zip(HEADS, target.shape, strict=True))
    for event in events:
        if event.order > after and event.tensor.numel() == target.numel():
            for _, tensor in laid_out(event.tensor, HEADS, sizes):
                if same(tensor, target, 16.0):
                    return tensor
    return None


def _scores(events: list[Event], patterns: list[Event], found: Attention) -> None:
    """What the pattern is the softmax of: the last such tensor, masked where there is a mask."""
    targets = found.targets.get("attention_probabilities")
    pattern = targets[0] if targets else patterns[-1].tensor
    before = [e for e in events if e.order < patterns[0].order and e.tensor.numel() == pattern.numel()]
    exact, beside = [], []
    for event in reversed(before):
        if tuple(event.tensor.shape[-2:]) != tuple(pattern.shape[-2:]):
            continue
        scores = event.tensor.reshape(pattern.shape)
        if same(torch.softmax(scores.float(), -1), pattern, 16.0):
            exact.append(scores)
            continue
        there = pattern > 1e-5
        gap = torch.where(there, pattern.clamp(min=1e-30).log() - scores, torch.nan)
        spread = gap.nan_to_num(nan=-1e30).amax(-1) - gap.nan_to_num(nan=1e30).amin(-1)
        if bool((spread < 1e-3).all()) and bool((scores <= -1e30).any()):
            beside.append(scores)
    chosen = exact or beside[-1:]
    if chosen:
        found.targets["attention_scores"] = _distinct(chosen)
    else:
        found.why["attention_scores"] = "the pattern is not the softmax of a tensor of the forward"


def _products(events: list[Event], block: Block, heads: int, found: Attention, scales: Mapping[str, float]) -> None:
    """Queries and keys: what the scores are products of, up to a factor, a cap and what the positions alone add."""
    targets = found.targets.get("attention_scores")
    if not targets:
        for name in ("attention_queries", "attention_keys"):
            found.why[name] = "the scores they are told by were not found"
        return
    batch, seq, _ = block.entering.shape
    scores = targets[0].reshape(batch, heads, seq, seq)
    end = min(e.order for e in events if e.tensor.numel() == scores.numel() and e.tensor.shape[-1] == seq)
    tensors = list(_unique(e for e in events if e.order < end and e.tensor.dim() in (3, 4)))
    queries = [q for t in tensors for q in _grouped(t, QUERIES, batch, seq, heads) if q.shape[1] == heads]
    keys = [k for t in tensors for k in _grouped(t, KEYS, batch, seq, heads)]
    caps = [None, *(value for name, value in scales.items() if "cap" in name)]
    pairs: list[tuple[Tensor, Tensor]] = []
    for target in targets:  # a softmax is the same of scores that were shifted, row by row, before it
        scores = target.reshape(batch, heads, seq, seq)
        for key in keys:
            spread = key.repeat_interleave(heads // key.shape[1], 1).transpose(2, 3)
            for query in queries:
                if query.shape[-1] != key.shape[-1] or query is key:
                    continue
                dots = query @ spread
                if any(_proportional(_uncapped(scores, cap), dots) for cap in caps):
                    pairs.append((query, key))
        if pairs:
            targets.sort(key=lambda one: one is not target)
            break
    if not pairs:
        for name in ("attention_queries", "attention_keys"):
            found.why[name] = "no two tensors before the scores have the scores for their products"
        return
    fewest = min(key.shape[1] for _, key in pairs)
    pairs = [(query, key) for query, key in pairs if key.shape[1] == fewest]
    found.sizes["qk_head_dim"] = pairs[-1][0].shape[-1]
    found.sizes.setdefault("num_kv_heads", fewest)
    found.targets["attention_queries"] = _distinct([query for query, _ in reversed(pairs)])
    found.targets["attention_keys"] = _distinct([key for _, key in reversed(pairs)])


def _uncapped(scores: Tensor, cap: float | None) -> Tensor:
    if cap is None:
        return scores
    inside = (scores / cap).clamp(-1 + 1e-6, 1 - 1e-6)
    return torch.where(scores.abs() < cap, torch.atanh(inside) * cap, scores)


def _proportional(scores: Tensor, dots: Tensor) -> bool:
    """Whether scores are dots times one factor, plus what does not depend on the prompt, up to the diagonal."""
    there = ((scores[0] > -1e30) & (scores[1] > -1e30)).tril()
    left = (scores[0] - scores[1])[there].double()
    right = (dots[0] - dots[1])[there].double()
    square = float(right @ right)
    if square == 0 or left.numel() == 0:
        return False
    factor = float(left @ right) / square
    return factor > 0 and float((left - factor * right).abs().max()) <= 2e-3 * float(left.abs().max())


def _grouped(tensor: Tensor, axes: tuple[str, ...], batch: int, seq: int, heads: int) -> Iterator[Tensor]:
    """A tensor as one of so many heads, or of a divisor of them, in every layout its shape may be."""
    for count in (n for n in range(1, heads + 1) if heads % n == 0):
        width, rest = divmod(tensor.numel(), batch * seq * count)
        if rest or width < 2:
            continue
        sizes = {"batch": batch, "seq": seq, "num_heads": count, "num_kv_heads": count}
        sizes |= {"qk_head_dim": width, "head_dim": width}
        if sorted(tensor.shape)[-1] == width * count and width != 1 and tensor.dim() == 3 and count > 1:
            continue  # heads side by side in one axis: not yet cut into heads
        for _, laid in laid_out(tensor, axes, sizes):
            yield laid
            break


def _unique(events: Iterator[Event]) -> list[Tensor]:
    """Distinct tensors, in order of their last appearance."""
    kept: dict[tuple[Any, ...], Tensor] = {}
    for event in events:
        tensor = event.tensor
        key = (tuple(tensor.shape), float(tensor.double().sum()), float(tensor.double().abs().sum()))
        kept.pop(key, None)
        kept[key] = tensor
    return list(kept.values())


def _distinct(tensors: list[Tensor]) -> list[Tensor]:
    kept: list[Tensor] = []
    for tensor in tensors:
        if not any(torch.equal(tensor, one) for one in kept):
            kept.append(tensor)
    return kept
