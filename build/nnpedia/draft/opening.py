"""Opening what is to be drafted: a model type, a checkpoint or a folder, to a config and the class it builds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnpedia.errors import CheckpointError, nearest

#: What the docstring of a config class links to: the checkpoint whose sizes its defaults are.
_LINKED = re.compile(r"\[([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)\]\(https://huggingface\.co/")

#: Settings of transformers' own, which say nothing of an architecture.
_GENERIC = ("transformers_version", "architectures", "dtype", "torch_dtype", "model_type", "auto_map")


@dataclass(frozen=True)
class Subject:
    """What a draft is made of.

    Attributes:
        config: The config at full size.
        stated: Its keys that differ from the config class's defaults, of those that mean something to the class.
        architecture: The class that `AutoModelForCausalLM` builds from it.
        checkpoint: A public checkpoint's id, to be the reference.
        origin: Where the config comes from, as a spec says it.
    """

    model_type: str
    config: Any
    architecture: str
    checkpoint: str
    origin: str = "defaults"
    stated: dict[str, Any] = field(default_factory=dict)


def open_subject(name: str) -> Subject:
    """The subject of a model type, a Hub id or a folder.

    Raises `CheckpointError`, one line, for a type that is not there, for what is no decoder-only causal language
    model, for a config that does not build, and for a checkpoint that needs code of its own.
    """
    from transformers import CONFIG_MAPPING

    if name in CONFIG_MAPPING:
        return _of_type(name)
    if "/" not in name and not Path(name).is_dir():
        raise CheckpointError(
            f"{name!r} is neither a folder, a checkpoint nor a model type of transformers"
            f"{nearest(name, CONFIG_MAPPING.keys())}"
        )
    return _of_checkpoint(name)


def _of_type(model_type: str) -> Subject:
    from transformers import CONFIG_MAPPING

    architecture = _architecture(model_type, model_type)
    config_class = CONFIG_MAPPING[model_type]
    try:
        config = config_class()
    except Exception as error:  # config classes raise whatever their checks raise
        raise CheckpointError(f"{model_type}: the config class builds no config of itself: {_line(error)}") from None
    _check(config, architecture, model_type)
    found = _LINKED.search(config_class.__doc__ or "")
    checkpoint = found.group(1) if found else f"{model_type.replace('_', '-')}/defaults"
    return Subject(model_type, config, architecture, checkpoint)


def _of_checkpoint(name: str) -> Subject:
    from transformers import AutoConfig

    from nnpedia.checkpoints import resolve
    from nnpedia.checkpoints.stated import knows
    from nnpedia.loading import reading

    folder = resolve(name)
    with reading(name):
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if "auto_map" in raw and raw.get("model_type") not in _known_types():
            raise CheckpointError("its model is code of its own, which is never run", where=name)
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    architecture = _architecture(config.model_type, name)
    _check(config, architecture, name)
    given, defaults = config.to_dict(), type(config)().to_dict()
    stated = {
        key: value
        for key, value in given.items()
        if key not in _GENERIC and not key.startswith("_") and value != defaults.get(key) and knows(type(config), key)
    }
    checkpoint = name if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not Path(name).is_dir() else _name_of(config)
    return Subject(config.model_type, config, architecture, checkpoint, "published", stated)


def _name_of(config: Any) -> str:
    found = _LINKED.search(type(config).__doc__ or "")
    return found.group(1) if found else f"local/{config.model_type}"


def _known_types() -> Any:
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING.keys()


def _architecture(model_type: str, name: str) -> str:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    architecture = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type)
    if architecture is None:
        raise CheckpointError(f"{name}: transformers has no causal language model of the type {model_type!r}")
    return str(architecture if isinstance(architecture, str) else architecture[0])


def _check(config: Any, architecture: str, name: str) -> None:
    """Raise for what is no decoder-only language model, as far as a config tells; a forward tells the rest."""
    if config.is_encoder_decoder or getattr(config, "cross_attention_hidden_size", None):
        raise CheckpointError(f"{name} is an encoder-decoder, not a decoder alone")
    if hasattr(config, "num_codebooks") or any("audio" in key for key in config.to_dict() if key.endswith("config")):
        raise CheckpointError(f"{name} is a model of audio")
    wraps = config.get_text_config() is not config
    if wraps or architecture.endswith("ForConditionalGeneration") or hasattr(config, "vision_config"):
        text = getattr(config.get_text_config(), "model_type", "")
        inner = f": its text model is {text}" if text and text != config.model_type else ""
        raise CheckpointError(f"{name} wraps a language model together with other inputs{inner}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
