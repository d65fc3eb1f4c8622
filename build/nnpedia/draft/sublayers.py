"""Sublayers: the module that gives a contribution, whether it mixes tokens, and the norms around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nnpedia.draft.places import same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.tree import Block, Sublayer, is_linear, is_norm


def add_sublayer(model: nn.Module, recording: Recording, block: Block, event: Event, contribution: Tensor) -> None:
    """The sublayer that a contribution comes from."""
    child, after = producer(model, recording, block, event)
    if child is None:
        block.why = f"what module gives {event.module}'s contribution was not found"
        return
    module = model.get_submodule(child)
    inside = recording.within(child)
    seq = block.entering.shape[1]
    patterned = next((e for e in inside if is_pattern(e, block.entering.shape[0], seq)), None)
    host, virtual = (block.path, True) if is_linear(module) else (child, False)
    entered = recording.at(_first_linear(model, recording, block) if virtual else child, (), "input", ())
    reads = block.entering if entered is None else entered.tensor
    role = (
        "attention"
        if patterned is not None
        else "mlp"
        if virtual or _pointwise(recording, child, module, seq)
        else "recurrent"
    )
    if role == "attention" and patterned is not None:
        host = _attention_host(model, child, patterned.module)
        inner = recording.at(host, (), "input", ())
        reads = reads if inner is None else inner.tensor
    norm = _norm_before(model, recording, block, reads)
    if block.of(role) is None:
        block.sublayers.append(Sublayer(role, host, contribution, reads, norm, after, virtual))
    else:
        block.why = f"two sublayers of the block are {role}"


def add_beside(
    model: nn.Module, recording: Recording, block: Block, events: Sequence[Event], contribution: Tensor
) -> bool:
    """One sublayer of a mixture and an MLP beside it that read the same and are added up; whether it is so."""
    made = [producer(model, recording, block, event)[0] for event in events]
    paths = [path for path in made if path is not None and has_experts(model.get_submodule(path))]
    others = [path for path in made if path is not None and path not in paths]
    if len(paths) != 1 or len(others) != 1:
        return False
    read = [recording.at(path, (), "input", ()) for path in (*paths, *others)]
    if read[0] is None or read[1] is None or not same(read[0].tensor, read[1].tensor):
        return False
    if not all(
        _pointwise(recording, path, model.get_submodule(path), block.entering.shape[1]) for path in made if path
    ):
        return False
    add_sublayer(model, recording, block, events[made.index(paths[0])], contribution)
    part = block.of("mlp")
    if part is None or part.host != paths[0]:
        return False
    part.beside = others[0]
    return True


def has_experts(module: nn.Module) -> bool:
    """Whether a module has weights stacked by expert, or a list of experts."""
    return any(parameter.dim() == 3 for parameter in module.parameters()) or any(
        isinstance(one, nn.ModuleList) for one in module.modules()
    )


def _first_linear(model: nn.Module, recording: Recording, block: Block) -> str:
    """The first of the block's own projections, which an MLP without a module of its own begins with."""
    called = [
        (event.order, path)
        for name, module in model.get_submodule(block.path).named_children()
        if is_linear(module) and (event := recording.at(path := f"{block.path}.{name}", (), "input", ())) is not None
    ]
    return min(called)[1]


def last_projection(model: nn.Module, recording: Recording, host: str) -> Event | None:
    """What the output projection of a recurrent mixer reads: the last linear map of its own that is called."""
    called = [
        event
        for name, module in model.get_submodule(host).named_children()
        if is_linear(module) and (event := recording.at(f"{host}.{name}", (), "input", ())) is not None
    ]
    return max(called, key=lambda event: event.order, default=None)


def producer(model: nn.Module, recording: Recording, block: Block, event: Event) -> tuple[str | None, str | None]:
    """The block's child that gave a tensor, and the norm it passed on its way."""
    after: str | None = None
    passed: set[str] = set()
    tensor, order = event.tensor, event.order
    for _ in range(4):
        path = _giver(model, recording, block, tensor, order, passed)
        if path is None or not _passes(model, path):
            return path, after
        entered = recording.at(path, (), "input", ())
        if entered is None:
            break
        passed.add(path)
        if is_norm(model.get_submodule(path)):
            after = path
        tensor, order = entered.tensor, entered.order
    return None, after


def _giver(
    model: nn.Module, recording: Recording, block: Block, tensor: Tensor, order: int, passed: set[str]
) -> str | None:
    """The child whose output a tensor is, a sublayer before one that only passes it; else the last called before it."""
    exact: list[tuple[bool, int, str]] = []
    before: list[tuple[int, str]] = []
    for name, _ in model.get_submodule(block.path).named_children():
        path = f"{block.path}.{name}"
        for made in recording.within(path):
            if made.module != path or made.access != "output" or made.tensor.numel() != tensor.numel():
                continue
            if same(made.tensor.reshape(tensor.shape), tensor):
                exact.append((_passes(model, path), made.order, path))
            elif made.order < order and not _passes(model, path):
                before.append((made.order, path))
    exact = [one for one in exact if one[2] not in passed]
    if exact:
        return min(exact)[2]
    return max(before)[1] if before else None


def _passes(model: nn.Module, path: str) -> bool:
    """Whether a module only norms or drops what passes it."""
    module = model.get_submodule(path)
    return is_norm(module) or not list(module.parameters())


def _pointwise(recording: Recording, path: str, module: nn.Module, seq: int) -> bool:
    """Whether a module treats each position by itself, whatever stands before it."""
    given = [
        event
        for event in recording.within(path)
        if event.module == path and not event.operations and event.access == "args" and len(event.index) == 1
    ]
    shuffled = torch.randperm(seq, generator=torch.Generator().manual_seed(1))

    def run(order: Tensor) -> Tensor:
        out = module(*(event.tensor[:, order] for event in given))
        stream = out[0] if isinstance(out, tuple) else out
        return stream.reshape(-1, seq, stream.shape[-1])

    try:
        with torch.no_grad():
            return same(run(shuffled), run(torch.arange(seq))[:, shuffled], 64.0)
    except Exception:
        return False  # it needs more than the stream: a mixer


def is_pattern(event: Event, batch: int, seq: int) -> bool:
    """Whether a tensor is an attention pattern: nothing above the diagonal, rows that sum to at most one."""
    tensor = event.tensor
    if tensor.dim() < 3 or not tensor.is_floating_point() or tuple(tensor.shape[-2:]) != (seq, seq):
        return False
    if tensor.numel() <= batch * seq * seq or bool((tensor < 0).any()) or bool(tensor.triu(1).any()):
        return False
    rows = tensor.sum(-1)
    return bool((rows > 1e-6).all() and (rows < 1 + 1e-4).all()) and bool(tensor.isfinite().all())


def _attention_host(model: nn.Module, child: str, inner: str) -> str:
    """The innermost module around the pattern that has a projection of its own after it."""
    path = inner
    while path != child:
        if any(is_linear(module) for module in model.get_submodule(path).children()):
            return path
        path = path.rpartition(".")[0]
    return child


def _norm_before(model: nn.Module, recording: Recording, block: Block, reads: Tensor) -> str | None:
    """The block's norm whose output a sublayer reads; of a scaled input the norm that was called last."""
    for name, module in model.get_submodule(block.path).named_children():
        path = f"{block.path}.{name}"
        made = recording.at(path, (), "output", ())
        whole = is_norm(module) and made is not None and made.tensor.numel() == reads.numel()
        if whole and made is not None and same(made.tensor.reshape(reads.shape), reads):
            return path
    return None
