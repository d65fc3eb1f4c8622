"""Bearing out: which laws make a value what it is called, so that one of them has to hold before it is proven.

Most laws name several values, and one that holds may say little of some of them: an output projection gives whatever
is read after it. The sums of the block are what make a contribution a contribution.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnpedia.draft.candidates import Pair
from nnpedia.draft.making import Form
from nnpedia.family import Family
from nnpedia.hosts import ENTERING
from nnpedia.laws import values_of
from nnpedia.vocabulary import LawSpec

#: Value to the laws of which at least one has to hold; any that names it, for a value that is not listed.
DEFINING: dict[str, tuple[str, ...]] = {
    "attention_output": ("residual_sum", "attention_add"),
    "mlp_output": ("residual_sum", "recurrent_sum", "mlp_add"),
    "linear_attn_output": ("recurrent_sum", "recurrent_add", "residual_sum", "attention_add"),
    "layer_mid": ("attention_add", "recurrent_add"),
    "attention_norm_output": ("attention_norm",),
    "mlp_norm_output": ("mlp_norm",),
    "attention_queries": ("scores",),
    "attention_keys": ("scores",),
    "attention_scores": ("scores", "pattern"),
    "attention_probabilities": ("pattern", "mixing"),
    "attention_values": ("mixing",),
    "attention_head_outputs": ("mixing",),
    "attention_premix": ("premix", "output_projection"),
    "mlp_activation": ("activation", "neurons"),
    "mlp_neurons": ("neurons", "down_projection"),
    "router_logits": ("routing",),
    "expert_indices": ("experts",),
    "expert_weights": ("experts",),
    "expert_outputs": ("experts", "slots"),
    "routed_output": ("combination", "slots"),
    "shared_expert_output": ("combination",),
}


def as_law(form: Form) -> LawSpec:
    """A form as the law it makes."""
    return LawSpec(says=form.says or "-", formula=form.formula, tolerance=form.tolerance)


def borne_out(laws: Mapping[Pair, Form | None], family: Family) -> set[Pair]:
    """The values of which a law that defines them holds."""
    borne: set[Pair] = set()
    for (host, name), form in laws.items():
        if form is not None:
            named = values_of(as_law(form), host, family.values)
            borne |= {pair for pair in named if name in DEFINING.get(pair[1], (name,))}
    if ("linear_attn", "states") in borne:  # they are worked out from all that enters the recurrence
        borne |= {("linear_attn", name) for name in (*ENTERING, "state_input")}
    return borne


def lacking(laws: Mapping[Pair, Form | None], pair: Pair, family: Family) -> str:
    """Why a value is not borne out: the laws that would do it, no form of which holds."""
    names = DEFINING.get(pair[1]) or [
        name
        for (host, name) in laws
        if pair in values_of(family.vocabulary.laws[host][name], host, family.vocabulary.values)
    ]
    if not names:
        return "no law names it"
    return f"no form of the law{'s' * (len(names) > 1)} {', '.join(names)} holds"
