"""Badges of the norms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nnpedia.draft.badging.registry import attentions_of, badge, kinds_of, module_at
from nnpedia.draft.places import same
from nnpedia.draft.proving import Draft
from nnpedia.draft.tree import is_norm


def _stream_norm(draft: Draft) -> nn.Module | None:
    """A norm of the stream: the final one, else a block's first."""
    path = draft.seen.containers.norm
    for kind in kinds_of(draft):
        path = path or next((part.norm or part.after for part in kind.block.sublayers if part.norm or part.after), None)
    return None if path is None else module_at(draft, path)


def _example(norm: nn.Module, draft: Draft) -> Tensor:
    weight = getattr(norm, "weight", None)
    width = weight.shape[0] if isinstance(weight, Tensor) else draft.seen.trial.config.hidden_size
    return torch.randn(4, width, generator=torch.Generator().manual_seed(3))


def _centred(draft: Draft) -> bool:
    norm = _stream_norm(draft)
    if norm is None:
        return False
    with torch.no_grad():
        x = _example(norm, draft)
        return bool(torch.allclose(norm(x + 3.0), norm(x), atol=1e-3))


def _biased(draft: Draft) -> bool:
    return getattr(_stream_norm(draft), "bias", None) is not None


def _weighted(draft: Draft) -> bool:
    return isinstance(getattr(_stream_norm(draft), "weight", None), Tensor)


@badge("layernorm")
def _layernorm(draft: Draft) -> bool:
    return _centred(draft) and _biased(draft)


@badge("layernorm-without-bias")
def _layernorm_without_bias(draft: Draft) -> bool:
    return _centred(draft) and _weighted(draft) and not _biased(draft)


@badge("layernorm-without-weights")
def _layernorm_without_weights(draft: Draft) -> bool:
    return _centred(draft) and not _weighted(draft) and not _biased(draft)


@badge("rmsnorm")
def _rmsnorm(draft: Draft) -> bool:
    return _stream_norm(draft) is not None and not _centred(draft)


@badge("offset-gain")
def _offset_gain(draft: Draft) -> bool:
    norm = _stream_norm(draft)
    weight = getattr(norm, "weight", None)
    if norm is None or not isinstance(weight, Tensor):
        return False
    with torch.no_grad():
        x = _example(norm, draft)
        bias = getattr(norm, "bias", None)
        made = norm(x) - (bias if isinstance(bias, Tensor) else 0.0)
        centred = x - x.mean(-1, keepdim=True) if _centred(draft) else x
        plain = centred * centred.pow(2).mean(-1, keepdim=True).rsqrt()
        gain = (made * plain).sum(0) / plain.square().sum(0)
        return bool(torch.allclose(gain, 1 + weight, atol=1e-2))


@badge("sandwich-norms")
def _sandwich(draft: Draft) -> bool:
    parts = [part for kind in kinds_of(draft) for part in kind.block.sublayers]
    return bool(parts) and all(part.norm and part.after for part in parts)


@badge("post-norms")
def _post_norms(draft: Draft) -> bool:
    parts = [part for kind in kinds_of(draft) for part in kind.block.sublayers]
    return bool(parts) and all(part.after and not part.norm for part in parts)


def _head_norms(draft: Draft) -> list[bool]:
    """For each norm inside an attention, whether it spans all heads at once."""
    spans = []
    for kind, host in attentions_of(draft):
        latent = kind.attention is not None and hasattr(draft.seen.trial.config, "kv_lora_rank")
        for name, module in module_at(draft, host).named_modules():
            entered = draft.seen.first.at(f"{host}.{name}", (), "input", ())
            if not name or not is_norm(module) or entered is None or latent:
                continue
            made = draft.seen.first.at(f"{host}.{name}", (), "output", ())
            if made is None or same(made.tensor, entered.tensor):
                continue
            width = kind.attention.sizes.get("qk_head_dim", 0) if kind.attention else 0
            spans.append(entered.tensor.shape[-1] != width)
    return spans


@badge("query-key-norm")
def _query_key_norm(draft: Draft) -> bool:
    return False in _head_norms(draft)


@badge("full-width-query-key-norm")
def _full_width_norm(draft: Draft) -> bool:
    spans = _head_norms(draft)
    return bool(spans) and all(spans)


@badge("embedding-norm")
def _embedding_norm(draft: Draft) -> bool:
    return "embed_norm" in draft.seen.names.paths.values()
