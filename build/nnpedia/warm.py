"""What the fork server imports once, so that a unit of work does not import it again.

An import that fails here fails again in the unit that needs it, and is reported there.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import threading

# Nothing is fetched unless the build was told to (`--hub` sets this to 0): a checkpoint made here
# needs nothing, and asking for it would make a build wait on the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

HEAVY = (
    "torch",
    "nnsight.modeling.language",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "nnpedia.introspect",
    # what these import when they are first used
    "transformers.masking_utils",
    "transformers.modeling_layers",
    "transformers.pipelines.text_generation",
    "nnsight.modeling.quantization",
    "nnsight.modeling.tp.envoys",
    "einops._torch_specific",
    "nnpedia.checkpoints.forge",
    "nnpedia.checkpoints.hub",
    "nnpedia.checkpoints.stated",
    "nnpedia.fences",
    "nnpedia.isolation",
    "nnpedia.loading",
    "nnpedia.produce",
)

for module in HEAVY:
    with contextlib.suppress(Exception):
        importlib.import_module(module)

with contextlib.suppress(Exception):
    # tqdm would take a semaphore of the system's in each unit, which a unit that is ended leaves behind
    importlib.import_module("tqdm").tqdm.set_lock(threading.RLock())

with contextlib.suppress(Exception):
    # over a thousand patterns, compiled for the first weights that a process loads
    importlib.import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("llama")

with contextlib.suppress(Exception):
    from nnpedia import cache, vocabulary

    # every spec stands on it; a unit that finds another text there parses that one
    vocabulary.document(cache.families_folder().resolve())

gc.freeze()  # a unit's collections look through its own objects, not through those of what is imported here
