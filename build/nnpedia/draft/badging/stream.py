"""Badges of the block, the stream and the head."""

from __future__ import annotations

from torch import nn

from nnpedia.draft.badging.registry import badge, form_of, kinds_of, module_at
from nnpedia.draft.candidates import host_path
from nnpedia.draft.places import same
from nnpedia.draft.proving import Draft


@badge("parallel-block")
def _parallel(draft: Draft) -> bool:
    return any(kind.block.shape == "parallel" for kind in kinds_of(draft))


@badge("parallel-mixers")
def _parallel_mixers(draft: Draft) -> bool:
    return any(kind.block.of("attention") and kind.block.of("recurrent") for kind in kinds_of(draft))


@badge("hybrid")
def _hybrid(draft: Draft) -> bool:
    roles = {part.role for kind in kinds_of(draft) for part in kind.block.sublayers}
    return {"attention", "recurrent"} <= roles and not _parallel_mixers(draft)


def _recurrent(draft: Draft) -> list[str]:
    return [path for kind in kinds_of(draft) if (path := host_path(kind, "linear_attn")) is not None]


@badge("state-space")
def _state_space(draft: Draft) -> bool:
    return any(hasattr(module_at(draft, path), "A_log") for path in _recurrent(draft)) and not _delta_rule(draft)


@badge("delta-rule")
def _delta_rule(draft: Draft) -> bool:
    return any(
        "delta_rule" in event.operations[0]
        for path in _recurrent(draft)
        for event in draft.seen.first.within(path)
        if event.operations
    )


@badge("short-convolution")
def _convolution(draft: Draft) -> bool:
    return any(isinstance(one, nn.Conv1d) for path in _recurrent(draft) for one in module_at(draft, path).modules())


def _scales(draft: Draft) -> list[str]:
    found = [one.at.place.scale for one in draft.said.values() if one.at is not None]
    return [scale for scale in found if scale is not None]


@badge("scaled-residual")
def _scaled_residual(draft: Draft) -> bool:
    return bool(_scales(draft)) and not _multipliers(draft)


@badge("multipliers")
def _multipliers(draft: Draft) -> bool:
    return _parallel_mixers(draft) and any("multiplier" in key for key in draft.seen.trial.config.to_dict())


@badge("scaled-embeddings")
def _scaled_embeddings(draft: Draft) -> bool:
    made = draft.seen.first.at(draft.seen.containers.embedding, (), "output", ())
    entering = kinds_of(draft)[0].block.entering
    if made is None or made.tensor.shape != entering.shape:
        return False
    if "*" in form_of(draft, "model", "first_block_input"):
        return True
    module = draft.seen.trial.model.get_input_embeddings()
    plain = module.weight[draft.seen.first.places["", (), "kwargs", ("input_ids",)].tensor]
    return not same(plain.detach(), made.tensor) and plain.shape == made.tensor.shape


@badge("logit-softcap")
def _logit_softcap(draft: Draft) -> bool:
    text = form_of(draft, "model", "head_is_logits")
    return "softcap" in text and not same_logits(draft)


@badge("logit-scale")
def _logit_scale(draft: Draft) -> bool:
    text = form_of(draft, "model", "head_is_logits")
    return ("*" in text or "/" in text) and "softcap" not in text


def same_logits(draft: Draft) -> bool:
    """Whether nothing follows the head."""
    made = draft.seen.first.at(draft.seen.containers.head, (), "output", ())
    logits = draft.seen.first.places.get(("", (), "output", ("logits",)))
    return made is not None and logits is not None and same(made.tensor, logits.tensor)


@badge("tied-embeddings")
def _tied(draft: Draft) -> bool:
    return bool(getattr(draft.subject.config, "tie_word_embeddings", False))


@badge("lm-head-bias")
def _head_bias(draft: Draft) -> bool:
    return getattr(draft.seen.trial.model.get_output_embeddings(), "bias", None) is not None
