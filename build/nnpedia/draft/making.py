"""Making forms: how a law may read of this model, from what was seen of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nnpedia.draft import inside
from nnpedia.draft.candidates import Pair
from nnpedia.draft.inside import Made
from nnpedia.draft.said import Said
from nnpedia.draft.sighting import Sighting
from nnpedia.vocabulary import LawSpec


@dataclass(frozen=True)
class Form:
    """A law as it may read."""

    formula: str
    says: str
    tolerance: float


def made_forms(seen: Sighting, said: Mapping[Pair, Said], pair: Pair, law: LawSpec) -> Iterator[Form]:
    """The forms that what was seen suggests for a law; they need not parse, nor hold."""
    makers = {
        ("model", "first_block_input"): _entering,
        ("model", "head_is_logits"): _logits,
        ("layers", "attention_norm"): _attention_norm,
        ("layers", "mlp_norm"): _mlp_norm,
        ("layers", "mlp_call"): _mlp_call,
        ("self_attn", "scores"): inside.scores,
        ("self_attn", "pattern"): inside.pattern,
        ("self_attn", "premix"): inside.premix,
        ("layers", "residual_sum"): _sums,
        ("layers", "attention_add"): _middle,
        ("layers", "recurrent_sum"): _recurrent_sums,
        ("layers", "mlp_add"): _after_sums,
        ("mlp", "activation"): inside.activation,
        ("mlp", "neurons"): inside.neurons,
        ("mlp", "routing"): inside.routing,
        ("mlp", "experts"): inside.every_expert,
        ("self_attn", "output_projection"): inside.projected,
        ("mlp", "down_projection"): inside.down,
        ("mlp", "combination"): inside.combined,
        ("linear_attn", "projection"): inside.recurrent,
        ("linear_attn", "reading"): inside.reading,
    }
    maker = makers.get(pair)
    if maker is not None:
        for text, says in maker(seen, said):
            yield Form(text, says, max(law.tolerance, 2.0) if "alibi" in text else law.tolerance)


def _entering(seen: Sighting, said: Mapping[Pair, Said]) -> Made:
    factors = ["config.hidden_size ** 0.5", *(one for one in seen.scales if "hidden_layers" not in one)]
    tokens = ["token_embeddings", *(f"token_embeddings * {inside.group(factor)}" for factor in factors)]
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
        yield (
            f"lm_head_output * {inside.group(factor)} == logits",
            "The logits are what lm_head returns, times a factor",
        )
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
    yield f"layer_input + {one} == layer_output", "A block of attention adds its contribution, and nothing else"
    for name in _scales(seen):
        yield (
            f"(layer_input + {one} + {other}) * {name} == layer_output",
            "A block adds its contributions to what entered, and scales the sum by a number of its own",
        )


def _scales(seen: Sighting) -> list[str]:
    """The numbers of their own by which blocks scale what leaves them."""
    return list(dict.fromkeys(kind.block.scale for kind in seen.kinds if kind.block.scale))


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
    for name in _scales(seen):
        yield (
            f"(layer_mid + mlp.mlp_output) * {name} == layer_output",
            "The MLP's contribution is added last, and the sum is scaled by a number of the block",
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
