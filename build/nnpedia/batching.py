"""Rows of several invokes, also where generation runs each prompt more than once.

nnsight cuts a tensor to an invoke's rows when its leading axis counts the prompts. Beams and several
returned sequences repeat every prompt in place, so the leading axis counts a multiple of them, and
an invoke's rows are the same multiple of its prompts'.
"""

from __future__ import annotations

from typing import Any

import torch
from nnsight.intervention.batching import Batcher

from nnpedia.keywords import check_run


class RepeatingBatcher(Batcher):
    """A batcher that knows how many rows of the running call belong to one prompt."""

    total: int

    def assemble(self, fn: Any) -> tuple[Any, ...]:
        """The call of a run; raises `UnknownKeyword` for a keyword that nothing in it would take."""
        given = set(self.kwargs).union(self.extra_kwargs, *(keywords for _, keywords in self.invokes))
        run = fn if isinstance(fn, str) else getattr(fn, "__name__", type(fn).__name__)
        if given and run != "pipe":  # a pipeline says itself what it does not take
            check_run(self.envoy, run, given)
        return super().assemble(fn)

    @property
    def repeats(self) -> int:
        """Rows of the running forward call per prompt of the trace."""
        call: Any = self.envoy._current
        whole = call is not None and self.total and call.batch % self.total == 0
        return call.batch // self.total if whole else 1

    def _narrow_tensor(self, tensor: torch.Tensor, group: list[int]) -> torch.Tensor:
        return self._scaled(super()._narrow_tensor, tensor, group)

    def _widen_tensor(self, full: torch.Tensor, group: list[int], edited: torch.Tensor) -> torch.Tensor:
        return self._scaled(super()._widen_tensor, full, group, edited)

    def _scaled(self, cut: Any, tensor: torch.Tensor, group: list[int], *rest: Any) -> torch.Tensor:
        """`cut`, with prompts counted as rows where the tensor has a row for each of them."""
        if tensor.dim() == 0:  # a loss has no rows: it is every invoke's
            return rest[0] if rest else tensor
        times = self.repeats
        if times == 1 or tensor.shape[0] != self.total * times:
            return cut(tensor, group, *rest)
        prompts, self.total = self.total, self.total * times
        try:
            return cut(tensor, [group[0] * times, group[1] * times], *rest)
        finally:
            self.total = prompts
