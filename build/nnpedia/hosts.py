"""Hosts: the envoy classes that carry the values, made from a family.

nnsight wraps every module in an `Envoy`; the modules that host values get a subclass of it with
one `Value` per standard name. The classes are keyed by the hosts' places in the tree (`layers.*`,
`layers.*.self_attn`, …), which nnsight matches under the family's names too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from nnsight.intervention.envoy import Envoy

from nnpedia import formula
from nnpedia.errors import AddressError, NnpediaError
from nnpedia.family import Family
from nnpedia.values import Value, _child

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer

#: Where in the tree each host but the root is found, in standard names.
PATHS = {"layers": "layers.*", "self_attn": "layers.*.self_attn", "mlp": "layers.*.mlp"}


class Host(Envoy):
    """An envoy that carries standard values."""

    host_name: str = ""
    family: Family

    @property
    def root(self) -> StandardizedTransformer:  # type: ignore[override]
        """The model this host belongs to."""
        envoy: Envoy = self
        while (parent := envoy.parent) is not None:
            envoy = parent
        return envoy  # type: ignore[return-value]

    @property
    def places(self) -> dict[str, str]:
        """Value name to nnsight location, filled as values are first read."""
        return self.__dict__.setdefault("_places", {})

    @property
    def place(self) -> str:
        """Where the host is, in standard names: `model.layers[1].self_attn`."""
        if self.host_name == "model":
            return "model"
        block = self.block
        return block_place(block) if block is self else f"{block_place(block)}.{self.host_name}"

    @property
    def block(self) -> Host:
        """The block this host stands in; itself when it is one."""
        envoy: Any = self
        while envoy is not None and getattr(envoy, "host_name", None) != "layers":
            envoy = envoy.parent
        if envoy is None:
            raise AddressError("an address that starts with ^ needs a block around its host", where=self.path)
        return envoy

    def origin(self, anchor: str) -> Any:
        """The envoy an address starts from."""
        return {"": lambda: self, "^": lambda: self.block, "/": lambda: self.root}[anchor]()

    def child(self, name: str) -> Envoy:
        """A child by native or standard name; raises `AddressError` naming the children there."""
        return _child(self, name)

    def axis_sizes(self) -> dict[str, int]:
        """Axis to length, from this host's module first and the config second."""
        known = self.__dict__.get("_sizes")
        if known is None:
            known = self.__dict__["_sizes"] = axis_sizes(self.family, self._module, self.root.text_config)
        return known

    def _update(self, module: torch.nn.Module) -> None:
        self.__dict__.pop("_places", None)
        self.__dict__.pop("_sizes", None)
        super()._update(module)


def block_place(block: Envoy) -> str:
    return f"model.layers[{block.path.rsplit('.', 1)[-1]}]"


def host_classes(family: Family) -> dict[str, type[Host]]:
    """Host name to envoy class, with a `Value` for every name of the vocabulary."""
    return {host: host_class(host, family, Host) for host in PATHS if host in family.values}


def host_class(host: str, family: Family, base: type) -> Any:
    """A subclass of `base` carrying the host's values."""
    values = {
        name: Value(name, spec, family.axes(spec), family.pattern(spec)) for name, spec in family.values[host].items()
    }
    return type(f"{host.title().replace('_', '')}Host", (base,), {**values, "host_name": host, "family": family})


def renames(family: Family) -> dict[str, str]:
    """The family's names as nnsight aliases: native path to standard path, from the host's parent."""
    native_hosts = {standard: native for native, standard in family.names.get("layers", {}).items()}
    aliases: dict[str, str] = {}
    for host, table in family.names.items():
        prefix = "" if host in ("model", "layers") else f"{native_hosts.get(host, host)}."
        aliases.update({f"{prefix}{native}": f"{prefix}{standard}" for native, standard in table.items()})
    return aliases


def axis_sizes(family: Family, module: torch.nn.Module | None, config: Any) -> dict[str, int]:
    """Every axis length that the module or the config gives, by the family's size formulas."""
    sizes = {axis: size(texts, module, config) for axis, texts in family.sizes.items()}
    return {axis: length for axis, length in sizes.items() if length is not None}


def size(texts: list[str], module: torch.nn.Module | None, config: Any) -> int | None:
    """The first formula that gives an integer; `None` when none does."""
    roots = {"module": module, "config": config}

    def lookup(name: str) -> Any:
        value: Any = roots
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
            if value is None:
                raise LookupError(name)
        return value

    for text in texts:
        try:
            answer = formula.evaluate(formula.parse(text).left, lookup)
        except (LookupError, TypeError, NnpediaError):
            continue
        if isinstance(answer, int) and not isinstance(answer, bool):
            return answer
    return None
