"""The library's bench: reading every residual and every pattern, against a bare forward of the same module.

Run in a process of its own (`python -m nnpedia.bench.library`); prints JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import nnsight
import torch

from nnpedia.bench.timing import in_turn, rows
from nnpedia.model import StandardizedTransformer

CHECKPOINT = "llama:SmolLM2-135M-Instruct"
LENGTHS = (9, 144)


def measure(checkpoint: str, lengths: Sequence[int], repeats: int) -> dict[str, Any]:
    """Medians and ratios by length, and the load's seconds beside those of `from_pretrained`."""
    from transformers import AutoModelForCausalLM

    from nnpedia.checkpoints import resolve

    folder = str(resolve(checkpoint, None))

    def bare() -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")

    def standardized() -> StandardizedTransformer:
        model = StandardizedTransformer(checkpoint, attn_implementation="eager")
        model.dispatch()
        return model

    # a model that is dropped is garbage in cycles: what one load leaves is not for the next one to sweep
    loads = in_turn({"bare": bare, "load": standardized}, max(3, repeats // 5), gc.collect)
    plain, model = bare(), standardized()
    first = first_run(model)
    results = {str(length): rows(in_turn(tasks(plain, model, length), repeats)) for length in lengths}
    return {
        "checkpoint": checkpoint,
        "parameters": sum(parameter.numel() for parameter in plain.parameters()),
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "load": rows(loads),
        "first_run": round(first, 4),
        "lengths": results,
    }


def tasks(plain: torch.nn.Module, model: StandardizedTransformer, length: int) -> dict[str, Callable[[], Any]]:
    """A bare forward over `length` tokens of a module that nothing is hung on, and ours reading all of a kind."""
    tokens = torch.arange(1, length + 1)[None]

    def bare() -> Any:
        with torch.no_grad():
            return plain(tokens)

    def residuals() -> list[torch.Tensor]:
        found = []
        with torch.no_grad(), model.trace(tokens):
            for block in model.layers:
                found.append(block.layer_output.save())
        return found

    def patterns() -> list[torch.Tensor]:
        found = []
        with torch.no_grad(), model.trace(tokens):
            for block in model.layers:
                found.append(block.self_attn.attention_probabilities.save())
        return found

    def every_residual() -> list[torch.Tensor]:
        with torch.no_grad(), model.trace(tokens):
            found = nnsight.save(model.every("layers.layer_output"))
        return list(found.values())

    def every_pattern() -> list[torch.Tensor]:
        with torch.no_grad(), model.trace(tokens):
            found = nnsight.save(model.every("self_attn.attention_probabilities"))
        return list(found.values())

    alike: dict[str, tuple[Callable[[], list[torch.Tensor]], ...]] = {
        "residuals": (every_residual, residuals), "patterns": (every_pattern, patterns),
    }  # fmt: skip
    for name, (together, one_by_one) in alike.items():
        ours, theirs = together(), one_by_one()
        if len(ours) != model.num_layers or not all(map(torch.equal, ours, theirs)):
            raise AssertionError(f"{name} read together are not those read one by one")
    return {
        "bare": bare, "residuals": every_residual, "patterns": every_pattern,
        "residuals_one_by_one": residuals, "patterns_one_by_one": patterns,
    }  # fmt: skip


def first_run(model: StandardizedTransformer) -> float:
    """Seconds of the first trace, which opens the forwards that values are read inside of."""
    started = time.perf_counter()
    with torch.no_grad(), model.trace(torch.arange(1, 3)[None]):
        model.logits.save()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", default=CHECKPOINT)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.checkpoint, chosen.lengths, chosen.repeats)))


if __name__ == "__main__":
    main()
