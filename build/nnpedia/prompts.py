"""Prompts: what a run is given, looked at before the model is.

A model takes rows of token ids. What is no prompt, has no tokens, or names a token that the model
does not have is refused here in one line; padded ids that came without a mask run, with a warning,
for the model then reads their padding as text.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from nnsight.modeling import processing
from torch import Tensor
from torch._guards import detect_fake_mode

from nnpedia.errors import PaddingWarning, PromptError, PromptTooLong

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer

#: What `_positions` found; looking takes as long as many a read.
_POSITIONS: WeakKeyDictionary[torch.nn.Module, int | None] = WeakKeyDictionary()

WAYS = "a prompt is a text, token ids, an encoding with its mask, or a list of texts"


def check_type(inputs: tuple[Any, ...]) -> None:
    """Raise `PromptError` for something positional that no row can be made of."""
    if not inputs:
        return
    given = inputs[0]
    if isinstance(given, bytes) or (not isinstance(given, str | Sequence | Mapping | Tensor) and not _is_array(given)):
        raise PromptError(f"{_shown(given)} is no prompt: {WAYS}")
    if isinstance(given, Tensor) and (given.is_floating_point() or given.dim() == 0):
        raise PromptError(f"a tensor of {given.dtype} {list(given.shape)} is no prompt: {WAYS}; or inputs_embeds=")
    if isinstance(given, list | tuple):
        for each in given:
            if not isinstance(each, str | int | Sequence | Mapping | Tensor) and not _is_array(each):
                raise PromptError(f"a list with {_shown(each)} in it is no prompt: {WAYS}")
        if len({isinstance(each, str) for each in given}) > 1:
            raise PromptError(
                "a list of texts and of token ids together is no prompt: give all of them as one or the other"
            )


def check_some(inputs: tuple[Any, ...], rows: int) -> None:
    """Raise `PromptError` where what was given makes no row, or an empty one."""
    given = inputs[0] if inputs else None
    if (given is not None and rows == 0) or (
        isinstance(given, list | tuple) and any(isinstance(each, list) and not each for each in given)
    ):
        raise PromptError(f"{_shown(given)} has no tokens to run on: {WAYS}")


def check_rows(model: StandardizedTransformer, encoding: Mapping[str, Any]) -> None:
    """Raise `PromptError` for rows without a token, and for ids that the model has no embedding of."""
    ids = encoding.get("input_ids")
    if ids is None and encoding.get("inputs_embeds") is None:
        raise PromptError(f"nothing was given to run on: {WAYS}")
    if not isinstance(ids, Tensor) or detect_fake_mode() is not None:
        return
    if ids.dim() != 2:
        raise PromptError(f"token ids are [batch seq], and these are {list(ids.shape)}")
    mask = encoding.get("attention_mask")
    if ids.shape[1] == 0:
        raise PromptError("the prompt has no tokens: give a text of one or more, or ids")
    if isinstance(mask, Tensor) and mask.dim() == 2 and mask.shape == ids.shape and len(ids) > 1:
        empty = (mask == 0).all(-1)
        if empty.any():
            row = int(empty.int().argmax())
            raise PromptError(f"prompt {row} of {len(ids)} (counted from 0) has no tokens, only padding: leave it out")
    _check_length(model, encoding, ids)
    known = _embeddings(model)
    if known is not None and not ids.is_floating_point() and not (ids.is_meta or _within(ids, known)):
        outside = ((ids < 0) | (ids >= known)).nonzero()[0].tolist()
        raise PromptError(
            f"the token id {int(ids[tuple(outside)])} (row {outside[0]}, position {outside[1]}) is none of the "
            f"model's, which go from 0 to {known - 1}: encode with the checkpoint's own tokenizer"
        )


def _check_length(model: StandardizedTransformer, encoding: Mapping[str, Any], ids: Tensor) -> None:
    """Raise `PromptTooLong` for more tokens than the model has positions."""
    there = _positions(model)
    if there is None:
        return
    mask, counted = encoding.get("attention_mask"), encoding.get("position_ids")
    if isinstance(counted, Tensor):
        needed = int(counted.max()) + 1
    else:
        needed = int(mask.sum(-1).max()) if isinstance(mask, Tensor) and mask.dim() == 2 else ids.shape[1]
    if needed > there:
        raise PromptTooLong(f"a prompt has {needed} tokens, and the model has {there} positions: give it fewer")


def warn_of_padding(
    model: StandardizedTransformer, invokes: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]
) -> None:
    """Warn, at the line of the run, of padded ids without a mask: the model reads the padding as text."""
    if detect_fake_mode() is not None:
        return
    pad = _pad_token(model)
    if pad is None:
        return
    for inputs, keywords in invokes:
        ends = [_ends(row.tolist(), pad) for row in _unmasked(inputs[0] if inputs else None, keywords)]
        if any(map(any, ends)) and _padded(ends, pad in _marks(model)):
            told = (
                f"these token ids are padded (id {pad}) and came without attention_mask, so the model reads the "
                "padding as text and gives other numbers: pass the mask that the tokenizer gave with them, "
                "model.trace(ids, attention_mask=mask), or the rows as lists without their padding, or the texts"
            )
            _warn_there(PaddingWarning(told))
            return


def _padded(ends: list[tuple[int, int]], is_a_mark: bool) -> bool:
    """Whether pad tokens at an end are padding; one token alike in every row may be the mark that begins or ends it."""
    return not is_a_mark or any(max(end) > 1 for end in ends) or len(set(ends)) > 1


def _ends(row: list[int], pad: int) -> tuple[int, int]:
    """How many pad tokens a row begins and ends with."""
    first, last = (sum(1 for _ in takewhile(pad.__eq__, ids)) for ids in (row, reversed(row)))
    return first, last


def _unmasked(data: Any, keywords: Mapping[str, Any]) -> Iterator[Tensor]:
    """The rows of one invoke's token ids, `[seq]` each, when no mask and no cache came with them."""
    encoding = processing.as_encoding(data, dict(keywords))
    if encoding is None or any(encoding.get(key) is not None for key in ("attention_mask", "past_key_values")):
        return
    ids = encoding.get("input_ids")
    if ids is not None:
        for row in processing.split("input_ids", ids)[0]:
            yield row.reshape(-1)


def _pad_token(model: StandardizedTransformer) -> int | None:
    """The id that pads."""
    found = (getattr(place, "pad_token_id", None) for place in (model.tokenizer, model.text_config))
    return next((int(each) for each in found if each is not None and int(each) >= 0), None)


def _marks(model: StandardizedTransformer) -> set[Any]:
    """The ids that begin and end a text."""
    places = (model.tokenizer, model.text_config)
    ends = [getattr(place, name, None) for place in places for name in ("bos_token_id", "eos_token_id")]
    return {each for end in ends for each in (end if isinstance(end, list) else [end])}


def _within(ids: Tensor, known: int) -> bool:
    """Whether every id is one of the `known` first."""
    lowest, highest = (int(each) for each in ids.aminmax())
    return lowest >= 0 and highest < known


def _embeddings(model: StandardizedTransformer) -> int | None:
    try:
        return int(model._module.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return None


def _positions(model: StandardizedTransformer) -> int | None:
    """How many positions the model has a table of, learned or computed; `None` where it has none."""
    root = model._module
    if root not in _POSITIONS:
        most = getattr(model.text_config, "max_position_embeddings", None)
        rows = {len(table) for table in root.buffers() if table.dim() == 2}
        tokens = root.get_input_embeddings()
        for module in root.modules():
            if isinstance(module, torch.nn.Embedding) and module is not tokens:
                rows.add(module.num_embeddings - getattr(module, "offset", 0))  # OPT's first rows are for padding
        _POSITIONS[root] = most if most in rows else None
    return _POSITIONS[root]


def _is_array(given: Any) -> bool:
    return type(given).__module__ == "numpy"


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _warn_there(warning: Warning) -> None:
    """Warn at the line that runs the model: the first outside of this package, nnsight and torch; once for each."""
    import nnsight

    own = tuple(str(Path(str(each)).parent) for each in (__file__, nnsight.__file__, torch.__file__))
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    names = getattr(frame.f_globals, "glbls", frame.f_globals)  # in a session, nnsight's own view of them
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(warning, None, frame.f_code.co_filename, frame.f_lineno, registry=registry)
