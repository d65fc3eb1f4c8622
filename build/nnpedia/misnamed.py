"""Misnamed: what is said to a name that a host does not have, read or assigned.

The name may be that of another host's value, or nearly one that is here: one answer, the best there is.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nnpedia.errors import ModelError
from nnpedia.holding import block_place, host_of, listed

if TYPE_CHECKING:
    from nnpedia.hosts import Host, Hosting


class Missing(ModelError, AttributeError):
    """A name that is not there; also an `AttributeError`, so that `hasattr` is false.

    What it says is worked out when it is read: while a model is put together, hundreds of names are asked for in vain.
    """

    def __init__(self, tell: Callable[[], ModelError], host: Hosting) -> None:
        Exception.__init__(self)
        self.tell = tell
        self.obj = host  # Python adds a guess of its own to one that does not say whose attribute it was

    def __str__(self) -> str:
        return str(self.tell())

    def __getattr__(self, name: str) -> Any:
        if name in ("message", "where"):
            return getattr(self.tell(), name)
        raise AttributeError(name)


class MissingValue(Missing):
    """A name that a host does not have, read or assigned."""


class MissingHost(Missing):
    """A host asked of a block that has none."""


def missing_value(host: Hosting, name: str) -> MissingValue:
    """The error for reading a name that is no value, module or attribute of a host."""

    def tell() -> ModelError:
        root: Any = host
        if host.host_name == "model" and name in host.family.sizes and name in root.lengths():
            own = "a block's own is in model.layers[i].self_attn.axis_sizes(), or its mlp's"
            return ModelError(f"model has no one {name}: blocks differ in it; {own}")
        return ModelError(f"{host.place} has no {name!r}{_answer(host, name)}")

    return MissingValue(tell, host)


def missing_host(block: Host, name: str) -> MissingHost:
    """The error for a host that a block is built without; it names the blocks that have it, if any."""

    def tell() -> ModelError:
        having = tuple(layer for layer, other in enumerate(block.root.layers) if name in other.__dict__)
        there = f"; it is on {listed(having)}" if having else ""
        return ModelError(f"this block has no {name}{there}", where=block.place)

    return MissingHost(tell, block)


def refuse_unknown(host: Any, name: str) -> None:
    """Raise `MissingValue` for a misspelt assignment in a trace, which Python would take without a word."""
    if name.startswith("_") or hasattr(type(host), name) or name in host.__dict__:
        return
    if "interleaver" in host.__dict__ and host.interleaver.interleaving:
        told = ModelError(f"{host.place} has no {name!r} to assign to{_answer(host, name)}")
        raise MissingValue(lambda: told, host)


def _answer(host: Hosting, name: str) -> str:
    """Where the value of that name is, or the nearest name there is; empty when none is near."""
    own = [*host.family.values[host.host_name], *_modules(host), *_attributes(host)]
    elsewhere = {
        value: f"{_place(host, other)}.{value}"
        for other, table in host.family.values.items()
        for value, spec in table.items()
        if other != host.host_name and spec.absent is None and value not in own
    }
    if name in elsewhere:
        return f"; it is {elsewhere[name]}"
    close = difflib.get_close_matches(name, [*own, *elsewhere], n=1)
    return f"; did you mean {elsewhere.get(close[0], repr(close[0]))}?" if close else ""


def _modules(host: Hosting) -> Iterator[str]:
    """The modules and hosts that are asked of a host, by native and by standard name."""
    yield from getattr(host, "_child_map", ())
    names, held = host.family.names.get(host.host_name, {}), dict(host.module.named_modules())
    yield from (standard for native, standard in names.items() if native in held)
    yield from host.family.virtual if host.host_name == "layers" else ()


def _attributes(host: Hosting) -> Iterator[str]:
    """What else is asked of a host, such as `num_layers`; not what hosts are made of."""
    from nnpedia.hosts import Hosting

    inner = vars(Hosting).keys() - {"module", "axis_sizes"}
    found = {*dir(type(host)), *host.__dict__} - inner
    return (name for name in sorted(found) if not name.startswith("_"))


def _place(host: Hosting, other: str) -> str:
    """Where another host is, seen from this one: on the same block where it is one, and has it."""
    if other == "model":
        return "model"
    on_a_block = host.host_name != "model" and (other == "layers" or host_of(host.block, other) is not None)
    block = block_place(host.block) if on_a_block else "model.layers[i]"
    return block if other == "layers" else f"{block}.{other}"
