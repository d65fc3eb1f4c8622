"""Laws: identities between values and weights, measured on a live model's own tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nnpedia import formula
from nnpedia.errors import NnpediaError, Unavailable
from nnpedia.functions import FUNCTIONS
from nnpedia.holding import host_of
from nnpedia.observe import Spot, host_at
from nnpedia.sizes import evaluate

#: What a formula calls other blocks by, and its own.
BLOCKS = ("first", "last", "block", "next", "lender")

if TYPE_CHECKING:
    from nnpedia.entryspec import LawSpec
    from nnpedia.model import StandardizedTransformer


@dataclass(frozen=True)
class Measured:
    """A law on one model.

    Attributes:
        error: Largest `|left - right|`, in epsilons of the dtype times the largest magnitude compared.
        cases: How many blocks (or pairs of blocks) it was measured on.
        missing: The values whose absence keeps the law from being measured here.
        message: What broke, for a law that could not be evaluated.
    """

    error: float | None
    cases: int
    missing: tuple[str, ...] = ()
    message: str | None = None


class Missing(LookupError):
    """A value the law names is not there."""


def measure(model: StandardizedTransformer, host: str, law: LawSpec, found: Mapping[Spot, Any]) -> Measured:
    """Evaluate a law on every block that has its values, over tensors already read (`found`)."""
    parsed = formula.parse(law.formula, law=True)
    layers: Iterable[int | None] = [None] if host == "model" else range(model.num_layers)
    worst, cases, missing = 0.0, 0, set[str]()
    for layer in layers:
        lookup = _lookup(model, host, layer, found)
        if absent := _absent(parsed, lookup):
            missing |= absent
            continue
        try:
            with torch.no_grad():
                left = formula.evaluate(parsed.left, lookup)
                right = formula.evaluate(parsed.right, lookup)  # type: ignore[arg-type]
            worst, cases = max(worst, distance(left, right)), cases + 1
        except NnpediaError as error:
            return Measured(None, cases, message=f"{law.formula}: {error.message}")
        except Exception as error:
            return Measured(None, cases, message=f"{law.formula}: {type(error).__name__}: {error}")
    return Measured(worst if cases else None, cases, tuple(sorted(missing)))


def _absent(law: formula.Formula, lookup: formula.Lookup) -> set[str]:
    """The values a law names that are not on this block: the modules it names need not be there either."""
    absent = set()
    for name in law.names():
        try:
            lookup(name)
        except Missing as value:
            absent.add(str(value))
        except Exception:  # a module or a setting; evaluating the law tells
            continue
    return absent


def distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """Largest difference, in epsilons of the coarser dtype times the largest magnitude; raises on shapes."""
    if left.shape != right.shape:
        raise ValueError(f"{list(left.shape)} is compared with {list(right.shape)}")
    if left.numel() == 0 or torch.equal(left, right):
        return 0.0
    if not left.is_floating_point():
        return float("inf")
    epsilon = max(torch.finfo(left.dtype).eps, torch.finfo(right.dtype).eps)
    left, right = left.double(), right.double()
    difference = (left - right).abs().max().item()
    scale = max(left.abs().max().item(), right.abs().max().item())
    error = difference / (epsilon * scale)
    return error if error == error else float("inf")


def lender(model: StandardizedTransformer, layer: int) -> int | None:
    """The block whose keys and values a block attends with; `None` where it has its own."""
    said = model.family.lender
    attentions = [host_of(block, "self_attn") for block in model.layers[: layer + 1]]
    if said is None or attentions[layer] is None:
        return None

    def told(text: str, index: int) -> Any:
        return evaluate(text, attentions[index].module, model.text_config)

    if not told(said.borrows, layer):
        return None
    having = (each for each in reversed(range(layer)) if attentions[each] is not None and not told(said.borrows, each))
    return next((each for each in having if told(said.alike, each) == told(said.alike, layer)), None)


def _lookup(model: StandardizedTransformer, host: str, layer: int | None, found: Mapping[Spot, Any]) -> formula.Lookup:
    blocks: dict[str, Callable[[], int | None]] = {
        "first": lambda: 0,
        "last": lambda: model.num_layers - 1,
        "block": lambda: layer,
        "next": lambda: None if layer is None or layer + 1 >= model.num_layers else layer + 1,
        "lender": lambda: None if layer is None else lender(model, layer),
    }

    def lookup(name: str) -> Any:
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        if name == "project_on_vocab":
            return model.project_on_vocab
        head, _, rest = name.partition(".")
        if head == "config":
            return getattr(model.text_config, rest, None)
        if head in blocks and rest:
            index = blocks[head]()
            if index is None:
                raise Missing(head)
            return _on_host(model, "layers", index, rest, found)
        return _on_host(model, host, layer, name, found)

    return lookup


def _on_host(model: StandardizedTransformer, host: str, layer: int | None, name: str, found: Mapping[Spot, Any]) -> Any:
    """A value of the host, of a host below it, or one of its modules and their attributes."""
    head, _, rest = name.partition(".")
    values = model.family.values
    if not rest and head in values[host]:
        return _value((layer, host, head), found)
    if host == "layers" and head in values and rest in values[head]:
        return _value((layer, head, rest), found)
    envoy: Any = host_at(model, layer, host)
    if envoy is None:
        raise Missing(host)
    thing: Any = envoy.start
    for part in name.split("."):
        child = thing.__dict__.get(part) if hasattr(thing, "_child_map") else None
        thing = child if child is not None else getattr(getattr(thing, "_module", thing), part)
    return getattr(thing, "_module", thing)


def _value(spot: Spot, found: Mapping[Spot, Any]) -> torch.Tensor:
    value = found.get(spot)
    if value is None or isinstance(value, NnpediaError):
        raise Missing(value.value if isinstance(value, Unavailable) else spot[2])
    return value


def values_of(law: LawSpec, host: str, values: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The `(host, value)` pairs a law names."""
    pairs: list[tuple[str, str]] = []
    for name in formula.parse(law.formula, law=True).names():
        head, _, rest = name.partition(".")
        if head in BLOCKS:
            name, owner = rest, "layers"
        else:
            owner = host
        head, _, rest = name.partition(".")
        if not rest and head in values[owner]:
            pairs.append((owner, head))
        elif rest and head in values and rest in values[head]:
            pairs.append((head, rest))
    return pairs


def applies(law: LawSpec, host: str, values: Mapping[str, Mapping[str, Any]], lends: bool = False) -> bool:
    """Whether the family has every value the law names, and a block that `lends` where it names a lender."""
    if not lends and any(name.startswith("lender.") for name in formula.parse(law.formula, law=True).names()):
        return False
    return all(values[owner][name].absent is None for owner, name in values_of(law, host, values))
