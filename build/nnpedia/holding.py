"""Holding: where in the tree the hosts are, and which blocks hold the place of a value."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from nnsight.intervention.envoy import Envoy
from nnsight.intervention.source import SourceNotAvailable

from nnpedia.errors import AddressError
from nnpedia.forwards import opened
from nnpedia.runs import runs

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer

#: Where in the tree each host but the root is found, in standard names.
PATHS = {
    "layers": "layers.*",
    "self_attn": "layers.*.self_attn",
    "linear_attn": "layers.*.linear_attn",
    "mlp": "layers.*.mlp",
}


def find_child(envoy: Any, name: str) -> Any:
    """A child envoy by native or standard name; raises `AddressError` naming the children there."""
    found = envoy.__dict__.get(name)
    if not isinstance(found, Envoy):
        there = ", ".join(envoy._child_map) or "none"
        raise AddressError(f"{envoy.path} has no child {name!r}; its children are {there}")
    return found


def host_of(block: Any, host: str) -> Any:
    """A block's host by name (the block itself for `layers`); `None` where it has no such host."""
    return block if host == "layers" else getattr(block, host, None)


def layers_with(model: StandardizedTransformer, host: str, name: str) -> tuple[int, ...]:
    """The blocks whose modules hold the place of a value."""
    return tuple(layer for layer, block in enumerate(model.layers) if has(block, host, name))


def has(block: Any, host: str, name: str) -> bool:
    """Whether a block's modules hold the place of a value, down to the operation in their own forward."""
    found = host_of(block, host)
    value = None if found is None else getattr(type(found), name, None)
    if value is None or value.spec.at is None:
        return found is not None and value is not None and value.spec.absent is None
    try:
        envoy = value.descend(found)
        return not value.address.operations or value.address.operations[0] in _operations(envoy)
    except (AddressError, SourceNotAvailable):
        return False


def _operations(envoy: Any) -> frozenset[str]:
    """The operations in the forward of an envoy's class; reading a source takes time, and classes have many modules."""
    module_class = type(envoy._module)
    if module_class not in _operations_by_class():
        _operations_by_class()[module_class] = frozenset(opened(envoy).names)
    return _operations_by_class()[module_class]


@cache
def _operations_by_class() -> dict[type, frozenset[str]]:
    return {}


def listed(layers: tuple[int, ...]) -> str:
    """`layer 2`, `layers 0, 2, 5`, `layers 3 to 60`: runs of four and more by their ends."""
    told = [f"{run[0]} to {run[-1]}" if len(run) > 3 else ", ".join(map(str, run)) for run in runs(layers)]
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(told)}"


def block_place(block: Envoy) -> str:
    """`model.layers[3]`, in standard names."""
    return f"model.layers[{block.path.rsplit('.', 1)[-1]}]"
