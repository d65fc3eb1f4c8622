"""Depth: how many blocks a small checkpoint has, and which of the reference's they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnpedia.checkpoints import configs
from nnpedia.checkpoints.tokenizer import IDS
from nnpedia.errors import CheckpointError

Sizes = dict[str, Any]
#: Settings that a config tells block by block, each with one entry for every block.
Rows = dict[str, list[Any]]

#: What a config calls its number of blocks.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks")


def layers(model_type: str, reference: Any, stated: Sizes, sizes: Sizes) -> Sizes:
    """How many blocks, and of which kinds: three to six that hold every kind of the reference."""
    key, total = _depth(reference)
    if key is None:
        return {}
    rows = _rows(reference, total)
    wanted = set(_kinds(rows, total))
    for count in range(3, 7):
        trial = {**sizes, key: count}
        try:
            small = configs.build(model_type, {k: v for k, v in stated.items() if k not in rows}, trial, IDS)
        except CheckpointError:
            continue
        own = {name: row for name in rows if (row := _row(_setting(small, name), count)) is not None}
        if own.keys() == rows.keys() and {*_kinds(own, count)} >= wanted:
            said = {name for name in rows if name in stated or isinstance(_setting(small, name), Mapping)}
            return {key: count, **_picked(reference, {name: own[name] for name in said}, range(count), sizes)}
    picked = set(_first_of_each(rows, total))
    for layer in range(total):
        if len(picked) < min(3, total):
            picked.add(layer)
    return {key: len(picked), **_picked(reference, rows, sorted(picked), sizes)}


def twice(reference: Any, sizes: Sizes) -> Sizes:
    """Every kind of block two times over, for a class whose blocks take from an earlier one of their kind.

    Empty where there is but one kind.
    """
    key, total = _depth(reference)
    rows = {} if key is None else _rows(reference, total)
    first = _first_of_each(rows, total)
    if key is None or len(first) < 2:
        return {}
    return {key: 2 * len(first), **_picked(reference, rows, [*first, *first], sizes)}


def _depth(reference: Any) -> tuple[str | None, int]:
    """What a config calls its number of blocks when it is built, and how many there are."""
    for name in LAYERS:
        if isinstance(total := getattr(reference, name, None), int):
            return type(reference).attribute_map.get(name, name), total
    return None, 0


def _setting(config: Any, name: str) -> Any:
    """A setting as a config writes it; as an attribute, where it is only told from others."""
    written = config.to_dict()
    return written[name] if name in written else getattr(config, name, None)


def _rows(reference: Any, total: int) -> Rows:
    names = [name for name in reference.to_dict() if not name.startswith("_") and name not in _LABELS]
    rows = {name: row for name in names if (row := _row(_setting(reference, name), total)) is not None}
    # more entries than a few are no kinds but the blocks' own numbers
    rows = {name: row for name, row in rows.items() if len(set(map(str, row))) < min(total, 9)}
    kinds = _row(_setting(reference, "layers_block_type"), total)
    return rows if kinds is None or "layer_types" in rows else {"layers_block_type": kinds, **rows}


#: Mappings by number that are of every config, and not of blocks.
_LABELS = ("id2label", "label2id")


def _row(value: Any, total: int) -> list[Any] | None:
    """The entries for `total` blocks of a list, or of a mapping by their numbers; `None` for anything else."""
    if isinstance(value, list):
        return value if len(value) == total > 1 else None
    if isinstance(value, Mapping) and value and all(str(one).isdigit() and int(one) < total for one in value):
        entries = {int(one): entry for one, entry in value.items()}
        return [entries.get(layer) for layer in range(total)]
    return None


def _kinds(rows: Rows, total: int) -> list[tuple[str, ...]]:
    return [tuple(str(row[layer]) for row in rows.values()) for layer in range(total)]


def _picked(reference: Any, rows: Rows, picked: Sequence[int], sizes: Sizes) -> Sizes:
    """The entries of these blocks as the config tells them, lengths in the proportion they had."""
    said: Sizes = {}
    for name, value in reference.to_dict().items():
        if name not in rows:
            continue
        entries = [rows[name][layer] for layer in picked]
        if isinstance(value, list):
            said[name] = entries
        else:
            said[name] = {
                block: {inner: _in_proportion(inner, one, reference, sizes) for inner, one in entry.items()}
                for block, entry in enumerate(entries)
                if entry is not None
            }
    return said


def _in_proportion(name: str, value: Any, reference: Any, sizes: Sizes) -> Any:
    """A block's own length beside that of the others, which became `sizes[name]`."""
    whole, small = reference.to_dict().get(name), sizes.get(name)
    if type(value) is not int or type(whole) is not int or type(small) is not int or not whole:
        return value
    return max(1, small * value // whole)


def _first_of_each(rows: Rows, total: int) -> list[int]:
    """For each kind the first block of it."""
    first: dict[tuple[str, ...], int] = {}
    for layer, kind in enumerate(_kinds(rows, total)):
        first.setdefault(kind, layer)
    return list(first.values())
