"""Verification: what a spec says, put to a checkpoint under every load it may be given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from nnpedia.errors import NnpediaError, ReadTooLate, Unavailable, place
from nnpedia.family import Family
from nnpedia.laws import Measured, applies, measure, values_of
from nnpedia.observe import Spot, asked_host, observe, read, shape_of, spots_of
from nnpedia.pagecode import apart, running
from nnpedia.record import LawFact, Load, Problem, SnippetFact
from nnpedia.support import probing
from nnpedia.writes import LOGITS, Write, head_once, try_write

if TYPE_CHECKING:
    from nnpedia.checkpoints import Runnable
    from nnpedia.model import StandardizedTransformer

Pair = tuple[str, str]
LoadModel = Callable[[dict[str, str]], "StandardizedTransformer"]

ATTENTION = ("eager", "sdpa")
EXPERTS = ("eager", "batched_mm", "grouped_mm")


@dataclass
class Checked:
    """What verification found on one checkpoint."""

    loads: list[Load] = field(default_factory=list)
    shapes: dict[Spot, Any] = field(default_factory=dict)
    readable: dict[Pair, dict[str, bool]] = field(default_factory=dict)
    reasons: dict[Pair, dict[str, str]] = field(default_factory=dict)
    laws: list[LawFact] = field(default_factory=list)
    writes: dict[Pair, Write] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    faults: dict[tuple[str, str], tuple[str, list[str]]] = field(default_factory=dict)


def verify(family: Family, load: LoadModel, prompt: str) -> Checked:
    """Probe every load, check every shape, measure every law, try every write."""
    checked = Checked(loads=loads_of(family, load({})))
    measured: dict[Pair, dict[str, Measured]] = {}
    for choice in checked.loads:
        model = load(choice.options)
        with probing(model):
            found = read(model, spots_of(model), prompt)
        _note_probes(family, model, choice, found, checked)
        for host, table in family.laws.items():
            for name, law in table.items():
                if applies(law, host, family.values, family.lender is not None):
                    measured.setdefault((host, name), {})[choice.label] = measure(model, host, law, found)
    checked.problems += _told_once(checked.faults, [choice.label for choice in checked.loads])
    checked.laws = [_law(family, pair, results, checked.problems) for pair, results in measured.items()]
    _try_writes(family, load, prompt, checked)
    return checked


def loads_of(family: Family, model: StandardizedTransformer) -> list[Load]:
    """Every load of the matrix, the default one marked."""
    module: Any = model._module
    attention = [choice for choice in ATTENTION if choice == "eager" or getattr(module, "_supports_sdpa", False)]
    experts = EXPERTS if model.has_experts_choice else (None,)
    default = model.load_options()
    loads = []
    for attn in attention:
        for expert in experts:
            options = {"attn_implementation": attn} | ({"experts_implementation": expert} if expert else {})
            label = "+".join(options.values())
            loads.append(Load(label=label, options=options, default=options == default))
    return loads


def _note_probes(
    family: Family, model: StandardizedTransformer, choice: Load, found: dict[Spot, Any], checked: Checked
) -> None:
    from nnpedia.introspect import shape_problems

    batch, seq = found[(None, "model", "input_size")]
    shapes = {spot: shape_of(value) for spot, value in found.items()}
    for spot, value in shapes.items():
        checked.shapes.setdefault(spot, value)
        if isinstance(checked.shapes[spot], Exception) and not isinstance(value, Exception):
            checked.shapes[spot] = value
    call = {"batch": batch, "seq": seq, "query": seq, "key": seq}
    for host, table in family.values.items():
        for name, spec in table.items():
            own = {spot: value for spot, value in shapes.items() if spot[1:] == (host, name)}
            errors = [value for value in own.values() if isinstance(value, Exception)]
            misplaced = [error for error in errors if not (isinstance(error, Unavailable) and error.layers)]
            readable = bool(own) and len(errors) < len(own)
            checked.readable.setdefault((host, name), {})[choice.label] = readable
            if errors and not readable:
                reason = errors[0].reason if isinstance(errors[0], Unavailable) else str(errors[0])
                checked.reasons.setdefault((host, name), {})[choice.label] = reason
            if spec.absent is not None:
                continue
            declared = all(choice.options.get(option) in choices for option, choices in spec.needs.items())
            what = []
            if readable and not declared:
                what.append(f"{name} is there under {choice.label}, though the spec says it needs {spec.needs}")
            if declared:
                what += list(dict.fromkeys(shape_problems(model, own, call)))
                what += [str(error) for error in misplaced[:1] if spec.needs]
            for text in what:
                alike = re.sub(r"layers([.\[])\d+", r"layers\1i", text)  # the same fault on every block is one fault
                told = checked.faults.setdefault((family.where("values", host, name), alike), (text, []))
                if choice.label not in told[1]:
                    told[1].append(choice.label)


def _told_once(faults: dict[tuple[str, str], tuple[str, list[str]]], labels: list[str]) -> list[Problem]:
    """One problem for a fault that several blocks or loads share, told of the first block."""
    return [
        Problem(where=where, what=f"under {'every load' if under == labels else ', '.join(under)}: {text}")
        for (where, _), (text, under) in faults.items()
    ]


def _law(family: Family, pair: Pair, results: dict[str, Measured], problems: list[Problem]) -> LawFact:
    host, name = pair
    law = family.laws[host][name]
    where = family.where("laws", host, name)
    worst_load, worst = max(
        ((label, result) for label, result in results.items()), key=lambda item: (item[1].cases > 0, item[1].error or 0)
    )
    message = next((result.message for result in results.values() if result.message), None)
    holds = message is None and worst.cases > 0 and worst.error is not None and worst.error <= law.tolerance
    broken = None
    if law.exception is None and not holds:
        broken = message or (
            f"{law.formula} is off by {worst.error:.3g} epsilons under {worst_load}, more than {law.tolerance:g}"
            if worst.error is not None
            else f"{law.formula} could not be measured: {', '.join(worst.missing)} not there under any load"
        )
    elif law.exception is not None and holds:
        broken = f"{law.formula} holds, though the spec says it does not ({law.exception})"
    if broken:
        places = [family.where("values", *value) for value in values_of(law, host, family.values)]
        problems.append(
            Problem(
                where=where, what=f"law {name}: {broken}; its values are said at {', '.join(dict.fromkeys(places))}"
            )
        )
    return LawFact(
        name=name, host=host, says=law.says, formula=law.formula, holds=holds, exception=law.exception,
        error=worst.error, tolerance=law.tolerance, load=worst_load, cases=worst.cases, message=broken, source=where,
    )  # fmt: skip


def _try_writes(family: Family, load: LoadModel, prompt: str, checked: Checked) -> None:
    """Writes at every value of the first block of each kind, under the load that has the most values."""
    from nnpedia.introspect import block_kinds

    def count(choice: Load) -> int:
        return sum(table.get(choice.label, False) for table in checked.readable.values())

    model = load(max(checked.loads, key=count).options)
    head = head_once(model)
    with head:
        clean = read(model, [LOGITS], prompt)[LOGITS]
    if isinstance(clean, NnpediaError):
        return
    first = [kind.layers[0] for kind in block_kinds(model)]
    checked.problems += [problem for layer in first for problem in _out_of_order(family, model, layer, prompt)]
    for spot in spots_of(model, first):
        pair, seen = spot[1:], checked.shapes.get(spot)
        if isinstance(seen, Unavailable) and seen.layers:
            continue
        with head:
            write = try_write(model, spot, prompt, clean)
        before = checked.writes.setdefault(pair, write)
        if write.assignable and not before.assignable:
            checked.writes[pair] = write
        problem = _write_problem(family, pair, write)
        if problem:
            checked.problems.append(Problem(where=family.where("values", *pair), what=problem))
    after = read(model, [LOGITS], prompt)[LOGITS]
    if isinstance(after, NnpediaError) or not after.equal(clean):
        checked.problems.append(Problem(where=str(family.notes.name), what="a write outlived its trace"))


def _out_of_order(family: Family, model: StandardizedTransformer, layer: int, prompt: str) -> list[Problem]:
    """The first value of a block that a forward has passed once it is asked for in the order the spec gives."""
    found: list[Problem] = []
    names = [name.split(".") for name in model.forward_order()]

    def task() -> None:
        before = ""
        for host, name in names:
            spot = (None if host == "model" else layer, host, name)
            try:
                getattr(asked_host(model, spot), name)
            except ReadTooLate:
                section = "order" if ("order", host, "") in family.lines else "values"
                where = family.where(section, host, "" if section == "order" else name)
                what = f"in the forward of block {layer}, {name} comes before {before}, not after it: say so in `order`"
                found.append(Problem(where=where, what=what))
                return
            except NnpediaError:
                continue
            before = name

    with torch.no_grad():
        observe(model, [task], prompt)
    return found


def _write_problem(family: Family, pair: Pair, write: Write) -> str | None:
    if family.values[pair[0]][pair[1]].at is None:
        return None
    if not write.assignable:
        return f"{pair[1]} cannot be assigned: {write.message}"
    if not write.neutral:
        return f"{pair[1]} assigned to itself changes the logits"
    if not write.causal:
        return f"{pair[1]} assigned another value leaves the logits as they were"
    return None


def notes(family: Family, runnable: Runnable, load: Callable[..., Any], prompt: str) -> list[SnippetFact]:
    """What the notes' fences gave that run on this checkpoint, apart from the prose around them."""
    from nnpedia.checkpoints import runnables
    from nnpedia.fences import fences
    from nnpedia.isolation import run_isolated

    if not family.notes.exists():
        return []
    found = fences(family.notes, file=place(family.notes))
    names = [each.name for each in runnables(family)]
    return run_isolated(apart(running(found, runnable.name, names)), load, prompt)
