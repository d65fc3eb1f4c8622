"""What the fork server imports once, so that a unit of work does not import it again.

An import that fails here fails again in the unit that needs it, and is reported there.
"""

from __future__ import annotations

import contextlib
import importlib

HEAVY = (
    "torch",
    "nnsight.modeling.language",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "nnpedia.introspect",
)

for module in HEAVY:
    with contextlib.suppress(Exception):
        importlib.import_module(module)
