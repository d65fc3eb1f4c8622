"""A GPT-2 of two small layers with drawn weights and a byte-level tokenizer, through nnsight."""

from __future__ import annotations

from typing import Any

from nnsight.modeling.transformers import TransformersModel  # before transformers' models
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast


def tiny_gpt2(**options: Any) -> Any:
    import torch

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(
        models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)} | {"<pad>": 256}, merges=[])
    )
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<pad>")
    config = GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=257, n_positions=64, bos_token_id=256, eos_token_id=256
    )
    torch.manual_seed(7)
    module = GPT2LMHeadModel._from_config(config, attn_implementation=options.get("attn_implementation", "eager"))
    return TransformersModel(module.eval(), tokenizer=tokenizer)
