"""`print(model)`: the native modules under their standard names, and every value with its layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from nnpedia.errors import Unavailable

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting
    from nnpedia.model import StandardizedTransformer


def printout(model: StandardizedTransformer) -> str:
    """The tree of a model: standard names, native classes, values, equal blocks folded into one."""
    aliases = {path: alias for alias, path in model._aliases.items()}
    named = {f"{model.path}.{path}": alias for path, alias in aliases.items()}
    lines = [f"{type(model._module).__name__}("]
    for name, child in model._child_map.items():
        if any(path.startswith(f"{name}.") for path in aliases):
            for inner, grandchild in child._child_map.items():
                lines += _child(aliases.get(f"{name}.{inner}", f"{name}.{inner}"), grandchild, named)
        else:
            lines += _child(aliases.get(name, name), child, named)
    return "\n".join([*lines, *_values(model), ")"])


def native_children(module: torch.nn.Module, names: Mapping[str, str]) -> dict[str, str]:
    """The modules right below one, and those that `names` (native path to standard name) reaches further down."""
    there = {path for path, _ in module.named_modules()}
    deeper = {path: name for path, name in names.items() if "." in path and path in there}
    return {child: names.get(child, child) for child, _ in module.named_children()} | deeper


def _child(label: str, envoy: Any, named: dict[str, str]) -> list[str]:
    first, *rest = _tree(envoy, named)
    return [f"  ({label}): {first}", *(f"  {line}" for line in rest)]


def _tree(envoy: Any, named: dict[str, str]) -> list[str]:
    """A module and what is in it; `named` are names given from further up, by full path."""
    module = envoy._module
    if isinstance(module, torch.nn.ModuleList) and len(module):
        return _blocks(envoy, named)
    name = module._get_name()
    extra = module.extra_repr()
    aliases = {path: alias for alias, path in envoy._aliases.items()}
    named = {**named, **{f"{envoy.path}.{path}": alias for path, alias in aliases.items() if "." in path}}
    body = []
    for child, inner in envoy._child_map.items():
        body += _child(named.get(inner.path, aliases.get(child, child)), inner, named)
    body += _virtual(envoy) + _values(envoy)
    if not body:
        return [f"{name}({extra})"]
    return [f"{name}(", *(f"  {line}" for line in extra.split("\n") if extra), *body, ")"]


def _virtual(envoy: Any) -> list[str]:
    """Hosts that are no module: their values stand under their name all the same."""
    if getattr(envoy, "host_name", None) != "layers":
        return []
    hosts = [getattr(envoy, name) for name in envoy.family.virtual]
    return [
        line
        for host in hosts
        for line in (
            f"  ({host.host_name}): of the block's own modules (",
            *(f"  {value}" for value in _values(host)),
            "  )",
        )
    ]


def _blocks(envoy: Any, named: dict[str, str]) -> list[str]:
    """A `ModuleList`, neighbours that print alike folded into `(first-last): n x Class`."""
    runs: list[tuple[int, int, list[str]]] = []
    for index, child in enumerate(envoy._child_map.values()):
        tree = _tree(child, named)
        if runs and runs[-1][2] == tree:
            runs[-1] = (runs[-1][0], index, tree)
        else:
            runs.append((index, index, tree))
    lines = [f"{envoy._module._get_name()}("]
    for first, last, tree in runs:
        label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
        lines += [f"  {label}{tree[0]}", *(f"  {line}" for line in tree[1:])]
    return [*lines, ")"]


def _values(envoy: Any) -> list[str]:
    if not getattr(envoy, "host_name", ""):
        return []
    values = envoy.family.values[envoy.host_name]
    return [f"  {_line(envoy, name)}" for name, spec in values.items() if spec.absent is None and envoy.holds(name)]


def _line(host: Hosting, name: str) -> str:
    value = getattr(type(host), name)
    layout = "" if value.spec.layout == "scalar" else f" -> {value.spec.layout} [{' '.join(value.axes)}]"
    line = f"({name}){layout}: {value.spec.says}"
    try:
        value.check_declared(host)
    except Unavailable as error:
        line += f"  ⚠︎ {error.reason}"
    return line
