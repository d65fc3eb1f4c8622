"""A block as what enters it plus what its sublayers add: solved over the tensors of its forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nnpedia.draft.places import same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.sublayers import add_beside, add_sublayer, producer
from nnpedia.draft.tree import Block, is_norm


@dataclass(frozen=True)
class Term:
    """A tensor of the block, times a factor of the config."""

    event: Event
    tensor: Tensor
    factor: float

    @property
    def value(self) -> Tensor:
        return self.tensor if self.factor == 1.0 else self.tensor * self.factor


def see_block(model: nn.Module, recording: Recording, path: str, layer: int, scales: Mapping[str, float]) -> Block:
    """How one block turns what enters it into what leaves it."""
    entered = recording.at(path, (), "input", ())
    if entered is None or entered.tensor.dim() != 3:
        shape = "nothing" if entered is None else list(entered.tensor.shape)
        empty = torch.zeros(0)
        return Block(layer, path, empty, empty, why=f"the block is called with {shape}, which is no residual stream")
    left = next((e for i in ((), (0,)) if (e := recording.at(path, (), "output", i)) is not None), None)
    if left is None or left.tensor.shape != entered.tensor.shape:
        return Block(
            layer, path, entered.tensor, entered.tensor, why="the block returns no stream of the shape it reads"
        )
    block = Block(layer, path, entered.tensor, left.tensor)
    events = [*_streams(recording, block)]
    for name, number in {"": 1.0, **_numbers(model.get_submodule(path))}.items():
        if _solve(model, recording, block, events, scales, left.tensor / number):
            block.scale = name
            return block
    block.why = "no two tensors of the block, scaled by a number of the config or not, add up to its output"
    return block


def _numbers(module: nn.Module) -> dict[str, float]:
    """The single numbers among a block's own weights, one of which may scale the stream that leaves it."""
    own = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    return {name: float(one) for name, one in own if one.numel() == 1 and bool(one)}


def _streams(recording: Recording, block: Block) -> Iterator[Event]:
    """Distinct tensors of the stream's size that the block's own forward or a module in it gave, in order."""
    seen: list[Tensor] = [block.entering]
    for event in recording.within(block.path):
        tensor = event.tensor
        if event.access != "output" or tensor.numel() != block.entering.numel() or not tensor.is_floating_point():
            continue
        if tensor.shape[-1] != block.entering.shape[-1]:
            continue
        flat = tensor.reshape(block.entering.shape)
        if any(torch.equal(flat, one) for one in seen):
            continue
        seen.append(flat)
        yield event


def _solve(
    model: nn.Module, recording: Recording, block: Block, events: list[Event], scales: Mapping[str, float], y: Tensor
) -> bool:
    """Write `y` as the block's input plus what sublayers add, into `block`; whether it is such a sum."""
    x = block.entering
    terms = [
        Term(event, event.tensor.reshape(x.shape), factor)
        for event in events
        for factor in (1.0, *scales.values())
        if bool(event.tensor.any())
    ]
    end = max((event.order for event in recording.within(block.path)), default=0) + 1

    def reaching(start: Tensor, goal: Tensor, before: int, after: int = -1) -> Term | None:
        """What added to `start` gives `goal`: the last such tensor before the sum."""
        fitting = [term for term in terms if after < term.event.order < before and same(start + term.value, goal, 3.0)]
        return fitting[-1] if fitting else None

    def add(term: Term) -> None:
        parts = _parts(recording, block, term, terms)
        if len(parts) > 1 and add_beside(model, recording, block, [part.event for part in parts], term.value):
            return
        for part in parts:
            add_sublayer(model, recording, block, part.event, part.value)

    for event in events:
        mid = event.tensor.reshape(x.shape)
        if torch.equal(mid, y):
            continue
        first = reaching(x, mid, event.order)
        second = reaching(mid, y, end, event.order) if first else None
        if first and second:
            block.mid, block.shape = mid, "sequential"
            add(first)
            add(second)
            return True
    for index, one in enumerate(terms):
        for other in terms[index + 1 :]:
            if other.event is not one.event and same(x + one.value + other.value, y, 4.0):
                made = [producer(model, recording, block, term.event)[0] for term in (one, other)]
                if None in made or made[0] == made[1]:
                    continue
                block.shape = "parallel"
                add(one)
                add(other)
                return True
    single = reaching(x, y, end)
    if single:
        block.shape = "single"
        add(single)
        return True
    return _normed_after_sums(model, recording, block, reaching, add)


def _normed_after_sums(
    model: nn.Module,
    recording: Recording,
    block: Block,
    reaching: Callable[[Tensor, Tensor, int], Term | None],
    add: Callable[[Term], None],
) -> bool:
    """A block whose stream itself passes a norm after each of two sums, as in the first transformers."""
    stream, found, passed = block.entering, list[Term](), list[str]()
    norms = []
    for name, module in model.get_submodule(block.path).named_children():
        entered, made = (recording.at(f"{block.path}.{name}", (), access, ()) for access in ("input", "output"))
        if is_norm(module) and entered is not None and made is not None and made.tensor.shape == stream.shape:
            norms.append((entered, made, name))
    for entered, made, name in sorted(norms, key=lambda one: one[0].order):
        term = reaching(stream, entered.tensor, entered.order)
        if term is None:
            return False
        found.append(term)
        passed.append(name)
        stream = made.tensor
        block.mid = stream if len(found) == 1 else block.mid
    if len(found) != 2 or not same(stream, block.leaving):
        block.mid = None
        return False
    block.shape, block.sums = "sequential", tuple(passed)
    for term in found:
        add(term)
    for part in block.sublayers:
        if part.norm and part.norm.rpartition(".")[2] in passed:
            part.norm = None  # it is of the stream: the sublayer reads that as it is
    return True


def _parts(recording: Recording, block: Block, term: Term, terms: list[Term]) -> list[Term]:
    """A contribution that no module of the block gives, as the two contributions it is the sum of."""
    children = [event for event in recording.within(block.path) if event.module != block.path]
    if term.event.module != block.path or any(
        same(event.tensor.reshape(term.value.shape), term.value)
        for event in children
        if event.access == "output" and event.tensor.numel() == term.value.numel()
    ):
        return [term]
    earlier = [one for one in terms if one.event.order < term.event.order]
    for index, one in enumerate(earlier):
        for other in earlier[index + 1 :]:
            if other.event is not one.event and same(one.value + other.value, term.value, 3.0):
                return [one, other]
    return [term]
