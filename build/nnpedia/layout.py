"""Layouts: what the axes of a value mean, and patterns that undo a native layout.

A native pattern is an einops rearrangement from the model's layout to the standard one,
`(batch seq) num_experts -> batch seq num_experts`. Reading applies it, writing applies its
inverse. A pattern whose first native axis merges `batch` with others mixes the rows of several
prompts, so rows are cut and spliced here, not by nnsight, which only knows a leading batch axis.

A merged native axis may name `copies`: `batch (num_kv_heads copies) seq head_dim -> batch num_kv_heads seq
head_dim` is a key head that the model has already copied for each of its query heads. Reading takes
one copy, writing puts the value in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnpedia.errors import LayoutError, SpecError

if TYPE_CHECKING:
    import torch

#: Axes whose length belongs to a call, not to the model.
CALL_AXES = ("batch", "seq", "query", "key")

#: The axis of a native layout whose entries are all the same.
COPIES = "copies"

_TOKEN = re.compile(r"\([^()]*\)|[^\s()]+")


@dataclass(frozen=True)
class Pattern:
    """A parsed native pattern.

    Attributes:
        native: The left side, one tuple of axes per native dimension.
        standard: The right side, the layout's axes.
    """

    text: str
    native: tuple[tuple[str, ...], ...]
    standard: tuple[str, ...]

    @property
    def mixes_rows(self) -> bool:
        """Whether the leading native dimension merges the batch with other axes."""
        return len(self.native[0]) > 1 and "batch" in self.native[0]

    @property
    def copied(self) -> bool:
        """Whether the model keeps several copies of each entry."""
        return any(COPIES in group for group in self.native)

    @property
    def merged(self) -> frozenset[str]:
        """The axes whose sizes einops has to be told, to split a merged dimension."""
        return frozenset(axis for group in self.native if len(group) > 1 for axis in group)

    def split(self, tensor: torch.Tensor, sizes: Mapping[str, int]) -> torch.Tensor:
        """Native layout to standard layout; a view wherever the strides allow, and of copies a tensor of its own."""
        import einops

        known = {axis: sizes[axis] for axis in self.merged if axis in sizes}
        if not self.copied:
            return einops.rearrange(tensor, self.text, **known)
        left, right = (side.strip() for side in self.text.split("->"))
        return einops.rearrange(tensor, f"{left} -> {COPIES} {right}", **known)[0].clone()

    def merge(self, tensor: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
        """Standard layout back to the layout of `native`, the tensor that was split."""
        import einops

        left, right = (side.strip() for side in self.text.split("->"))
        if not self.copied:
            return einops.rearrange(tensor, f"{right} -> {left}")
        return einops.repeat(tensor, f"{right} -> {left}", **{COPIES: native.numel() // tensor.numel()})


def parse_pattern(text: str, axes: tuple[str, ...]) -> Pattern:
    """The pattern `text` spells, for a layout with these axes; raises `SpecError` naming both sides."""
    sides = text.split("->")
    if len(sides) != 2:
        raise SpecError(f"{text!r} is not a native pattern: write `native axes -> standard axes`")
    native = tuple(tuple(token.strip("()").split()) for token in _TOKEN.findall(sides[0]))
    standard = tuple(sides[1].split())
    flat = [axis for group in native for axis in group if axis != "1"]
    if standard != axes:
        raise SpecError(f"{text!r} must end in the layout's axes, {' '.join(axes)}")
    if any(COPIES in group for group in native):
        flat.remove(COPIES)
    if sorted(flat) != sorted(axes) or not all(native):
        raise SpecError(f"{text!r} names other axes on its left than on its right")
    return Pattern(" ".join(text.split()), native, standard)


def expect(name: str, layout: str, axes: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int]) -> None:
    """Raise `LayoutError`, naming both shapes, unless `shape` has the layout's rank and known sizes."""
    wanted = [sizes.get(axis) for axis in axes]
    fits = len(shape) == len(axes) and all(
        size is None or size == real for size, real in zip(wanted, shape, strict=True)
    )
    if not fits:
        said = " ".join(axis if size is None else f"{axis}={size}" for axis, size in zip(axes, wanted, strict=True))
        raise LayoutError(f"{name} is {layout} [{said}], but the tensor there is {list(shape)}")
