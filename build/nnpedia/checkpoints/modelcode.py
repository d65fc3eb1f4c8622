"""Model code: what the source of a model type calls its modules, arguments and classes, told from its text.

Of the words of a source only those count that name such a thing: what is asked of `self`, or given to it under a name
in quotes; what a call passes by name; the classes. Not a local variable, nor a word of a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nnpedia.checkpoints.stated import code_beside, fields_of, knows

_ATTRIBUTES = (
    r"\bself\.(\w+)",
    r"(?:register_\w+|add_module|setattr)\([^\"'\n]*[\"'](\w+)[\"']",
    r"[\"'](\w+)[\"']\s*:",  # of modules by name
    r"(?m)^    (\w+)\s*[:=]",  # of a class
)
_KEYS = (r"\b(\w+)=(?!=)", r"\b(\w+):", r"[\"'](\w+)[\"']")
#: Where transformers has modules that models of any type are made of: activations with weights, `Conv1D`.
SHARED = ("transformers.activations", "transformers.pytorch_utils")
_CLASSES = (r"\bclass (\w+)",)


@dataclass(frozen=True)
class Code:
    """`attributes` of modules and classes, `keys` that arguments and outputs have, and `classes`, all by name."""

    config_class: Any
    attributes: frozenset[str]
    keys: frozenset[str]
    classes: frozenset[str]

    @property
    def settings(self) -> frozenset[str]:
        """The fields of the config class, and their other names."""
        return fields_of(self.config_class)

    def sets(self, name: str) -> bool:
        """Whether a config of this type has a setting, one that it works out itself too, or is asked for it."""
        return knows(self.config_class, name) or hasattr(_plain(self.config_class), name)


@lru_cache(maxsize=8)
def _source(module: str) -> str:
    found = find_spec(module)
    return "" if found is None or found.origin is None else Path(found.origin).read_text(encoding="utf-8")


@lru_cache(maxsize=128)
def _plain(config_class: Any) -> Any:
    """The config of the class's defaults; `None` where they make none."""
    try:
        return config_class()
    except Exception:  # config classes raise whatever their checks raise
        return None


@lru_cache(maxsize=128)
def code_of(model_type: str) -> Code | None:
    """The names in the code of a model type's config and models; `None` where transformers has no such type."""
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        return None
    config_class = CONFIG_MAPPING[model_type]
    text = code_beside(config_class) + "".join(map(_source, SHARED))
    found = [
        frozenset(word for each in kinds for word in re.findall(each, text)) for kinds in (_ATTRIBUTES, _KEYS, _CLASSES)
    ]
    return Code(config_class, *found)
