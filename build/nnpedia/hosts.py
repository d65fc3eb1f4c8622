"""Hosts: the envoy classes that carry the values, made from a family.

nnsight wraps every module in an `Envoy`; the modules that host values get a subclass of it with
one `Value` per standard name. The classes are keyed by the hosts' places in the tree (`layers.*`,
`layers.*.self_attn`, …), which nnsight matches under the family's names too.
"""

from __future__ import annotations

import operator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from nnsight.intervention.envoy import Envoy
from nnsight.intervention.interleaver import Mediator, OutOfOrderError

from nnpedia.errors import AddressError, ModelError, NoSuchBlock, ReadTooLate, Unavailable
from nnpedia.family import Family
from nnpedia.holding import PATHS, block_place, find_child, has, layers_with, listed
from nnpedia.locating import Located
from nnpedia.misnamed import missing_host, missing_value, refuse_unknown
from nnpedia.sizes import axis_sizes, evaluate
from nnpedia.values import Value
from nnpedia.versions import under

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer


#: What a recurrence's states are worked out from, beside the state it starts from.
ENTERING = ("keys", "values", "betas", "decays")


#: What a host keeps of its module and of its place in the tree, to be found again once the module is replaced.
FOUND = ("places", "outermost", "inner", "_sizes")


class Hosting:
    """What carrying standard values takes, for a module's envoy and for a virtual host alike."""

    host_name: str = ""
    #: Whether the host has values that are worked out from its others.
    derives: bool = False
    family: Family
    path: str
    interleaver: Any
    block: Any
    root: StandardizedTransformer

    @property
    def start(self) -> Any:
        """The envoy this host's addresses start from."""
        return self

    @property
    def module(self) -> torch.nn.Module:
        return self.start._module

    def module_device(self) -> torch.device:
        """The device of the host's weights."""
        return next(self.module.parameters()).device

    @cached_property
    def places(self) -> dict[Located, str]:
        """Value to nnsight location, filled as values that always have the same one are first read."""
        return {}

    @cached_property
    def outermost(self) -> dict[Located, tuple[Any, Any, Any]]:
        """By value: how its module ran when it was last located inside the forward, and the operation it is at."""
        return {}

    @cached_property
    def inner(self) -> dict[Located, tuple[str, Any]]:
        """By value inside the function that an operation calls: its location when last found, and that operation."""
        return {}

    @property
    def place(self) -> str:
        """Where the host is, in standard names: `model.layers[1].self_attn`."""
        if self.host_name == "model":
            return "model"
        block = self.block
        return block_place(block) if self.host_name == "layers" else f"{block_place(block)}.{self.host_name}"

    def keep(self, name: str, value: Any) -> None:
        """Remember a value that trace code has just read or assigned, for what is derived from it later."""
        if self.derives and self.interleaver.interleaving:
            self._kept()[name] = value

    def prepare(self, name: str) -> None:
        """Keep what the states are worked out from and what comes before the value that is about to be read."""
        if not (self.derives and name in ("queries", *ENTERING) and self.interleaver.interleaving):
            return
        before = self.root.forward_names(self.host_name, "queries", *ENTERING)
        before = [earlier for earlier in before[: before.index(name)] if earlier != "queries"]
        if self.root.step().cache is not None:
            before = ["state_input", *before]
        asked = self.root.asked.setdefault(id(Mediator.current("prepare")), [])
        told = len(asked)
        try:
            for earlier in before:
                self.read(earlier)
        except ReadTooLate as error:  # said once more in the name of the value that was asked for
            asked[told:] = [(self, name)]
            raise OutOfOrderError(error.message) from None
        del asked[told:]

    def read(self, name: str) -> Any:
        """A value of this host in the running call, also when this trace code has read it before."""
        kept = self._kept()
        return kept[name] if name in kept else getattr(self, name)

    def _kept(self) -> dict[str, Any]:
        """What the running trace code has read of this host in the running call; of one host at a time."""
        root, me = self.root, id(Mediator.current("kept"))
        now = (self.path, root.call().index if root.running else -1)
        where, values = root.kept.get(me, (None, {}))
        if where != now:
            where, values = root.kept[me] = (now, {})
        return values

    def origin(self, anchor: str) -> Any:
        """The envoy an address starts from."""
        return {"": lambda: self.start, "^": lambda: self.block, "/": lambda: self.root}[anchor]()

    def axis_sizes(self) -> dict[str, int]:
        """Axis to length, from this host's module first and the config second."""
        known = self.__dict__.get("_sizes")
        if known is None:
            known = self.__dict__["_sizes"] = axis_sizes(self.family, self.module, self.root.text_config)
        return known

    def number(self, text: str) -> float:
        """A formula over `module` and `config`, such as a multiplier the model applies."""
        return evaluate(text, self.module, self.root.text_config)

    def not_on_this_block(self, name: str, why: str) -> Unavailable:
        """The error for a value whose place this block lacks; it names the blocks that have it, if any."""
        having = layers_with(self.root, self.host_name, name)
        there = f" (it is on {listed(having)})" if having else f" ({under(self.family.vocabulary.versions)})"
        return Unavailable(name, f"{why}{there}", layers=having, where=self.place)

    def holds(self, name: str) -> bool:
        """Whether this host's modules hold the place of a value, down to the operation in their own forward."""
        return self.host_name == "model" or has(self.block, self.host_name, name)

    def forget(self) -> None:
        """Drop what was worked out from the module, which has been replaced."""
        for name in FOUND:
            self.__dict__.pop(name, None)


class Host(Hosting, Envoy):
    """An envoy that carries standard values."""

    @property
    def root(self) -> StandardizedTransformer:  # type: ignore[override]
        """The model this host belongs to."""
        kept = self.__dict__.get("_model")
        envoy: Any = None if kept is None else kept()
        if envoy is None:
            envoy = self
            while (parent := envoy.parent) is not None:
                envoy = parent
            self.__dict__["_model"] = ref(envoy)
        return envoy

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes along: not what this process keeps about the tree, which does not pickle."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in (*FOUND, "_model", "_inside")}

    @property
    def block(self) -> Host:
        """The block this host stands in; itself when it is one."""
        envoy: Any = self
        while envoy is not None and getattr(envoy, "host_name", None) != "layers":
            envoy = envoy.parent
        if envoy is None:
            raise AddressError("an address that starts with ^ needs a block around its host", where=self.path)
        return envoy

    def child(self, name: str) -> Envoy:
        """A child by native or standard name; raises `AddressError` naming the children there."""
        return find_child(self, name)

    def __getattr__(self, name: str) -> Any:
        if name in PATHS and self.host_name == "layers":
            if name in self.family.virtual:
                return self.__dict__.setdefault(f"_virtual_{name}", virtual_class(name, self.family)(self))
            raise missing_host(self, name)
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "_module" not in self.__dict__:
                raise
            raise missing_value(self, name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, torch.nn.Module):
            refuse_unknown(self, name)
        super().__setattr__(name, value)

    def edit(self, **options: Any) -> Any:
        """nnsight's `edit`, of the model as a whole: no run of the model would make the edit of a part."""
        if self.parent is not None:
            raise ModelError("an edit is made in runs of what was edited: write model.edit()", where=self.place)
        return super().edit(**options)

    def _update(self, module: torch.nn.Module) -> None:
        self.forget()
        for name in self.family.virtual:
            self.__dict__.pop(f"_virtual_{name}", None)
        super()._update(module)


class Blocks(Envoy):
    """The blocks, by number: `model.layers[3]`, `model.layers[-1]`, `model.layers[2:4]`."""

    def __getitem__(self, key: Any) -> Any:
        """A block, or a list of them; raises `NoSuchBlock` with the numbers there are."""
        if isinstance(key, slice):
            return super().__getitem__(key)
        there = f"there are {len(self)} blocks, model.layers[0] to model.layers[{len(self) - 1}]"
        try:
            number = int(key) if isinstance(key, str) and key.isdecimal() else operator.index(key)
        except TypeError:
            raise NoSuchBlock(f"a block has a number, and {key!r} is none; {there}", where="model.layers") from None
        if not -len(self) <= number < len(self):
            raise NoSuchBlock(f"there is no block {number}; {there}", where="model.layers")
        return super().__getitem__(number)


class VirtualHost(Hosting):
    """A host with no module of its own: its addresses start at the block."""

    def __init__(self, block: Host) -> None:
        self.block = block
        self.interleaver = block.interleaver
        self.path = block.path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing_value(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "path" in self.__dict__:
            refuse_unknown(self, name)
        super().__setattr__(name, value)

    @property
    def start(self) -> Any:
        return self.block

    @property
    def root(self) -> StandardizedTransformer:  # type: ignore[override]
        return self.block.root

    def __repr__(self) -> str:
        return f"{self.place}: values of the block's own modules"


@cache
def _virtual_classes() -> dict[tuple[Path, tuple[str, ...], str], type]:
    return {}


def virtual_class(host: str, family: Family) -> Any:
    """The class of a virtual host, made once per family."""
    classes = _virtual_classes()
    key = (family.folder, family.variant, host)
    if key not in classes:
        classes[key] = host_class(host, family, VirtualHost)
    return classes[key]


def host_classes(family: Family) -> dict[str, type[Host]]:
    """Host name to envoy class, with a `Value` for every name of the vocabulary."""
    hosts = [host for host in PATHS if host in family.values and host not in family.virtual]
    return {host: host_class(host, family, Host) for host in hosts}


def host_class(host: str, family: Family, base: type) -> Any:
    """A subclass of `base` carrying the host's values."""
    values = {
        name: Value(name, spec, family.axes(spec), family.pattern(spec)) for name, spec in family.values[host].items()
    }
    derives = host != "model" and any(spec.reader is not None for spec in family.values[host].values())
    facts = {"host_name": host, "family": family, "derives": derives}
    return type(f"{host.title().replace('_', '')}Host", (base,), {**values, **facts})


def renames(family: Family) -> dict[str, str]:
    """The family's names as nnsight aliases: native path to standard path, from the host's parent."""
    native_hosts = {standard: native for native, standard in family.names.get("layers", {}).items()}
    aliases: dict[str, str] = {}
    for host, table in family.names.items():
        prefix = "" if host in ("model", "layers") else f"{native_hosts.get(host, host)}."
        aliases.update({f"{prefix}{native}": f"{prefix}{standard}" for native, standard in table.items()})
    return aliases
