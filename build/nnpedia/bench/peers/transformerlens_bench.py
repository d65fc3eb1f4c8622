"""TransformerLens' side of the bench; run by path in an environment of its own, with `timing` beside it."""

import json
import sys

import torch
from timing import in_turn, rows
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM, AutoTokenizer

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"


def main() -> None:
    folder, repeats, *lengths = sys.argv[1:]

    def load_bare():
        return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)

    def load():
        return TransformerBridge.boot_transformers(
            folder, hf_model=load_bare(), tokenizer=AutoTokenizer.from_pretrained(folder), dtype=torch.float32
        )

    plain, model = load_bare(), load()

    def tasks(length):
        tokens = torch.arange(1, length + 1)[None]

        def bare():
            with torch.no_grad():
                return plain(tokens)

        def reading(ending):
            def read():
                with torch.no_grad():
                    return model.run_with_cache(tokens, names_filter=lambda name: name.endswith(ending))[1]

            return read

        return {"bare": bare, "residuals": reading("hook_resid_post"), "patterns": reading("attn.hook_pattern")}

    for name, task in tasks(3).items():
        if name != "bare" and len(task()) < model.cfg.n_layers:
            raise SystemExit(f"{name}: {len(task())} values of {model.cfg.n_layers} blocks")
    print("BENCH", json.dumps({
        "load": rows(in_turn({"bare": load_bare, "load": load}, 3)),
        "lengths": {length: rows(in_turn(tasks(int(length)), int(repeats))) for length in lengths},
    }))  # fmt: skip


main()
