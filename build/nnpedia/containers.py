"""Places inside a call: where an address points in raw inputs or a raw output, and putting a value back there."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from nnpedia.address import Address

Keys = tuple[Any, ...]


def keys_of(address: Address, raw: Any) -> Keys:
    """Where in a call's raw output, or in its raw `(args, kwargs)`, the address points."""
    if address.access == "output":
        return address.index
    if address.access == "args":
        return (0, *address.index)
    if address.access == "kwargs":
        return (1, *address.index)
    args, kwargs = raw
    first: Keys = (0, 0) if args else (1, next(iter(kwargs)))
    return (*first, *address.index)


def replaced(container: Any, keys: Keys, value: Any) -> Any:
    """A copy of nested tuples, lists and mappings with the element at `keys` replaced."""
    if not keys:
        return value
    key, *rest = keys
    inner = replaced(container[key], tuple(rest), value)
    if isinstance(container, tuple):
        items = [inner if index == key else item for index, item in enumerate(container)]
        return type(container)(*items) if hasattr(container, "_fields") else tuple(items)
    changed = copy.copy(container)
    changed[key] = inner
    return changed


def shares(view: Tensor, native: Tensor) -> bool:
    """Whether an edit of `view` in place is an edit of `native`."""
    return view.untyped_storage()._cdata == native.untyped_storage()._cdata


def refuses_edits(view: Tensor) -> bool:
    """Whether autograd forbids edits in place: one operation made this view together with others, as a split does."""
    if not view.requires_grad or not view._is_view():
        return False
    made = torch._C._autograd._get_creation_meta(view)
    return made == torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE
