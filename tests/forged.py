"""Forged checkpoints, one per family folder, and the models on them, each loaded once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

PROMPT = "The Eiffel Tower is in the city of"


@cache
def spec(family: str) -> Any:
    from nnpedia.cache import families_folder
    from nnpedia.family import load_family

    return load_family(families_folder() / family)


ALL = sorted(path.parent.name for path in (Path(__file__).parent.parent / "families").glob("*/family.yml"))
#: Every family there is: a folder with a spec joins every test by existing, where transformers has its model type.
FAMILIES = [family for family in ALL if not spec(family).too_new]
YOUNGER = [family for family in ALL if spec(family).too_new]

each_family = pytest.mark.parametrize(
    "family",
    [*FAMILIES, *(pytest.param(each, marks=pytest.mark.skip(reason=f"it {spec(each).too_new}")) for each in YOUNGER)],
)


@cache
def folder(family: str) -> Path:
    """The family's forged checkpoint, as `from_pretrained` takes it."""
    from nnpedia.checkpoints import materialize, runnables

    forge = next(runnable for runnable in runnables(spec(family)) if runnable.name == "forge")
    return materialize(forge, spec(family))


@cache
def _load(family: str, options: tuple[tuple[str, str], ...]) -> Any:
    from nnpedia import StandardizedTransformer

    model = StandardizedTransformer(folder(family), **dict(options))
    model.dispatch()
    return model


def load(family: str, **options: str) -> Any:
    """The family's model under a load, shared by all tests: leave it as it was."""
    return _load(family, tuple(sorted(options.items())))


def attentions(family: str) -> tuple[str, ...]:
    """The attention implementations that transformers loads the family's class with."""
    import transformers

    supported = getattr(transformers, spec(family).architecture)._supports_sdpa
    return ("eager", "sdpa") if supported else ("eager",)


def is_mixture(family: str) -> bool:
    return "mixture" in spec(family).parts


def chooses_experts(family: str) -> bool:
    """Whether a load may choose how the family's experts run; some classes run them one way only."""
    import transformers

    return is_mixture(family) and getattr(transformers, spec(family).architecture)._can_set_experts_implementation()


def full(family: str) -> Any:
    """The family's model under the load that gives every value it has."""
    options = {"attn_implementation": "eager"}
    return load(family, **options, **({"experts_implementation": "batched_mm"} if chooses_experts(family) else {}))


def encoded(model: Any, *prompts: str) -> dict[str, Any]:
    """Token ids and mask `[batch seq]` of prompts, as the checkpoint's tokenizer gives them."""
    encoding = model.tokenizer(list(prompts), return_tensors="pt", padding=len(prompts) > 1)
    return {key: encoding[key] for key in ("input_ids", "attention_mask")}
