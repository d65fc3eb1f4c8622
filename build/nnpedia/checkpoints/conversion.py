"""GGUF to safetensors, once: weights in float32, the config and the tokenizer beside them.

transformers does the conversion (`gguf_file=`). Left to itself it walks the file's vocabulary one numpy
view a token, four times over, which takes most of the time and 0.7 GB for a quarter of a million tokens.
So the weights are read from a copy of the file whose header leaves those arrays out and says only how
long the vocabulary is; the tokenizer is read from the file itself, by a reader of transformers that is fast.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import mmap
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nnpedia.checkpoints import configs
from nnpedia.errors import CheckpointError

# https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: value type -> bytes
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
UINT32, STRING, ARRAY = 4, 8, 9
MAGIC = b"GGUF"
VOCABULARY = "tokenizer.ggml.tokens"


def convert(
    source: Path,
    folder: Path,
    *,
    architecture: str,
    model_type: str,
    config: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
) -> None:
    """Write `config.json`, `model.safetensors` and the tokenizer's files of a GGUF file into `folder`.

    Args:
        config: Config keys that the file does not carry, or carries rounded; they win.
        tokenizer: Top-level keys of `tokenizer.json` that the file does not carry; they win.

    Raises `CheckpointError` when the file is no GGUF file, or has no value for one of the model's weights.
    """
    lean = folder / "weights.gguf"
    try:
        write_lean(source, lean)
        convert_weights(lean, folder, architecture, model_type, config)
    except (struct.error, IndexError, ValueError) as error:
        raise CheckpointError(f"this is not a GGUF file, or it is cut short ({error})", where=source.name) from None
    except RuntimeError as error:
        why = str(error).strip().split("\n")[0]
        raise CheckpointError(f"the weights do not fit {architecture} ({why})", where=source.name) from None
    finally:
        lean.unlink(missing_ok=True)
    convert_tokenizer(source, folder, model_type, tokenizer)


def convert_weights(source: Path, folder: Path, architecture: str, model_type: str, stated: Mapping[str, Any]) -> None:
    import torch
    import transformers

    found = transformers.AutoConfig.from_pretrained(source.parent, gguf_file=source.name)
    config = configs.build(model_type, configs.known(type(found), found.to_dict()), stated)
    config.architectures, config.dtype = [architecture], torch.float32
    with contextlib.redirect_stderr(io.StringIO()), _names_worked_out_once():  # the former hides progress bars
        model, report = getattr(transformers, architecture).from_pretrained(
            source.parent, gguf_file=source.name, config=config, dtype=torch.float32, output_loading_info=True
        )
    report["other sizes"] = _other_sizes(model, config)
    if any(report.values()):
        lost = ", ".join(f"{kind}: {sorted(map(str, names))[:3]}" for kind, names in report.items() if names)
        raise CheckpointError(f"the weights do not fit {architecture} ({lost})", where=source.name)
    # the weights are plain floats now; as long as the model is marked as quantized it refuses to be saved
    model.hf_quantizer.remove_quantization_config(model)
    with contextlib.redirect_stderr(io.StringIO()):
        model.save_pretrained(folder)


def _other_sizes(model: Any, config: Any) -> list[str]:
    """The parameters that are not as large as the config says: not every release of transformers looks."""
    import torch

    with torch.device("meta"):
        asked = {name: each.shape for name, each in type(model)(config).named_parameters()}
    return [name for name, each in model.named_parameters() if each.shape != asked.get(name)]


@contextlib.contextmanager
def _names_worked_out_once() -> Iterator[None]:
    """transformers asks gguf for one table of tensor names once a module; making it each time is half of the work."""
    import gguf

    original = gguf.get_tensor_name_map
    gguf.get_tensor_name_map = functools.cache(original)
    try:
        yield
    finally:
        gguf.get_tensor_name_map = original


def convert_tokenizer(source: Path, folder: Path, model_type: str, stated: Mapping[str, Any]) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    known = TOKENIZER_MAPPING_NAMES.get(model_type)
    load = {"gguf_file": source.name}
    if known is None:
        tokens = PreTrainedTokenizerFast.from_pretrained(source.parent, **load)
    else:
        tokens = AutoTokenizer.from_pretrained(source.parent, tokenizer_type=model_type, **load)
    tokens.save_pretrained(folder)
    if stated:
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | dict(stated), ensure_ascii=False))


def write_lean(source: Path, target: Path) -> None:
    """A copy of a GGUF file without its tokenizer's arrays, whose header says how many tokens there were."""
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != MAGIC:
            raise CheckpointError("this is not a GGUF file", where=source.name)
        version, tensors, count = struct.unpack_from("<IQQ", data, 4)
        entries, end = _entries(data, count)
        table = _table_end(data, end, tensors)
        keep = [data[start:stop] for name, start, stop in entries if not _is_token_array(data, name, start)]
        keep += _vocabulary_size(data, {name: (start, stop) for name, start, stop in entries})
        header = MAGIC + struct.pack("<IQQ", version, tensors, len(keep)) + b"".join(keep) + data[end:table]
        alignment = _alignment(data, entries)
        with target.open("wb") as out:
            out.write(header.ljust(_aligned(len(header), alignment), b"\0"))
            file.seek(_aligned(table, alignment))
            shutil.copyfileobj(file, out, 1 << 22)


def _entries(data: mmap.mmap, count: int) -> tuple[list[tuple[str, int, int]], int]:
    """The header's keys with the bytes each takes, and where the header's table of tensors starts."""
    entries, position = [], 24
    for _ in range(count):
        start = position
        name, position = _string(data, position)
        (kind,) = struct.unpack_from("<I", data, position)
        position = _skip(data, position + 4, kind)
        entries.append((name, start, position))
    return entries, position


def _skip(data: mmap.mmap, position: int, kind: int) -> int:
    if kind in WIDTHS:
        return position + WIDTHS[kind]
    if kind == STRING:
        return int(position + 8 + struct.unpack_from("<Q", data, position)[0])
    if kind != ARRAY:
        raise IndexError(kind)
    element, count = struct.unpack_from("<IQ", data, position)
    position += 12
    if element in WIDTHS:
        return int(position + count * WIDTHS[element])
    for _ in range(count):
        position = _skip(data, position, element)
    return position


def _string(data: mmap.mmap, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, position)
    return data[position + 8 : position + 8 + length].decode(), position + 8 + length


def _table_end(data: mmap.mmap, position: int, tensors: int) -> int:
    for _ in range(tensors):
        _, position = _string(data, position)
        (dimensions,) = struct.unpack_from("<I", data, position)
        position += 4 + 8 * dimensions + 4 + 8
    return position


def _value_at(data: mmap.mmap, start: int) -> int:
    """Where a key's value starts, past its name and type."""
    return _string(data, start)[1] + 4


def _is_token_array(data: mmap.mmap, name: str, start: int) -> bool:
    (kind,) = struct.unpack_from("<I", data, _value_at(data, start) - 4)
    return name.startswith("tokenizer.") and bool(kind == ARRAY)


def _vocabulary_size(data: mmap.mmap, entries: dict[str, tuple[int, int]]) -> Iterator[bytes]:
    """The key transformers would have derived from the vocabulary, when the file does not have it."""
    start = entries["general.architecture"][0]
    name = f"{_string(data, _value_at(data, start))[0]}.vocab_size"
    if VOCABULARY in entries and name not in entries:
        (count,) = struct.unpack_from("<Q", data, _value_at(data, entries[VOCABULARY][0]) + 4)
        yield struct.pack("<Q", len(name)) + name.encode() + struct.pack("<II", UINT32, count)


def _alignment(data: mmap.mmap, entries: list[tuple[str, int, int]]) -> int:
    stated = [struct.unpack_from("<I", data, _value_at(data, s))[0] for n, s, _ in entries if n == "general.alignment"]
    return int(stated[0]) if stated else 32


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
