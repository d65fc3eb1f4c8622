"""Comparing a tensor of ours with one of another library: equal, equal once arranged otherwise, or different.

What may be arranged is listed here and put into words; nothing is searched for beyond it, and a match by
arrangement has to be as exact as one without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from einops import rearrange

TOLERANCE = 64.0  # epsilons: two implementations may round sums in another order
_MASKED = -1e20  # a score this low or lower stands for a masked position, whatever number a library writes there


@dataclass(frozen=True)
class Found:
    """How theirs relates to ours: `how` is what makes theirs of ours; None where nothing listed does."""

    how: str | None
    error: float | None = None  # epsilons
    share: float | None = None  # the largest difference over the largest magnitude, where the shapes agree


def compared(ours: torch.Tensor, theirs: torch.Tensor, axes: Sequence[str]) -> Found:
    """The first arrangement under which the two agree; where none does, the difference of the most alike.

    Args:
        axes: What the axes of ours are called.
    """
    closest: float | None = None
    for how, arranged in arrangements(ours, theirs.shape, axes):
        share = largest(arranged, theirs)
        if within(arranged, share):
            return Found(how, share / eps(arranged) if share else 0.0)
        closest = share if closest is None else min(closest, share)
    if ours.shape == theirs.shape and ours.is_floating_point():
        if (masked := ours <= _MASKED).any() and not (theirs <= _MASKED).any():
            share = largest(ours[~masked], theirs[~masked])
            if within(ours, share):
                return Found("before the mask is added", share / eps(ours) if share else 0.0)
            closest = share
        elif (scaled := scale(ours, theirs)) is not None:
            return Found(f"times {scaled[0]:.6g}", scaled[1])
    return Found(None, share=closest)


def within(ours: torch.Tensor, share: float) -> bool:
    return share == 0 or (ours.is_floating_point() and share <= TOLERANCE * eps(ours))


def eps(tensor: torch.Tensor) -> float:
    return torch.finfo(tensor.dtype).eps


def arrangements(ours: torch.Tensor, shape: torch.Size, axes: Sequence[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Ours as it is and arranged otherwise, each with the arrangement in words, where the shape is then `shape`."""
    if ours.shape == shape:
        yield "", ours
    if ours.ndim != len(axes):
        return
    for target in layouts(axes):
        arranged = rearrange(ours, f"{' '.join(axes)} -> {target}")
        if arranged.shape == shape:
            yield f"laid out as [{target}]", arranged
    if ours.ndim == 4 and len(shape) == 4:
        for heads, order in ((1, (0, 1, 2, 3)), (2, (0, 2, 1, 3))):
            if ours.shape[1] and shape[heads] % ours.shape[1] == 0:
                shared = ours.repeat_interleave(shape[heads] // ours.shape[1], dim=1).permute(order)
                if shared.shape == shape:
                    words = " ".join(axes[axis] for axis in order)
                    yield f"laid out as [{words}], each head as often as query heads share it", shared


def layouts(axes: Sequence[str]) -> Iterator[str]:
    """Other orders and groupings of these axes that libraries use, as einops patterns."""
    names = list(axes)
    if len(names) == 3:
        yield f"({names[0]} {names[1]}) {names[2]}"
    if len(names) == 4:
        batch, second, third, last = names
        yield f"{batch} {third} {second} {last}"
        yield f"{batch} {second} ({third} {last})"
        yield f"{batch} {third} ({second} {last})"
    if len(names) >= 4:
        yield " ".join([*names[:-2], names[-1], names[-2]])


def largest(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference over the largest magnitude; where one masks a position, the other has to mask it too."""
    if not ours.is_floating_point() or not theirs.is_floating_point():
        return 0.0 if torch.equal(ours.long(), theirs.long()) else 1.0
    ours, theirs = ours.detach().double(), theirs.detach().double()
    masked = ours <= _MASKED
    if not torch.equal(masked, theirs <= _MASKED):
        return float("inf")
    ours, theirs = ours[~masked], theirs[~masked]
    if ours.numel() == 0:
        return 0.0
    top = max(ours.abs().max().item(), theirs.abs().max().item())
    return (ours - theirs).abs().max().item() / top if top else 0.0


def scale(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[float, float] | None:
    """The number that theirs is ours times, and the error left; None where there is none."""
    square = (ours.double() ** 2).sum().item()
    if not square:
        return None
    factor = (ours.double() * theirs.double()).sum().item() / square
    error = largest(ours.double() * factor, theirs) / torch.finfo(ours.dtype).eps
    return (factor, error) if abs(factor) > 1e-6 and error <= TOLERANCE else None
