"""Needs: what a unit takes of a machine, told before it starts, so that it goes where there is room for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnpedia import records
from nnpedia.family import Family
from nnpedia.pool import GIGABYTE
from nnpedia.records import Unit

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Measured on the units of six families (torch 2.13, transformers 5.24, two cores), as `nnpedia test --json` gives it,
# the larger of `peak_memory` and `peak_resident`, in GB: 43 references 0.26 to 0.27, Llama 3.1 405B's among them; 7
# forged checkpoints 0.27 to 0.31; SmolLM2 135M (0.50 of trained weights) 0.81, Gemma 3 270M (1.00) 2.14.
# `tests/test_needs.py` holds one of each kind to it.
#: What a process takes beside weights: the libraries are shared, the activations of a short prompt are small.
OWN = int(0.45 * GIGABYTE)
#: Bytes taken per byte of weights: they once, and what running them adds, which is most where the vocabulary is large.
AROUND = 1.75


@dataclass(frozen=True)
class Needs:
    """Bytes of memory, and how many accelerators."""

    memory: int
    accelerators: int = 0

    def __str__(self) -> str:
        return f"{self.memory / GIGABYTE:.1f} GiB" + (" and an accelerator" if self.accelerators else "")


def needs_of(unit: Unit, family: Family | None, home: Path, device: str = "cpu") -> Needs:
    """What a unit needs: its checkpoint's parameters times the bytes of each, and what is around them.

    A reference has no weights and a forged checkpoint's are small. The parameters of others are counted by the
    reference of the public checkpoint they are; they are taken for none while there is no such record.
    """
    weights = 0 if family is None or unit.kind != "run" else _weights(unit, family, home)
    return Needs(OWN + int(AROUND * weights), int(unit.kind == "run" and device != "cpu"))


def _weights(unit: Unit, family: Family, home: Path) -> int:
    ids = {package.name: (package.id, "float32") for package in family.packages}
    ids |= {checkpoint.id: (checkpoint.id, checkpoint.dtype) for checkpoint in family.checkpoints}
    if unit.name not in ids:
        return 0
    public, dtype = ids[unit.name]
    for place, checkpoint in enumerate(family.checkpoints):
        if checkpoint.id == public:
            reference = Unit(family.family, "reference", place, public)
            return records.parameters_of(home, reference) * BYTES[dtype]
    return 0
