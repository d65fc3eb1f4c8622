"""Readouts: how a hidden state may be read out, and the law that tells whether it is so."""

from __future__ import annotations

from collections.abc import Sequence

from nnpedia.draft.forms import answered
from nnpedia.draft.inside import group
from nnpedia.draft.sighting import Sighting
from nnpedia.family import Family


def readout_forms(seen: Sighting, base: Family | None, pool: Sequence[Family]) -> list[str]:
    """How a hidden state may be read out."""
    plain = "lm_head(norm(hidden))"
    forms = [base.readout] if base else []
    forms += [seen.vocabulary.readout, *(family.readout for family in pool)]
    if seen.containers.norm is None:
        forms.append("lm_head(hidden)")
    for factor in seen.scales:
        forms.append(f"{plain} * {group(factor)}")
        if factor.startswith("config.") and " " not in factor:
            forms += [f"{plain} / {factor}", f"softcap({plain}, {factor})", f"lm_head(norm(hidden) / {factor})"]
    forms += _ratios(seen)
    return [form for form in dict.fromkeys(forms) if answered(seen, form)]


def _ratios(seen: Sighting) -> list[str]:
    """A readout with the norm over a quotient of two whole numbers of the config; where only one pair gives it."""
    given = seen.trial.config.to_dict()
    whole = {key: value for key, value in given.items() if type(value) is int and value > 0 and not key.endswith("_id")}
    wanted = 1.0 / seen.containers.ratio
    pairs = [
        f"lm_head(norm(hidden) / (config.{over} / config.{under}))"
        for over, one in whole.items()
        for under, other in whole.items()
        if one != other and abs(one / other - wanted) < 1e-5 * wanted
    ]
    return pairs if len(pairs) == 1 else []


def readout_law(readout: str) -> str:
    """A readout as the law it makes."""
    return (
        f"{readout.replace('hidden', 'last.layer_output').replace('last.layer_output_size', 'hidden_size')} == logits"
    )
