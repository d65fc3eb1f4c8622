"""Recording: everything one forward computes, by the place an address would name.

nnsight hands every module call and every operation of an instrumented forward to one function, with the name of its
place; here that function also keeps a copy. Functions of the model's own library that an operation calls are opened
too, one inside the other, so that what an attention function does inside is there as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from nnsight import NNsight  # isort: skip  (before transformers' models)
from nnsight.intervention.interleaver import Mediator
from nnsight.intervention.source import SourceNotAvailable, bind, instrument, make_op
from torch import Tensor, nn

ROOT = "model"
_TASK = compile("task()", "<nnpedia.draft.recording>", "exec")
_DEEPEST = 3  # operations inside operations


@dataclass(frozen=True)
class Event:
    """A tensor that passed a place.

    Attributes:
        order: When: places count up as the forward reaches them.
        module: The native path of the module whose call or forward it is, "" for the root.
        operations: The operations inside its forward, outermost first; none for its own call.
        access: `output`, `input` (of the first argument), `args` or `kwargs`.
        index: Where in the call's inputs or output the tensor is.
        tensor: A copy from that moment.
        kept: Whether the model's own tensor holds the same at the end: not, where it is written over later.
    """

    order: int
    module: str
    operations: tuple[str, ...]
    access: str
    index: tuple[Any, ...]
    tensor: Tensor
    live: Tensor = field(repr=False)

    @property
    def written_over(self) -> bool:
        """Whether the model wrote over its own tensor after this moment."""
        return not torch.equal(self.live, self.tensor) and bool(self.tensor.isfinite().all())


@dataclass
class Recording:
    """One forward under one load."""

    events: list[Event] = field(default_factory=list)
    calls: dict[str, list[int]] = field(default_factory=dict)
    logits: Tensor | None = None

    def at(self, module: str, operations: tuple[str, ...], access: str, index: tuple[Any, ...]) -> Event | None:
        """The first tensor that passed a place."""
        return self.places.get((module, operations, access, index))

    @property
    def places(self) -> dict[tuple[Any, ...], Event]:
        if self._places is None:
            self._places = {}
            for event in self.events:
                self._places.setdefault((event.module, event.operations, event.access, event.index), event)
        return self._places

    _places: dict[tuple[Any, ...], Event] | None = None

    def within(self, module: str) -> list[Event]:
        """What a module's call and the calls inside it passed, in order; first visits only."""
        prefix = f"{module}." if module else ""
        return [e for e in self.places.values() if e.module == module or e.module.startswith(prefix)]


def record(module: nn.Module, ids: Tensor) -> Recording:
    """Run `[batch seq]` token ids through a causal language model and keep what every place held."""
    wrapped = NNsight(module)
    found = Recording()
    with torch.no_grad():
        for envoy in _envoys(wrapped):
            if type(envoy._module).__module__.startswith("torch.nn"):
                continue
            try:
                _ = envoy.source
            except (SourceNotAvailable, AttributeError, KeyError, TypeError, OSError, SyntaxError):
                continue
        _run(wrapped, module, ids, found)
    return found


def _envoys(envoy: Any) -> Iterator[Any]:
    yield envoy
    for child in envoy._children:
        yield from _envoys(child)


def _run(wrapped: Any, module: nn.Module, ids: Tensor, found: Recording) -> None:
    interleaver = wrapped.interleaver
    handle = interleaver.handle
    seen: dict[str, int] = {}

    def keeping(provider: str, value: Any) -> Any:
        place, _, access = provider.rpartition(".")
        if access == "fn":
            _open(interleaver, place, value)
        elif access == "input" and ".source." in place and place.count(".source.") < _DEEPEST:
            interleaver.sourced.setdefault(place, None)
        value = handle(provider, value)
        if access in ("input", "output"):
            seen[provider] = seen.get(provider, 0) + 1
            if seen[provider] == 1:
                _keep(found, place, access, value)
        return value

    interleaver.handle = keeping

    def task() -> None:
        found.logits = wrapped.output

    try:
        interleaver.mediators.append(Mediator(_TASK, {}, {"task": task}))
        wrapped.interleave(module, input_ids=ids, attention_mask=torch.ones_like(ids))
    finally:
        del interleaver.handle
        interleaver.cancel()


def _open(interleaver: Any, place: str, fn: Any) -> None:
    """Instrument a function that an operation calls, when it is the library's own Python."""
    if interleaver.sourced.get(place) is not None:
        return
    if isinstance(fn, nn.Module) or fn is bind or "transformers" not in (getattr(fn, "__module__", "") or ""):
        interleaver.sourced.pop(place, None)
        return
    try:
        interleaver.sourced[place] = instrument(
            fn, make_op(lambda: (interleaver, place) if interleaver.interleaving else (None, None))
        )
    except (SourceNotAvailable, AttributeError, KeyError, TypeError, OSError, SyntaxError):
        interleaver.sourced.pop(place, None)


def _keep(found: Recording, place: str, access: str, value: Any) -> None:
    path, *operations = place.split(".source.")
    module = path.removeprefix(ROOT).removeprefix(".")
    if access == "output":
        for index, tensor in _tensors(value):
            _note(found, module, operations, "output", index, tensor)
        return
    args, kwargs = value
    for index, tensor in _tensors(args):
        _note(found, module, operations, "args", index, tensor)
    for index, tensor in _tensors(kwargs):
        _note(found, module, operations, "kwargs", index, tensor)
    first = next(iter(args), None) if args else next(iter(kwargs.values()), None)
    if isinstance(first, Tensor):
        _note(found, module, operations, "input", (), first)


def _note(
    found: Recording, module: str, operations: list[str], access: str, index: tuple[Any, ...], tensor: Tensor
) -> None:
    found.events.append(
        Event(len(found.events), module, tuple(operations), access, index, tensor.detach().clone(), tensor.detach())
    )


def _tensors(value: Any, index: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """The tensors of a call's inputs or output, by where in it they are; two levels deep."""
    if isinstance(value, Tensor):
        yield index, value
    elif len(index) < 2 and isinstance(value, (tuple, list)):
        for key, one in enumerate(value):
            yield from _tensors(one, (*index, key))
    elif len(index) < 2 and isinstance(value, Mapping):
        for key, one in value.items():
            if isinstance(key, str):
                yield from _tensors(one, (*index, key))
