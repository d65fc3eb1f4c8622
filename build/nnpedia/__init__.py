"""nnpedia: the standard names of a transformer's internal values, on live models.

    from nnpedia import StandardizedTransformer

    model = StandardizedTransformer("llama:SmolLM2-135M-Instruct")
    with model.trace("The Eiffel Tower is in the city of"):
        stream = model.layers[5].layer_output.save()

Importing the package is light: torch and transformers load with the first name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnpedia.errors import (
        CheckpointError,
        LayoutError,
        NnpediaError,
        NoSuchBlock,
        OutsideTrace,
        PaddingWarning,
        PromptError,
        ReadOnly,
        ReadTooLate,
        Unavailable,
        UnknownFamily,
        UnknownKeyword,
    )
    from nnpedia.model import StandardizedTransformer

_HOMES = {
    "StandardizedTransformer": "nnpedia.model",
    **dict.fromkeys(
        (
            "CheckpointError",
            "LayoutError",
            "NnpediaError",
            "NoSuchBlock",
            "OutsideTrace",
            "PaddingWarning",
            "PromptError",
            "ReadOnly",
            "ReadTooLate",
            "Unavailable",
            "UnknownFamily",
            "UnknownKeyword",
        ),
        "nnpedia.errors",
    ),
}

__all__ = [
    "CheckpointError",
    "LayoutError",
    "NnpediaError",
    "NoSuchBlock",
    "OutsideTrace",
    "PaddingWarning",
    "PromptError",
    "ReadOnly",
    "ReadTooLate",
    "StandardizedTransformer",
    "Unavailable",
    "UnknownFamily",
    "UnknownKeyword",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nnpedia' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
