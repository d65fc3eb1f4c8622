"""Configs: what transformers' config class gives, with what a spec states over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnpedia.errors import CheckpointError, nearest


def build(model_type: str, *layers: Mapping[str, Any], where: str | None = None) -> Any:
    """The config of a model type from its class's defaults, each layer of keys over the one before.

    A key is replaced whole, nested mappings too. Raises `CheckpointError` for a model type
    transformers does not have, or for keys its config class refuses.
    """
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        raise CheckpointError(
            f"transformers has no model type {model_type!r}{nearest(model_type, CONFIG_MAPPING.keys())}", where=where
        )
    config_class = CONFIG_MAPPING[model_type]
    # a class may know one key by two names (`n_layer`, `num_hidden_layers`): the same key must win over itself
    names = config_class.attribute_map
    merged = {names.get(name, name): value for layer in layers for name, value in layer.items()}
    try:
        return config_class(**merged)
    except Exception as error:  # config classes raise whatever their checks raise
        raise CheckpointError(f"the {model_type} config refuses these keys: {error}", where=where) from None


def known(config_class: type, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys a config class has an attribute for."""
    return {name: value for name, value in keys.items() if name in config_class().to_dict()}


def reference(family: Any, checkpoint: Any) -> Any:
    """A public checkpoint's config at full size, as the spec states it; raises as `build` does, at its line."""
    config = build(family.family, checkpoint.config, where=family.where("checkpoints", "", checkpoint.id))
    config.architectures = [family.architecture]
    config.dtype = checkpoint.dtype
    return config
