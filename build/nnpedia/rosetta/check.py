"""The check against TransformerLens: both libraries on the same weights and tokens, tensor by tensor.

Only this module imports the library, which the extra `rosetta` brings, and only when it runs.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nnpedia.errors import CheckpointError, NnpediaError
from nnpedia.family import Family
from nnpedia.rosetta import record
from nnpedia.rosetta.compare import compared
from nnpedia.rosetta.record import Checked, Row
from nnpedia.translation import Library, Place, load_translation

LIBRARY = "transformer_lens"
PROMPT = "The Eiffel Tower is in the city of"


def installed() -> str:
    """The version of TransformerLens that is installed; raises `CheckpointError` where none is, or another one."""
    try:
        return metadata.version("transformer-lens")
    except metadata.PackageNotFoundError:
        raise CheckpointError(
            "TransformerLens is not installed here: `make rosetta` sets up an environment that has it"
        ) from None


def check(family: Family, version: str) -> Checked:
    """Compare every place that translation.yml names for TransformerLens with the value it is named for."""
    names = load_translation(family.folder.parent).transformer_lens
    said = {
        "key": record.key(family, LIBRARY, version), "library": LIBRARY, "version": version,
        "family": family.family, "checkpoint": "forge",
    }  # fmt: skip
    if version != names.version:
        reason = f"the names are those of {names.version}, and {version} is installed"
        return Checked(**said, reason=reason)
    from nnpedia.checkpoints import resolve

    folder = resolve(f"{family.family}:forge")
    ours, tokens = read_ours(folder)
    try:
        theirs, scanned = read_theirs(folder, tokens)
    except Exception as error:  # whatever the library makes of a checkpoint: said, and not ours to mend
        return Checked(**said, reason=f"TransformerLens does not run it: {_line(error)}")
    return Checked(**said, rows=Check(family, names, ours, theirs, scanned).rows())


def read_ours(folder: Path) -> tuple[dict[tuple[int | None, str, str], Any], torch.Tensor]:
    """Every value under eager attention, by layer, host and name; and the tokens that ran."""
    from nnpedia import StandardizedTransformer
    from nnpedia.observe import read, spots_of

    model = StandardizedTransformer(folder, attn_implementation="eager")
    tokens = model.tokenizer(PROMPT, return_tensors="pt").input_ids
    found = read(model, spots_of(model), tokens)
    return {spot: value for spot, value in found.items() if not isinstance(value, NnpediaError)}, tokens


def read_theirs(folder: Path, tokens: torch.Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
    """What TransformerLens caches of the same forward, by the names of its hooks; and what only `eager_scan` gives.

    With it set a recurrence runs token by token and not in a kernel: its states fire, and sums round otherwise.
    """
    os.environ |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
    from transformer_lens.model_bridge import TransformerBridge

    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), torch.no_grad():
        bridge = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
        plain = dict(bridge.run_with_cache(tokens)[1].items())
        scanning = [module for module in bridge.modules() if hasattr(module, "eager_scan")]
        for module in scanning:
            module.eager_scan = True
        slow = dict(bridge.run_with_cache(tokens)[1].items()) if scanning else {}
    return plain, {name: value for name, value in slow.items() if name not in plain}


@dataclass(frozen=True)
class Check:
    """Ours and theirs of one family, and the names that are compared."""

    family: Family
    names: Library
    ours: Mapping[tuple[int | None, str, str], Any]
    theirs: Mapping[str, Any]
    scanned: Mapping[str, Any]

    def rows(self) -> list[Row]:
        """A row for each place of each value that this family has."""
        having: dict[tuple[str, str], list[int | None]] = {}
        for layer, host, name in self.ours:
            having.setdefault((host, name), []).append(layer)
        return [
            self.row(host, name, place, layers)
            for (host, name), layers in having.items()
            for place in self.names.places(host, name)
        ]

    def row(self, host: str, name: str, place: Place, layers: list[int | None]) -> Row:
        """One place against one value on all of its blocks; one that differs on some block differs."""
        axes = self.family.axes(self.family.values[host][name])
        found, shape = [], None
        scanned = False
        for layer in layers:
            hook = place.name.replace(self.names.layer, str(layer))
            theirs = self.theirs.get(hook, self.scanned.get(hook))
            if isinstance(theirs, torch.Tensor):
                scanned = scanned or hook in self.scanned
                shape = list(theirs.shape)
                found.append(compared(self.mine(layer, host, name, place), theirs, axes))
        blocks = 0 if layers == [None] else len(found)
        said: dict[str, Any] = {"host": host, "name": name, "place": place.name, "blocks": blocks}
        if not found:
            return Row(**said, verdict="missing")
        hows = {each.how for each in found}
        if None in hows or len(hows) > 1:
            shares = [each.share for each in found if each.share is not None and each.share < float("inf")]
            held = self.held(place, layers)
            how = f"holds {held}" if held else "" if shares else f"a tensor of another shape, {shape}"
            return Row(**said, verdict="differs", how=how, share=max(shares, default=None))
        words = [hows.pop() or "", f"scattered by {place.scatter}" if place.scatter else ""]
        how = "; ".join([*filter(None, words), *(["with eager_scan set"] if scanned else [])])
        return Row(
            **said,
            verdict="arranged" if any(words) else "equal",
            how=how,
            error=max(each.error or 0.0 for each in found),
        )

    def held(self, place: Place, layers: list[int | None]) -> str | None:
        """Another value of ours that the place holds on all of these blocks."""
        others = {(host, name) for layer, host, name in self.ours if layer in layers}
        for host, name in sorted(others):
            pairs: list[tuple[Any, Any]] = [
                (self.ours.get((layer, host, name)), self.theirs.get(place.name.replace(self.names.layer, str(layer))))
                for layer in layers
            ]
            tensors = [pair for pair in pairs if all(isinstance(each, torch.Tensor) for each in pair)]
            if len(tensors) == len(pairs) and all(compared(mine, other, ()).how == "" for mine, other in tensors):
                return f"{host}.{name}"
        return None

    def mine(self, layer: int | None, host: str, name: str, place: Place) -> torch.Tensor:
        """Our tensor; where the place has a column for each choice, ours put into the columns that were chosen."""
        value: torch.Tensor = self.ours[layer, host, name]
        if place.scatter is None:
            return value
        chosen = self.ours[layer, host, place.scatter]
        columns = self.ours[layer, host, "router_logits"].shape[-1]
        return torch.zeros(*value.shape[:-1], columns, dtype=value.dtype).scatter(-1, chosen, value)


def _line(error: Exception) -> str:
    """An error's first sentence."""
    first = re.split(r"(?<=[.:]) ", " ".join(str(error).split()))[0][:160].rstrip(".:")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
