"""Heads that a model has copied for their query heads: read once, written to every copy."""

from __future__ import annotations

import pytest
import torch

from nnpedia.errors import SpecError
from nnpedia.layout import parse_pattern

AXES = ("batch", "num_kv_heads", "seq", "head_dim")
TEXT = "batch (num_kv_heads copies) seq head_dim -> batch num_kv_heads seq head_dim"


def test_one_copy_is_read_and_all_are_written() -> None:
    pattern = parse_pattern(TEXT, AXES)
    heads = torch.randn(2, 3, 5, 4)
    native = heads.repeat_interleave(2, dim=1)
    read = pattern.split(native, {"num_kv_heads": 3})
    assert torch.equal(read, heads)
    assert torch.equal(pattern.merge(-read, native), -native)


def test_an_edit_in_place_does_not_reach_one_copy_alone() -> None:
    native = torch.randn(1, 3, 5, 4).repeat_interleave(2, dim=1)
    before = native.clone()
    parse_pattern(TEXT, AXES).split(native, {"num_kv_heads": 3}).zero_()
    assert torch.equal(native, before)


def test_an_axis_of_copies_alone_is_read_at_one_and_written_at_all() -> None:
    pattern = parse_pattern("batch num_kv_heads copies seq head_dim -> batch num_kv_heads seq head_dim", AXES)
    heads = torch.randn(2, 3, 5, 4)
    native = heads.unsqueeze(2).repeat(1, 1, 6, 1, 1)
    assert torch.equal(pattern.split(native, {}), heads)
    assert torch.equal(pattern.merge(-heads, native), -native)


def test_copies_belong_to_no_layout() -> None:
    with pytest.raises(SpecError, match="must end in the layout's axes"):
        parse_pattern("batch num_kv_heads copies seq head_dim -> batch num_kv_heads copies seq head_dim", AXES)
