"""The trial model: a small one of the subject's class that runs, with informative weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nnpedia.checkpoints import configs
from nnpedia.checkpoints.forge import SEED
from nnpedia.checkpoints.tokenizer import IDS
from nnpedia.draft.depth import Sizes
from nnpedia.draft.opening import Subject
from nnpedia.draft.scaling import forge_sizes
from nnpedia.errors import CheckpointError

#: Parameters of a trial model; more and the sizes have not been scaled.
LARGEST = 30_000_000
#: Two prompts of a length that no axis has.
BATCH, SEQ = 2, 11


@dataclass(frozen=True)
class Trial:
    """The sizes that run, and the model they make."""

    sizes: Sizes
    config: Any
    model: Any


def trial(subject: Subject) -> Trial:
    """The first of the sizes that give a model which runs.

    Raises `CheckpointError` when none does, when the model is too large however it is scaled, or when a later token
    changes what an earlier one gives.
    """
    first: str | None = None
    for sizes in forge_sizes(subject.model_type, subject.config, subject.stated):
        try:
            return _made(subject, sizes)
        except NotDecoder:
            raise
        except Exception as error:  # whatever a class or its forward raises over sizes
            first = first or " ".join(str(error).split())[:200] or type(error).__name__
    raise CheckpointError(f"no small {subject.architecture} runs: {first}")


def under(made: Trial, options: Mapping[str, str]) -> Any:
    """The trial model as a load builds it: some classes choose their attention when they are made."""
    config = copy.deepcopy(made.config)
    config._attn_implementation = options["attn_implementation"]
    if "experts_implementation" in options:
        config._experts_implementation = options["experts_implementation"]
    model = type(made.model)(config).eval()
    model.load_state_dict(made.model.state_dict())
    return model


class NotDecoder(CheckpointError):
    """A model whose positions see what comes after them."""


def _made(subject: Subject, sizes: Sizes) -> Trial:
    import transformers

    from nnpedia.checkpoints.redraw import redraw

    config = configs.build(subject.model_type, subject.stated, sizes, IDS)
    config.architectures, config.dtype = [subject.architecture], torch.float32
    config._attn_implementation = "eager"
    model_class = getattr(transformers, subject.architecture)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in model_class(config).parameters())
    if size > LARGEST:
        raise CheckpointError(f"{size / 1e6:.0f} million parameters are left after scaling, too many to try")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = model_class(config).eval()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    redraw(model, SEED)
    try:
        _check_causal(model)
    except NotDecoder:
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
        _check_causal(model)
        raise CheckpointError(
            "its mask is a buffer among its weights, which informative random weights draw anew"
        ) from None
    return Trial(sizes, config, model)


def tokens() -> torch.Tensor:
    """The `[batch seq]` token ids of a trial."""
    return torch.randint(1, 250, (BATCH, SEQ), generator=torch.Generator().manual_seed(SEED))


def _check_causal(model: Any) -> None:
    ids = tokens()
    other = ids.clone()
    other[:, -1] = (ids[:, -1] + 1) % 250
    with torch.no_grad():
        before, after = (model(input_ids=one, use_cache=False).logits[:, :-1] for one in (ids, other))
    if before.shape[:2] != (BATCH, SEQ - 1) or not bool(before.isfinite().all()):
        raise CheckpointError("its logits are not one finite row per token")
    if not torch.allclose(before, after, atol=1e-3 * float(before.abs().max())):
        raise NotDecoder(f"{type(model).__name__} is an encoder: what a position gives depends on those after it")
