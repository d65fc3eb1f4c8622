"""Named readers: values an address alone cannot say, by the name a spec gives them.

A reader is a function of the host; it may read the host's other values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting


@dataclass(frozen=True)
class Reader:
    """A reader, and its inverse where an assignment has one."""

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None] | None = None


READERS: dict[str, Reader] = {}


def reader(
    name: str, write: Callable[[Any, Any], None] | None = None
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a reader under the name specs use, with its inverse for assignments."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        READERS[name] = Reader(function, write)
        return function

    return register


@reader("call.input_size")
def input_size(host: Hosting) -> list[int]:
    """`[batch, seq]` of the current call, the batch being this invoke's rows."""
    root = host.root
    if not root.running:
        _ = root.inputs  # the call has no size before the forward begins
    return [root.rows().size, root.call().seq]


@reader("call.next_token_probs")
def next_token_probs(host: Hosting) -> torch.Tensor:
    """Softmax of the logits at each prompt's last real position, `[batch vocab_size]`.

    The last real position comes from the attention mask, so it is a real token on either padding
    side.
    """
    logits: torch.Tensor = host.logits  # type: ignore[attr-defined]
    rows = host.root.rows()
    last = host.root.call().last[rows.start : rows.start + rows.size]
    # With `logits_to_keep` the model returns the last positions only.
    offset = host.root.call().seq - logits.shape[1]
    index = (last - offset).view(-1, 1, 1).expand(-1, 1, logits.shape[-1])
    return logits.gather(1, index).squeeze(1).softmax(-1)
