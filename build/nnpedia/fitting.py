"""Fitting: whether a tensor may stand where a value is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch._guards import detect_fake_mode

from nnpedia.errors import LayoutError

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting
    from nnpedia.values import Value


def fitting(of: Value, host: Hosting, value: Any, current: Tensor) -> Tensor:
    """A tensor that is assigned, in the dtype and on the device of the one there; raises `LayoutError`."""
    if not isinstance(value, Tensor):
        raise LayoutError(f"{of.name} takes a tensor, not a {type(value).__name__}", where=host.place)
    if value.shape != current.shape:
        raise LayoutError(
            f"{of.name} is {of.spec.layout} [{' '.join(of.axes)}], here {list(current.shape)}, "
            f"but the assigned tensor is {list(value.shape)}",
            where=host.place,
        )
    if value.dtype != current.dtype:
        if value.is_floating_point() != current.is_floating_point():
            raise LayoutError(
                f"{of.name} holds {current.dtype} but the assigned tensor is {value.dtype}", where=host.place
            )
        value = value.to(current.dtype)
    check_range(of, host, value)
    return value.to(current.device)


def check_range(of: Value, host: Hosting, value: Tensor) -> None:
    """Raise `LayoutError` for a number that counts nothing; a model passes over some such without a word."""
    count = host.axis_sizes().get(of.spec.indexes or "")
    if count is None or detect_fake_mode() is not None or not value.numel():
        return
    low, high = (int(each) for each in value.aminmax())
    if low < 0 or high >= count:
        raise LayoutError(
            f"{of.name} holds {low if low < 0 else high}, and {of.spec.indexes} is {count}: "
            f"its numbers go from 0 to {count - 1}",
            where=host.place,
        )
