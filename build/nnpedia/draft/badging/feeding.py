"""Badges of MLPs and mixtures."""

from __future__ import annotations

from typing import Any

import torch

from nnpedia.draft.badging.registry import badge, kinds_of
from nnpedia.draft.places import same
from nnpedia.draft.proving import Draft


def _dense(draft: Draft) -> list[Any]:
    return [kind.feeding for kind in kinds_of(draft) if kind.feeding and not kind.feeding.mixture]


@badge("gated-mlp")
def _gated_mlp(draft: Draft) -> bool:
    return any(one.gated for one in _dense(draft))


@badge("ungated-mlp")
def _ungated_mlp(draft: Draft) -> bool:
    return any(one.gated is False for one in _dense(draft))


@badge("squared-relu")
def _squared_relu(draft: Draft) -> bool:
    for one in _dense(draft):
        up, neurons = one.roles.get("up_proj"), one.targets.get("mlp_neurons")
        made = None if up is None else draft.seen.first.at(up, (), "output", ())
        if one.gated or made is None or not neurons:
            continue
        if same(made.tensor.relu().square().flatten(), neurons[0].flatten()):
            return True
    return False


@badge("fused-gate-up")
def _fused_gate_up(draft: Draft) -> bool:
    return any(one.fused for one in _dense(draft))


@badge("mixture-of-experts")
def _mixture(draft: Draft) -> bool:
    return any(kind.feeding and kind.feeding.mixture for kind in kinds_of(draft))


@badge("shared-expert")
def _shared_expert(draft: Draft) -> bool:
    return any(kind.targets.get(("mlp", "shared_expert_output")) for kind in kinds_of(draft))


@badge("dense-first-blocks")
def _dense_first(draft: Draft) -> bool:
    mixtures = {kind.feeding.mixture for kind in kinds_of(draft) if kind.feeding and not kind.block.of("recurrent")}
    return mixtures == {True, False}


@badge("weighted-inputs")
def _weighted_inputs(draft: Draft) -> bool:
    return any(kind.feeding and kind.feeding.layouts for kind in kinds_of(draft))


@badge("sigmoid-router")
def _sigmoid_router(draft: Draft) -> bool:
    for kind in kinds_of(draft):
        logits, part = kind.targets.get(("mlp", "router_logits")), kind.block.of("mlp")
        if not logits or part is None:
            continue
        squashed = torch.sigmoid(logits[0].float()).flatten()
        for event in draft.seen.first.within(part.host):
            of_its_size = event.tensor.numel() == squashed.numel() and event.tensor.is_floating_point()
            if not of_its_size:
                continue
            made = event.tensor.float().flatten()
            chosen = made != 0  # of a router that squashes only the scores it has chosen, the others are zero
            if bool(chosen.any()) and event.access == "output" and same(made, squashed * chosen, 16.0):
                return True
    return False
