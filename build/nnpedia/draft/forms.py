"""Forms: how a law may read, from what the families that are there say and from what was seen of this model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nnpedia import formula
from nnpedia.draft.said import Said
from nnpedia.draft.sighting import Pair, Sighting, float_attributes, host_path
from nnpedia.draft.tree import is_linear
from nnpedia.errors import SpecError
from nnpedia.family import Family
from nnpedia.vocabulary import LawSpec, parsed

_SCORES = "unmasked({}, attention_scores) == unmasked(attention_scores, attention_scores)"


@dataclass(frozen=True)
class Form:
    """A law as it may read."""

    formula: str
    says: str
    tolerance: float


def law_forms(
    seen: Sighting, said: Mapping[Pair, Said], pair: Pair, base: Family | None, pool: Sequence[Family]
) -> list[Form]:
    """The forms of one law, the base's first, then the others' and those made for this model; each once."""
    vocabulary = seen.vocabulary.laws[pair[0]][pair[1]]
    given: list[LawSpec] = [] if base is None else [base.laws[pair[0]][pair[1]]]
    given += [vocabulary]
    for family in pool:
        given.append(family.laws[pair[0]][pair[1]])
        for variant in family.variants.values():
            override = variant.laws.get(pair[0], {}).get(pair[1])
            if override is not None and override.formula is not None:
                given.append(override.over(vocabulary))
    forms = [Form(law.formula, law.says, law.tolerance) for law in given if law.exception is None]
    made = [form for form in _made(seen, said, pair, vocabulary) if _parses(form.formula)]
    forms = [form for form in forms if answered(seen, form.formula)]
    unique: dict[str, Form] = {}
    for form in [*forms[:1], *made[:1], *forms[1:], *made[1:]] if pair in _SEEN_FIRST else [*forms, *made]:
        unique.setdefault(form.formula, form)
    return list(unique.values())


def answered(seen: Sighting, text: str) -> bool:
    """Whether the config has every setting a formula names."""
    return all(hasattr(seen.trial.config, name) for name in re.findall(r"config\.(\w+)", text))


_SEEN_FIRST = (("layers", "mlp_norm"), ("layers", "attention_norm"))


def _parses(text: str) -> bool:
    try:
        parsed(lambda one: formula.parse(one, law=True), text)
    except (SpecError, ValueError):
        return False
    return True


def _made(seen: Sighting, said: Mapping[Pair, Said], pair: Pair, law: LawSpec) -> Iterator[Form]:
    makers = {
        ("model", "first_block_input"): _entering,
        ("model", "head_is_logits"): _logits,
        ("layers", "attention_norm"): _attention_norm,
        ("layers", "mlp_norm"): _mlp_norm,
        ("layers", "mlp_call"): _mlp_call,
        ("self_attn", "scores"): _scores,
        ("self_attn", "pattern"): _pattern,
        ("self_attn", "premix"): _premix,
        ("layers", "residual_sum"): _sums,
        ("layers", "attention_add"): _middle,
        ("layers", "recurrent_sum"): _recurrent_sums,
        ("layers", "mlp_add"): _after_sums,
        ("mlp", "activation"): _activation,
        ("mlp", "neurons"): _neurons,
        ("mlp", "routing"): _routing,
        ("mlp", "experts"): _every_expert,
        ("self_attn", "output_projection"): _projected,
        ("mlp", "down_projection"): _down,
        ("mlp", "combination"): _combined,
        ("linear_attn", "projection"): _recurrent,
        ("linear_attn", "reading"): _reading,
    }
    maker = makers.get(pair)
    if maker is not None:
        for text, says in maker(seen, said):
            yield Form(text, says, max(law.tolerance, 2.0) if "alibi" in text else law.tolerance)


def group(factor: str) -> str:
    """A factor as it stands in a product."""
    return f"({factor})" if " " in factor else factor


Made = Iterator[tuple[str, str]]


def _entering(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    factors = ["config.hidden_size ** 0.5", *(one for one in seen.scales if "hidden_layers" not in one)]
    tokens = ["token_embeddings", *(f"token_embeddings * {group(factor)}" for factor in factors)]
    positions = ["", " + embed_positions(counted(token_embeddings))", " + embed_positions(attention_mask)"]
    for text in tokens:
        for position in positions:
            says = f"the token embedding{', times a factor,' if '*' in text else ''}"
            says += " plus the position embedding" if position else ""
            yield f"{text}{position} == first.layer_input", f"What enters the first block is {says}"
            yield (
                f"embed_norm({text}{position}) == first.layer_input",
                f"What enters the first block is the norm of {says}",
            )


def _logits(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for factor in seen.scales:
        yield f"lm_head_output * {group(factor)} == logits", "The logits are what lm_head returns, times a factor"
        if factor.startswith("config.") and " " not in factor:
            yield f"lm_head_output / {factor} == logits", "The logits are what lm_head returns, over a factor"
            yield f"softcap(lm_head_output, {factor}) == logits", "The logits are what lm_head returns, softcapped"


def _attention_norm(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    if name := seen.names.norms.get("attention"):
        yield f"{name}(layer_input) == attention_norm_output", "The first norm of the block's input is what is read"


def _mlp_norm(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    if name := seen.names.norms.get("mlp"):
        for stream, what in (("layer_mid", "the middle of the block"), ("layer_input", "the block's input")):
            yield f"{name}({stream}) == mlp_norm_output", f"The norm of {what} is what goes to the MLP"


def _mlp_call(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield "attention_norm_output == mlp_input", "The MLP is called with what the attention reads"
    yield "layer_mid == mlp_input", "The MLP is called with the middle of the block as it is"
    yield "layer_input == mlp_input", "The MLP is called with the block's input as it is"


def _scores(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    dots = "dot(attention_queries, attention_keys)"
    numbers: dict[str, None] = {}
    for kind in seen.kinds:
        path = host_path(kind, "self_attn")
        if path is not None:
            numbers.update(dict.fromkeys(name for name, _ in float_attributes(seen.trial.model.get_submodule(path))))
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


def _pattern(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for kind in seen.kinds:
        path = host_path(kind, "self_attn")
        if path is None or kind.attention is None:
            continue
        for name, parameter in seen.trial.model.get_submodule(path).named_parameters(recurse=False):
            if tuple(parameter.shape) == (kind.attention.sizes.get("num_heads"),):
                yield (
                    f"softmax_beside(attention_scores, {name}) == attention_probabilities",
                    "The pattern is the softmax of the scores and each head's sink, without the sink's share",
                )


def _premix(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    says = "The output projection reads the head outputs, each times the sigmoid of a gate"
    names: dict[str, None] = {}
    for kind in seen.kinds:
        path = host_path(kind, "self_attn")
        if path is not None:
            children = seen.trial.model.get_submodule(path).named_children()
            names.update(dict.fromkeys(name for name, module in children if is_linear(module)))
    for name in names:
        cut = f"by_heads({name}(block.attention_norm_output), attention_head_outputs)"
        for gate in (cut, f"second_half({cut})", f"first_half({cut})"):
            yield f"attention_head_outputs * sigmoid({gate}) == attention_premix", says


_BOTH = (
    "(linear_attn.linear_attn_output + self_attn.attention_output)",
    "(self_attn.attention_output + linear_attn.linear_attn_output)",
)


def _sums(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    one, other = "self_attn.attention_output", "mlp.mlp_output"
    for text in (f"({one} + {other}) + layer_input", f"layer_input + ({one} + {other})"):
        yield f"{text} == layer_output", "A block adds its attention's and its MLP's contributions to what entered"
    for both in _BOTH:
        yield (
            f"layer_input + {both} + {other} == layer_output",
            "A block adds both mixers' contributions at once, then its MLP's",
        )


def _recurrent_sums(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield (
        "layer_input + linear_attn.linear_attn_output == layer_output",
        "A block adds its recurrent mixer's contribution to what entered, and nothing else",
    )


def _after_sums(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for kind in seen.kinds:
        for name in kind.block.sums[1:]:
            yield (
                f"{name}(layer_mid + mlp.mlp_output) == layer_output",
                "The block's output is the norm of its middle plus the MLP's contribution",
            )


def _middle(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for kind in seen.kinds:
        for name in kind.block.sums[:1]:
            yield (
                f"{name}(layer_input + self_attn.attention_output) == layer_mid",
                "The middle of the block is the norm of its input plus the attention's contribution",
            )
    for both in _BOTH:
        yield f"layer_input + {both} == layer_mid", "The middle of the block is the input plus both contributions"


def _activation(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield "act_fn(up_proj(block.mlp_input)) == mlp_activation", "The activation function reads the up projection"
    for half, which in (("first_half", "first"), ("second_half", "second")):
        yield (
            f"act_fn({half}({_fused(seen)}(block.mlp_input))) == mlp_activation",
            f"The activation function reads the {which} half of the fused projection",
        )


def _neurons(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
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


def _routing(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
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


def _every_expert(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    if any(kind.feeding and kind.feeding.layouts for kind in seen.kinds):
        yield (
            "every_expert(experts, block.mlp_input, expert_weights) == expert_outputs",
            "Each expert's output is the expert run on the token times its weight",
        )


def _contribution(seen: Sighting, role: str, inner: str, value: str, what: str) -> Made:
    after = seen.names.after.get(role)
    normed = f"block.{after}({inner})" if after else inner
    yield f"{normed} == {value}", f"{what}{', normed,' if after else ''} are what is added to the stream"
    for factor in seen.scales:
        yield f"{normed} * {group(factor)} == {value}", f"{what}, times a factor, are what is added to the stream"


def _projected(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    inner = "o_proj(side_by_side(attention_premix))"
    yield from _contribution(seen, "attention", inner, "attention_output", "The projected heads")


def _down(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield from _contribution(seen, "mlp", "down_proj(mlp_neurons)", "mlp_output", "The projected neurons")


def _combined(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for inner in ("routed_output + shared_expert_output", "routed_output"):
        yield from _contribution(seen, "mlp", inner, "mlp_output", "What the experts give")


def _recurrent(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    yield from _contribution(seen, "recurrent", "out_proj(premix)", "linear_attn_output", "The projected premix")


def _reading(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    for kind in seen.kinds:
        path = host_path(kind, "linear_attn")
        if path is None or kind.recurrence is None:
            continue
        by_channel = bool(kind.recurrence.layouts)
        read = f"{'read_channels' if by_channel else 'read_states'}(states, queries)"
        yield f"{read} == head_outputs", "The states read with the queries are the head outputs"
        for name, parameter in seen.trial.model.get_submodule(path).named_parameters(recurse=False):
            if parameter.dim() == 1:
                skip = f"values * {name}" if by_channel else f"per_head({name}, values)"
                yield (
                    f"{read} + {skip} == head_outputs",
                    "The states read with the queries, plus the skip, are the outputs",
                )
