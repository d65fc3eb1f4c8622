"""Badges of positions: how queries are turned, told from the queries before and after."""

from __future__ import annotations

import torch
from torch import Tensor

from nnpedia.draft.badging.registry import attentions_of, badge, form_of
from nnpedia.draft.places import laid_out, same
from nnpedia.draft.proving import Draft


def _rotations(draft: Draft) -> list[tuple[str, bool] | None]:
    """For each attention: how its queries are rotated (`half` or `pairs`) and whether only in part; `None` if not."""
    found: list[tuple[str, bool] | None] = []
    for kind, host in attentions_of(draft):
        queries = kind.attention.targets.get("attention_queries") if kind.attention else None
        if queries:
            found.append(next((how for one in queries if (how := _rotation(draft, host, one))), None))
    return found


def _rotation(draft: Draft, host: str, queries: Tensor) -> tuple[str, bool] | None:
    axes = ("batch", "num_heads", "seq", "qk_head_dim")
    sizes = dict(zip(axes, queries.shape, strict=True))
    for event in draft.seen.first.within(host):
        if event.tensor.numel() != queries.numel() or not event.tensor.is_floating_point():
            continue
        for _, before in laid_out(event.tensor, axes, sizes):
            how = _turned(before, queries)
            if how is not None:
                return how
    return _turned_earlier(draft, host, axes, sizes)


def _turned_earlier(draft: Draft, host: str, axes: tuple[str, ...], sizes: dict[str, int]) -> tuple[str, bool] | None:
    """The same of two tensors in their own layout, where the queries are normed or scaled after they are turned."""
    called = draft.seen.first.within(host)
    turning = [e for e in called if any("rotary" in name or "rope" in name for name in e.operations[:1])]
    length = sizes["batch"] * sizes["num_heads"] * sizes["seq"] * sizes["qk_head_dim"]
    there = [
        e for e in turning if e.tensor.numel() == length and e.tensor.is_floating_point() and len(e.operations) == 1
    ]
    for before in (e for e in there if e.access != "output"):
        for after in (e for e in there if e.access == "output" and e.tensor.shape == before.tensor.shape):
            for _, left in laid_out(before.tensor, axes, sizes):
                for _, right in laid_out(after.tensor, axes, sizes):
                    how = _turned(left, right)
                    if how is not None:
                        return how
    return None


def _turned(before: Tensor, after: Tensor) -> tuple[str, bool] | None:
    """Whether `after` is `before` with planes of its last axis turned by the position, from the second position on.

    Some turn and scale by one factor, which the first position shows.
    """
    width = before.shape[-1]
    if same(before, after):
        return None
    moved = (before != after).flatten(0, 2).any(0)
    start, end = int(moved.nonzero()[0]), int(moved.nonzero()[-1]) + 1
    if (end - start) % 2:
        return None
    b, a = before[..., start:end].double(), after[..., start:end].double()
    how = _planes(b, a)
    if how is None:  # some take neighbours apart on the way, so that what is read has its planes in halves
        how = "half" if _planes(torch.cat([b[..., ::2], b[..., 1::2]], -1), a) == "half" else None
    return None if how is None else (how, end - start < width)


def _planes(b: Tensor, a: Tensor) -> str | None:
    """Which planes of the last axis of `b` are turned into `a`: of its two halves, of neighbouring pairs, or none."""
    first, turned = b[:, :, 0], a[:, :, 0]
    a = a / float(turned.norm() / first.norm().clamp(min=1e-30))
    if not same(first.float(), a[:, :, 0].float(), 64.0) or same(b.float(), a.float(), 64.0):
        return None
    half = b.shape[-1] // 2
    halves = (b[..., :half].square() + b[..., half:].square(), a[..., :half].square() + a[..., half:].square())
    pairs = (b[..., ::2].square() + b[..., 1::2].square(), a[..., ::2].square() + a[..., 1::2].square())
    if torch.allclose(*halves, rtol=1e-3, atol=1e-4):
        return "half"
    return "pairs" if torch.allclose(*pairs, rtol=1e-3, atol=1e-4) else None


def _rotary_modules(draft: Draft) -> bool:
    return any("rotary" in type(module).__name__.lower() for module in draft.seen.trial.model.modules())


@badge("rotary")
def _rotary(draft: Draft) -> bool:
    turned = _rotations(draft)
    return any(turned) or (
        _rotary_modules(draft)
        and bool(turned)
        and "alibi" not in form_of(draft, "self_attn", "scores")
        and not _learned(draft)
    )


@badge("partial-rotary")
def _partial(draft: Draft) -> bool:
    return any(how is not None and how[1] for how in _rotations(draft))


@badge("interleaved-rotary")
def _interleaved(draft: Draft) -> bool:
    return any(how is not None and how[0] == "pairs" for how in _rotations(draft))


@badge("no-rope-blocks")
def _no_rope(draft: Draft) -> bool:
    turned = _rotations(draft)
    return any(how is None for how in turned) and any(turned)


@badge("longrope")
def _longrope(draft: Draft) -> bool:
    given = getattr(draft.subject.config, "rope_parameters", None) or {}
    return isinstance(given, dict) and given.get("rope_type") == "longrope"


@badge("learned-positions")
def _learned(draft: Draft) -> bool:
    return "embed_positions" in draft.seen.names.paths.values()
