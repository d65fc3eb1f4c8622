"""The tokenizer of a forged checkpoint: one token a byte, and three special ones."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
IDS = {"pad_token_id": 256, "bos_token_id": 257, "eos_token_id": 258}
SIZE = 259


def spelling() -> list[str]:
    """How byte-level vocabularies spell each of the 256 bytes.

    A byte that prints is itself; the others are lifted past 255 in order, so that no token holds a
    space or a control character (GPT-2's convention, which `ByteLevel` implements).
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    lifted = iter(range(256, 512))
    return [chr(byte if byte in printable else next(lifted)) for byte in range(256)]


def byte_tokenizer() -> Any:
    """A `PreTrainedTokenizerFast`: token id = byte, then `<pad>` 256, `<s>` 257, `</s>` 258.

    Nothing is prepended to a prompt: position 0 is its first byte.
    """
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate([*spelling(), *SPECIAL.values()])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)
