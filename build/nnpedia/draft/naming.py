"""Names: which native module has which role, in the standard names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nnpedia.draft.feeding import Feeding
from nnpedia.draft.mixing import KEYS, QUERIES, Attention
from nnpedia.draft.places import laid_out, same
from nnpedia.draft.recording import Recording
from nnpedia.draft.sublayers import last_projection
from nnpedia.draft.tree import Block, Containers, is_norm

HOSTS = {"attention": "self_attn", "recurrent": "linear_attn", "mlp": "mlp"}


@dataclass
class Names:
    """Standard names of modules.

    Attributes:
        tables: Host to native name (from the host's parent, as a spec says it) to standard name; only renamed ones.
        paths: Native path of a module of any block to its standard name.
        natives: A module's native path and a standard name below it to the child's native path.
        norms: `attention` and `mlp` to the name a formula calls the norm before that sublayer by.
        after: The same for the norm after it.
        virtual: Hosts that are no module of their own.
    """

    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    natives: dict[tuple[str, str], str] = field(default_factory=dict)
    norms: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    virtual: dict[str, str] = field(default_factory=dict)

    def say(self, host: str, parent: str, path: str, standard: str) -> None:
        """A module below `parent` has a role of `host`."""
        native = path.removeprefix(f"{parent}.") if parent else path
        self.paths[path] = standard
        self.natives[parent, standard] = path
        if native == standard:
            return
        self.tables.setdefault(host, {})[native] = standard
        first, dot, _ = native.partition(".")
        if dot and host == "layers" and first not in HOSTS.values():
            self.tables[host].setdefault(first, first)


def names_of(
    model: nn.Module,
    recording: Recording,
    around: Containers,
    kinds: Sequence[tuple[Block, Attention | None, Feeding | None]],
) -> Names:
    """The names of everything that was given a role."""
    names = Names()
    _root(model, recording, around, names)
    for block, attention, feeding in kinds:
        children = {name for name, _ in model.get_submodule(block.path).named_children()}
        for part in block.sublayers:
            host = HOSTS[part.role]
            if part.virtual:
                names.virtual[host] = "layers"
            else:
                names.say("layers", block.path, part.host, host)
        _norms(block, children, names)
        own = block.of("attention")
        if own and attention and attention.projection and attention.projection.startswith(f"{own.host}."):
            names.say("self_attn", own.host, attention.projection, "o_proj")
        if own and attention:
            _head_norms(model, recording, own.host, attention, names)
        recurrent = block.of("recurrent")
        if recurrent:
            _gated_norm(model, recording, recurrent.host, names)
            last = last_projection(model, recording, recurrent.host)
            if last is not None:
                names.say("linear_attn", recurrent.host, last.module, "out_proj")
        mlp = block.of("mlp")
        if mlp and feeding:
            for role, path in feeding.roles.items():
                if path == mlp.host or not path.startswith(f"{mlp.host}."):
                    continue
                if role == "router":  # the module that holds the map, where it is not the map itself
                    path = ".".join(path.split(".")[: mlp.host.count(".") + 2])
                if role in ("gate_up_proj", "experts") or path.count(".") > mlp.host.count(".") + 1:
                    continue
                names.say("layers" if mlp.virtual else "mlp", mlp.host, path, role)
    return names


def _head_norms(model: nn.Module, recording: Recording, host: str, attention: Attention, names: Names) -> None:
    """The norms of queries and of keys inside an attention; a rotation after them leaves each head as long as it is.

    A norm that may be of either, as those without weights may, gets no name.
    """
    fitting: dict[str, list[str]] = {}
    for standard, value, axes in (("q_norm", "attention_queries", QUERIES), ("k_norm", "attention_keys", KEYS)):
        for target in attention.targets.get(value, [])[:1]:
            sizes = dict(zip(axes, target.shape, strict=True))
            for name, module in model.get_submodule(host).named_children():
                made = recording.at(f"{host}.{name}", (), "output", ())
                if not is_norm(module) or made is None or made.tensor.numel() != target.numel():
                    continue
                laid = (tensor.norm(dim=-1) for _, tensor in laid_out(made.tensor, axes, sizes))
                if any(same(lengths, target.norm(dim=-1), 64.0) for lengths in laid):
                    fitting.setdefault(name, []).append(standard)
    for name, roles in fitting.items():
        if len(roles) == 1 and list(fitting.values()).count(roles) == 1:
            names.say("self_attn", host, f"{host}.{name}", roles[0])


def _gated_norm(model: nn.Module, recording: Recording, host: str, names: Names) -> None:
    """A norm of a recurrent mixer that is called with a gate beside what it norms."""
    for name, _ in model.get_submodule(host).named_children():
        path = f"{host}.{name}"
        own = [event for event in recording.within(path) if event.module == path and not event.operations]
        given = [event for event in own if event.access in ("args", "kwargs") and event.tensor.dim() > 1]
        if len(given) == 2 and given[0].tensor.shape == given[1].tensor.shape and "norm" in name:
            names.say("linear_attn", host, path, "gated_norm")


def _root(model: Any, recording: Recording, around: Containers, names: Names) -> None:
    names.say("model", "", around.embedding, "embed_tokens")
    names.say("model", "", around.layers, "layers")
    if around.norm:
        names.say("model", "", around.norm, "norm")
    names.say("model", "", around.head, "lm_head")
    entering = recording.at(f"{around.layers}.0", (), "input", ())
    for path, module in model.named_modules():
        made = recording.at(path, (), "output", ())
        if path.startswith(f"{around.layers}.") or path in names.paths or made is None or entering is None:
            continue
        if (
            isinstance(module, nn.Embedding)
            and made.order < entering.order
            and made.tensor.shape[-2:] == (entering.tensor.shape[-2:])
        ):
            names.say("model", "", path, "embed_positions")
        elif is_norm(module) and made.order < entering.order and same(made.tensor, entering.tensor):
            names.say("model", "", path, "embed_norm")


def _norms(block: Block, children: set[str], names: Names) -> None:
    """The norms before the sublayers get the standard names, unless another module has them already."""
    mixer = block.of("attention") or block.of("recurrent")
    mixers = [part for part in block.sublayers if part.role != "mlp"]
    before = next((part.norm for part in mixers if part.norm), None)
    mlp = block.of("mlp")
    for role, path, standard in (
        ("attention", before, "input_layernorm"),
        ("mlp", mlp.norm if mlp else None, "post_attention_layernorm"),
    ):
        if path is None:
            continue
        native = path.removeprefix(f"{block.path}.")
        if role == "mlp" and path == before:
            names.norms[role] = names.norms.get("attention", native)
        elif native == standard or standard not in children:
            names.norms[role] = standard
            names.say("layers", block.path, path, standard)
        else:
            names.norms[role] = native
    for role, part in (("attention", mixer), ("mlp", mlp)):
        if part and part.after:
            names.after[role] = part.after.removeprefix(f"{block.path}.")
