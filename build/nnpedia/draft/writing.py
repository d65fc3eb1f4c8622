"""Writing: a draft as the content of a `family.yml`."""

from __future__ import annotations

import re
from typing import Any

import yaml

from nnpedia.draft.candidates import host_path
from nnpedia.draft.places import resolve
from nnpedia.draft.proving import Draft, exceptions
from nnpedia.draft.said import order_of, parts_of
from nnpedia.draft.spec import differences, name_differences, sizes_of
from nnpedia.draft.tree import Containers


def spec_of(draft: Draft) -> dict[str, Any]:
    """The spec's keys in the order specs are written in; only what differs from the base."""
    seen, base = draft.seen, draft.base
    spec: dict[str, Any] = {"family": draft.name, "title": _title(draft.subject.architecture)}
    if base is not None:
        spec["extends"] = base.family
    spec["subtitle"] = draft.subtitle
    spec["architecture"] = draft.subject.architecture
    parts = parts_of(seen)
    if base is None or list(base.parts) != parts:
        spec["parts"] = parts
    if draft.badges:
        spec["badges"] = list(draft.badges)
    checkpoint: dict[str, Any] = {"id": draft.subject.checkpoint, "origin": draft.subject.origin}
    if draft.subject.stated:
        checkpoint["config"] = draft.subject.stated
    spec["checkpoints"] = [checkpoint]
    if names := name_differences(seen, base):
        spec["names"] = names
    virtual = {host: origin for host, origin in seen.names.virtual.items() if not base or host not in base.virtual}
    if virtual:
        spec["virtual"] = virtual
    if sizes := sizes_of(seen, base, draft.pool):
        spec["sizes"] = sizes
    values = differences(seen, draft.said, base)
    if normed := _final_norm(seen.containers):
        values.setdefault("model", {})["final_norm_output"] = normed
    if values:
        spec["values"] = values
    order = order_of(seen, draft.said)
    if order != list((base.values if base else seen.vocabulary.values)["linear_attn"]):
        spec["order"] = {"linear_attn": order}
    if _shared_first(draft):
        spec.setdefault("order", {})["mlp"] = ["shared_expert_output", "routed_output"]
    for host, whole in draft.orders.items():
        given = (base.values if base else seen.vocabulary.values)[host]
        if moved := [name for name, before in zip(whole, given, strict=True) if name != before]:
            spec.setdefault("order", {})[host] = moved
    laws: dict[str, dict[str, Any]] = {}
    for (host, name), entry in exceptions(draft, base.laws if base else seen.vocabulary.laws):
        laws.setdefault(host, {})[name] = entry
    if laws:
        spec["laws"] = laws
    readout = base.readout if base else seen.vocabulary.readout
    if draft.readout is not None and draft.readout != readout:
        spec["readout"] = draft.readout
    spec["forge"] = draft.seen.trial.sizes
    if draft.about:
        spec["about"] = draft.about
    return spec


def _shared_first(draft: Draft) -> bool:
    """Whether the forward gives the shared expert's output before the routed experts' sum, other than its base's."""
    seen, found = draft.seen, []
    for name in ("shared_expert_output", "routed_output"):
        at = draft.said["mlp", name].at
        kind = next((kind for kind in seen.kinds if kind.targets.get(("mlp", name))), None)
        path = None if kind is None else host_path(kind, "mlp")
        event = (
            resolve(at.place.at, seen.first, path, kind.block.path, seen.names.natives)
            if at is not None and kind is not None and path is not None
            else None
        )
        found.append(event)
    if found[0] is None or found[1] is None:
        return False
    given = list((draft.base.values if draft.base else seen.vocabulary.values)["mlp"])
    return found[0].order < found[1].order and given.index("routed_output") < given.index("shared_expert_output")


def _final_norm(around: Containers) -> dict[str, str] | None:
    """What has to be said of the final norm's output where its first call does not give it."""
    if around.norm is None:
        return {"absent": "nothing norms the stream after the last block"}
    return {"at": "lm_head.input"} if around.normed_again else None


#: What stands above a draft: no part of the library says these.
HEADING = "# todo: the title is the class's name; say what its makers call it, and put the subtitle into words.\n"


def as_yaml(spec: dict[str, Any]) -> str:
    """A spec as YAML, in its own order."""
    text: str = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return text


def _title(architecture: str) -> str:
    """The class's own spelling: its makers' is written nowhere in the library."""
    name = re.sub(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$", "", architecture)
    return re.sub(r"(?<=\d)_(?=\d)", ".", name)
