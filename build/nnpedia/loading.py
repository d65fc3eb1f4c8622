"""Opening a checkpoint: its config and tokenizer now, its weights when the first trace needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nnpedia.device import placed
from nnpedia.errors import CheckpointError, NnpediaError

#: Keywords of `from_pretrained` that say how a Hub id becomes the folder that is loaded.
FETCHING = ("token", "cache_dir", "local_files_only", "force_download")


@dataclass(frozen=True)
class Opened:
    """What `StandardizedTransformer` hands to nnsight."""

    source: Any  # a folder's path, or a loaded module
    config: Any
    tokenizer: Any
    load: dict[str, Any]
    model_class: Any = None  # the transformers class that loads; `None` for a module, which is loaded already

    @property
    def model_type(self) -> str:
        return self.config.model_type


def open_checkpoint(
    checkpoint: str | Path | torch.nn.Module,
    revision: str | None,
    tokenizer: Any,
    load: dict[str, Any],
    given: dict[str, Any],
) -> Opened:
    """Resolve a checkpoint to a folder or a module; raises `CheckpointError` in one line.

    What `given` says of fetching is taken out of it.
    """
    if isinstance(checkpoint, torch.nn.Module):
        return _open_module(checkpoint, tokenizer, load)
    if hasattr(checkpoint, "_module"):
        raise CheckpointError(
            f"a {type(checkpoint).__name__} is a model already: pass the module or the name it came from"
        )
    import transformers
    from transformers import AutoConfig

    from nnpedia.checkpoints import resolve

    if given.get("device_map") is not None:
        placed(given["device_map"])
    how = {name: given.pop(name) for name in FETCHING if name in given}
    folder = str(resolve(checkpoint, revision, **how))
    with reading(str(checkpoint)):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    model_class = getattr(transformers, (config.architectures or [""])[0], None)
    check_choices(model_class, load)
    return Opened(
        folder, config, tokenizer or load_tokenizer(folder), load, model_class or transformers.PreTrainedModel
    )


def check_choices(model_class: Any, load: dict[str, Any]) -> None:
    """Raise `CheckpointError` for a choice that a transformers class does not offer; an unknown class is not asked."""
    name = getattr(model_class, "__name__", "")
    if load.get("attn_implementation") == "sdpa" and not getattr(model_class, "_supports_sdpa", True):
        raise CheckpointError(f"{name} has no attn_implementation 'sdpa': load it with 'eager', its default")
    asks = getattr(model_class, "_can_set_experts_implementation", None)
    if "experts_implementation" in load and asks is not None and not asks():
        raise CheckpointError(f"{name} runs its experts one way only: load it without experts_implementation")


def _open_module(module: torch.nn.Module, tokenizer: Any, load: dict[str, Any]) -> Opened:
    config: Any = getattr(module, "config", None)
    if config is None or not hasattr(config, "model_type"):
        raise CheckpointError(
            f"{type(module).__name__} is not a transformers model: it has no config with a model_type"
        )
    if not getattr(module, "can_generate", lambda: False)():
        raise CheckpointError(f"{type(module).__name__} is not a causal language model: load AutoModelForCausalLM")
    check_choices(type(module), load)
    if "attn_implementation" in load:
        module.set_attn_implementation(load.pop("attn_implementation"))  # type: ignore[operator]
    if "experts_implementation" in load:
        module.set_experts_implementation(load.pop("experts_implementation"))  # type: ignore[operator]
    if "dtype" in load or "device" in load:
        module.to(dtype=load.pop("dtype", None), device=load.pop("device", None))
    # The pipeline nnsight makes would move the module to a device of its own choosing.
    load["device"] = next(module.parameters()).device
    name = getattr(config, "name_or_path", "") or ""
    if tokenizer is None and name and os.path.isdir(name):
        tokenizer = load_tokenizer(name)
    return Opened(module, config, tokenizer or TokenIdsOnly(), load)


def load_tokenizer(folder: str) -> Any:
    """The checkpoint's tokenizer, padding on the left; a stand-in that explains itself if it has none."""
    from transformers import AutoTokenizer

    if not any((Path(folder) / name).exists() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json")):
        return TokenIdsOnly()
    with reading(folder):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


class TokenIdsOnly:
    """Stands where a tokenizer would: the model then takes token ids, and text says so."""

    pad_token = eos_token = pad_token_id = None
    padding_side = "left"
    is_fast = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise CheckpointError("this checkpoint came without a tokenizer: pass token ids, or tokenizer=")

    encode = decode = batch_decode = apply_chat_template = __call__


@contextmanager
def reading(name: str, what: str = "the checkpoint cannot be read") -> Iterator[None]:
    """Turn whatever a library raises over a bad file or a bad choice into one line."""
    try:
        yield
    except NnpediaError:
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"{what}: {text[:300]}", where=name) from error


@contextmanager
def reading_weights(name: str) -> Iterator[None]:
    """The same while weights load; raises for a weight the files lack, where transformers draws one at random."""
    from transformers import PreTrainedModel

    finish: Any = PreTrainedModel._finalize_model_loading
    missing: list[str] = []

    def finishing(*args: Any, **kwargs: Any) -> Any:
        info = finish(*args, **kwargs)
        missing.extend(sorted(info.missing_keys))
        return info

    PreTrainedModel._finalize_model_loading = staticmethod(finishing)
    try:
        with reading(name):
            yield
    finally:
        PreTrainedModel._finalize_model_loading = staticmethod(finish)
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise CheckpointError(f"the checkpoint lacks the weights {', '.join(missing[:3])}{more}", where=name)
