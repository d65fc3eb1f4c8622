"""Writes: proof that assigning a value reaches what comes after it, and that reading does not.

Three forwards per value, beside a clean one: a value assigned to itself must leave the logits bit
for bit as they were; a disturbed value, assigned or edited in place, must change them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from nnpedia.errors import LayoutError, NnpediaError
from nnpedia.observe import Spot, asked_host, observe, read

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer

LOGITS: Spot = (None, "model", "logits")
LARGE = 1 << 24  # weights of a head: SmolLM2's has 28 million, a forged checkpoint's some tens of thousands


class HeadOnce(TorchFunctionMode):
    """While this lasts, a model's head is not asked again for what it said of the very same input.

    Of a small model with a large vocabulary the head is most of a forward, and most of these forwards end in what it
    has had already: a neutral write in the clean stream, and a disturbance in place in that of the one assigned. An
    input of other numbers, another shape or other strides is a new one.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = weight
        self.said: list[tuple[torch.Tensor, torch.Tensor]] = []  # of the first input, which is clean, and of the last

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.nn.functional.linear or len(args) < 2 or args[1] is not self.weight:
            return func(*args, **(kwargs or {}))
        asked = args[0]
        for known, output in self.said:
            if known.stride() == asked.stride() and known.dtype == asked.dtype and torch.equal(known, asked):
                return output.clone()
        output = func(*args, **(kwargs or {}))
        self.said = [*self.said[:1], (asked.clone(), output.clone())]
        return output


def head_once(model: StandardizedTransformer) -> AbstractContextManager[object]:
    """`HeadOnce` of a large head; of a small one nothing, as it costs less than to look at every operation."""
    weight = getattr(model._module.get_output_embeddings(), "weight", None)
    return nullcontext() if weight is None or weight.numel() < LARGE else HeadOnce(weight)


@dataclass(frozen=True)
class Write:
    """What writing at one spot did; `None` where it could not be tried."""

    assignable: bool
    neutral: bool | None = None
    causal: bool | None = None
    in_place: bool | None = None
    message: str | None = None


def try_write(model: StandardizedTransformer, spot: Spot, prompt: str, clean: torch.Tensor) -> Write:
    """Assign at a spot and compare the logits with the clean ones, `[batch seq vocab_size]`."""
    spec = model.family.values[spot[1]][spot[2]]
    if spec.at is None:
        return Write(assignable=False)
    disturb = disturbance(model, spot)

    if spec.reaches == "cache":
        return _try_cache(model, spot, prompt, disturb)

    def logits(edit: Callable[[Any], Any]) -> torch.Tensor:
        found = read(model, [LOGITS], prompt, edits={spot: edit})[LOGITS]
        if isinstance(found, NnpediaError):
            raise found
        return found

    def in_place(value: torch.Tensor) -> None:
        value.copy_(disturb(value))

    try:
        neutral = torch.equal(logits(torch.clone), clean)
        causal = not torch.equal(logits(disturb), clean)
    except NnpediaError as error:
        return Write(assignable=False, message=error.message)
    try:
        edited = not torch.equal(logits(in_place), clean)
    except (RuntimeError, NnpediaError):
        edited = False
    return Write(True, neutral, causal, edited)


def _try_cache(
    model: StandardizedTransformer, spot: Spot, prompt: str, disturb: Callable[[torch.Tensor], torch.Tensor]
) -> Write:
    """The same for a value that only the next call reads: what the returned cache keeps is compared."""

    from nnpedia.calls import CACHES

    def kept(edit: Callable[[Any], Any]) -> torch.Tensor:
        caches: list[Any] = []

        def task() -> None:
            host = asked_host(model, spot)
            changed = edit(getattr(host, spot[2]))
            if changed is not None:
                setattr(host, spot[2], changed)
            caches.append(next(model.output[name] for name in CACHES if name in model.output))

        with torch.no_grad():
            observe(model, [task], prompt)
        return caches[0].layers[spot[0]].recurrent_states[0].clone()

    def in_place(value: torch.Tensor) -> None:
        value.copy_(disturb(value))

    try:
        clean = kept(lambda value: None)
        neutral = torch.equal(kept(torch.clone), clean)
        return Write(True, neutral, not torch.equal(kept(disturb), clean), not torch.equal(kept(in_place), clean))
    except NnpediaError as error:
        return Write(assignable=False, message=error.message)


def disturbance(model: StandardizedTransformer, spot: Spot) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function from a value to another one of its kind: other tokens, other experts, other numbers."""
    spec = model.family.values[spot[1]][spot[2]]

    def disturb(value: torch.Tensor) -> torch.Tensor:
        if spot[2] == "attention_mask":
            changed = value.clone()
            changed[:, 0] = 0
            return changed
        if not value.is_floating_point():
            if spec.indexes is None:
                raise LayoutError(
                    f"{spot[2]} is {spec.layout}, but the tensor there holds whole numbers ({value.dtype})"
                )
            return (value + 1) % getattr(model, spec.indexes)
        generator = torch.Generator(device="cpu").manual_seed(0)
        noise = torch.randn(value.shape, generator=generator).to(value)
        finite = value[value > torch.finfo(value.dtype).min / 2]
        return value + noise * finite.std().clamp(min=0.1)

    return disturb
