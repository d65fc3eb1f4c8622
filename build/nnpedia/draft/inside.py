"""Forms of the laws inside a sublayer: what an attention, an MLP, a mixture and a recurrence may compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from nnpedia.draft.candidates import Pair, host_path
from nnpedia.draft.said import Said
from nnpedia.draft.sighting import Kind, Sighting
from nnpedia.draft.tree import is_linear, is_norm

Made = Iterator[tuple[str, str]]
_SCORES = "unmasked({}, attention_scores) == unmasked(attention_scores, attention_scores)"


def group(factor: str) -> str:
    """A factor as it stands in a product."""
    return f"({factor})" if " " in factor else factor


def _hosts(seen: Sighting, host: str) -> Iterator[tuple[Kind, nn.Module]]:
    """For each kind of block that has a host, the module it is."""
    for kind in seen.kinds:
        path = host_path(kind, host)
        if path is not None:
            yield kind, seen.trial.model.get_submodule(path)


def scores(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    dots = "dot(attention_queries, attention_keys)"
    numbers: dict[str, None] = {}
    for _, module in _hosts(seen, "self_attn"):
        numbers.update(dict.fromkeys(name for name, _ in _float_attributes(module)))
    scaled = [dots, f"{dots} / head_dim ** 0.5"]
    scaled += [text for name in numbers for text in (f"{name} * {dots}", f"{dots} / {name}")]
    scaled += [f"{dots} * {group(factor)}" for factor in seen.scales]
    for text in scaled:
        yield _SCORES.format(text), "Wherever nothing is masked, the scores are the scaled dot products"
    for text in scaled:
        for where in ("positions_from_start", "positions_from_end"):
            yield (
                _SCORES.format(f"{text} + alibi_slopes(attention_scores) * {where}(attention_scores)"),
                "Wherever nothing is masked, the scores are the scaled dot products plus a slope for each position",
            )
    caps = [factor for factor in seen.scales if "cap" in factor and " " not in factor]
    for cap in caps:
        for text in scaled:
            yield (
                _SCORES.format(f"softcap({text}, {cap})"),
                "Wherever nothing is masked, the scores are the scaled dot products, softcapped",
            )


def pattern(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for kind, module in _hosts(seen, "self_attn"):
        heads = kind.attention.sizes.get("num_heads") if kind.attention else None
        for name, parameter in module.named_parameters(recurse=False):
            if tuple(parameter.shape) == (heads,):
                yield (
                    f"softmax_beside(attention_scores, {name}) == attention_probabilities",
                    "The pattern is the softmax of the scores and each head's sink, without the sink's share",
                )


def premix(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    says = "The output projection reads the head outputs, each times the sigmoid of a gate"
    names: dict[str, None] = {}
    for _, module in _hosts(seen, "self_attn"):
        names.update(dict.fromkeys(name for name, child in module.named_children() if is_linear(child)))
    for name in names:
        cut = f"by_heads({name}(block.attention_norm_output), attention_head_outputs)"
        for gate in (cut, f"second_half({cut})", f"first_half({cut})"):
            yield f"attention_head_outputs * sigmoid({gate}) == attention_premix", says


def activation(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield "act_fn(up_proj(block.mlp_input)) == mlp_activation", "The activation function reads the up projection"
    for half, which in (("first_half", "first"), ("second_half", "second")):
        yield (
            f"act_fn({half}({_fused(seen)}(block.mlp_input))) == mlp_activation",
            f"The activation function reads the {which} half of the fused projection",
        )


def neurons(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield "mlp_activation == mlp_neurons", "The neurons are the activation, since nothing gates it"
    for half, which in (("second_half", "second"), ("first_half", "first")):
        yield (
            f"mlp_activation * {half}({_fused(seen)}(block.mlp_input)) == mlp_neurons",
            f"The neurons are the activation times the {which} half of the fused projection",
        )


def _fused(seen: Sighting) -> str:
    """What a formula calls the projection that gives gate and up side by side."""
    for kind in seen.kinds:
        if kind.feeding and "gate_up_proj" in kind.feeding.roles:
            return kind.feeding.roles["gate_up_proj"].rpartition(".")[2]
    return "gate_up_proj"


def routing(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    paths = {"router": None}
    for kind in seen.kinds:
        mlp = kind.block.of("mlp")
        if mlp and kind.feeding and "router" in kind.feeding.roles:
            paths[kind.feeding.roles["router"].removeprefix(f"{mlp.host}.")] = None
    for path in paths:
        yield f"linear(block.mlp_input, {path}.weight) == router_logits", "The router's scores are a linear map"
        yield (
            f"linear(block.mlp_input, {path}.weight) + {path}.bias == router_logits",
            "The router's scores are an affine map of the MLP's input",
        )


def every_expert(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    if any(kind.feeding and kind.feeding.layouts for kind in seen.kinds):
        yield (
            "every_expert(experts, block.mlp_input, expert_weights) == expert_outputs",
            "Each expert's output is the expert run on the token times its weight",
        )


def _contribution(seen: Sighting, role: str, inner: str, value: str, what: str) -> Made:
    after = seen.names.after.get(role)
    normed = f"block.{after}({inner})" if after else inner
    whole = f"({normed})" if " + " in normed and not after else normed
    yield f"{normed} == {value}", f"{what}{', normed,' if after else ''} are what is added to the stream"
    for factor in seen.scales:
        yield f"{whole} * {group(factor)} == {value}", f"{what}, times a factor, are what is added to the stream"


def projected(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    inner = "o_proj(side_by_side(attention_premix))"
    yield from _contribution(seen, "attention", inner, "attention_output", "The projected heads")


def down(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield from _contribution(seen, "mlp", "down_proj(mlp_neurons)", "mlp_output", "The projected neurons")


def combined(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    scaled = [f"routed_output * {group(factor)} + shared_expert_output" for factor in seen.scales]
    for inner in ("routed_output + shared_expert_output", "routed_output", *scaled):
        yield from _contribution(seen, "mlp", inner, "mlp_output", "What the experts give")
        for norm in _norms_within(seen, "mlp"):
            yield f"{norm}({inner}) == mlp_output", "What the experts give, normed, is what is added to the stream"


def _norms_within(seen: Sighting, host: str) -> list[str]:
    """The norms that are a sublayer's own."""
    found: dict[str, None] = {}
    for kind, module in _hosts(seen, host):
        if host_path(kind, host) != kind.block.path:
            found.update(dict.fromkeys(name for name, child in module.named_children() if is_norm(child)))
    return list(found)


def recurrent(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield from _contribution(seen, "recurrent", "out_proj(premix)", "linear_attn_output", "The projected premix")


def reading(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for kind, module in _hosts(seen, "linear_attn"):
        if kind.recurrence is None:
            continue
        by_channel = bool(kind.recurrence.layouts)
        read = f"{'read_channels' if by_channel else 'read_states'}(states, queries)"
        yield f"{read} == head_outputs", "The states read with the queries are the head outputs"
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() == 1:
                skip = f"values * {name}" if by_channel else f"per_head({name}, values)"
                yield (
                    f"{read} + {skip} == head_outputs",
                    "The states read with the queries, plus the skip, are the outputs",
                )


def _float_attributes(module: nn.Module) -> Iterator[tuple[str, float]]:
    """A module's own numbers, by name."""
    for name, value in vars(module).items():
        if isinstance(value, float) and value > 0 and not any(word in name for word in ("dropout", "eps", "_p")):
            yield name, value
