"""nnterp's side of the bench; run by path in an environment of its own, with `timing` beside it."""

import json
import sys

import torch
from nnterp import StandardizedTransformer
from timing import in_turn, rows
from transformers import AutoModelForCausalLM


def main() -> None:
    folder, repeats, *lengths = sys.argv[1:]

    def load_bare():
        return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)

    def load():
        return StandardizedTransformer(folder, dtype=torch.float32, dispatch=True, enable_attention_probs=True)

    plain, model = load_bare(), load()

    def tasks(length):
        tokens = torch.arange(1, length + 1)[None]

        def bare():
            with torch.no_grad():
                return plain(tokens)

        def residuals():
            found = []
            with torch.no_grad(), model.trace(tokens):
                for layer in range(model.num_layers):
                    found.append(model.layers_output[layer].save())
            return found

        def patterns():
            found = []
            with torch.no_grad(), model.trace(tokens):
                for layer in range(model.num_layers):
                    found.append(model.attention_probabilities[layer].save())
            return found

        return {"bare": bare, "residuals": residuals, "patterns": patterns}

    print("BENCH", json.dumps({
        "load": rows(in_turn({"bare": load_bare, "load": load}, 3)),
        "lengths": {length: rows(in_turn(tasks(int(length)), int(repeats))) for length in lengths},
    }))  # fmt: skip


main()
