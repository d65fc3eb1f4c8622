"""Locating: where in the forward a value is found, and why it is not where it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnsight.intervention.source import STATE, SourceNotAvailable
from torch import Tensor

from nnpedia.address import Address, parse
from nnpedia.containers import keys_of
from nnpedia.entryspec import ValueSpec
from nnpedia.errors import AddressError, Unavailable, nearest
from nnpedia.forwards import opened
from nnpedia.holding import find_child
from nnpedia.steps import catch_up, drilled
from nnpedia.versions import under

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting


class Located(property):
    """A value as far as it is a place: the address of its spec, followed on a live model."""

    #: Whether every call of the host reaches the place.
    always = True
    address: Address | None

    def __init__(self, name: str, spec: ValueSpec) -> None:
        super().__init__()
        self.name, self.spec = name, spec
        self.address = None if spec.at is None else parse(spec.at)
        #: Whether it is all that a call gives.
        self.whole = self.address is not None and self.address.access == "output" and not self.address.index
        #: Whether some families or loads are without it.
        self.conditional = spec.absent is not None or bool(spec.needs)

    def check_declared(self, host: Hosting) -> None:
        """Raise `Unavailable` where the spec already says this block or load has no such value."""
        if self.spec.absent is not None:
            raise Unavailable(self.name, self.spec.absent, where=host.place)
        if not self.spec.needs or host.root.probing:
            return
        for option, choices in self.spec.needs.items():
            chosen = host.root.load_option(option)
            if chosen is not None and chosen not in choices:
                self._check_built(host)
                raise Unavailable(
                    self.name, f"{option} {chosen!r} does not compute it", {option: choices[0]}, where=host.place
                )

    def _check_built(self, host: Hosting) -> None:
        """Raise `Unavailable` where the block lacks the module of the value, which no load would give it."""
        if self.address is None:
            return
        try:
            self.descend(host)
        except AddressError as error:
            raise host.not_on_this_block(self.name, str(error)) from None

    @property
    def _address(self) -> Address:
        assert self.address is not None
        return self.address

    def locate(self, host: Hosting) -> str:
        """The nnsight location of the value, such as `model.model.layers.1.mlp.experts.input`."""
        known = host.places.get(self)
        if known is not None:
            return known
        address = self._address
        try:
            envoy = self.descend(host)
        except AddressError as error:
            raise host.not_on_this_block(self.name, str(error)) from None
        path, around = envoy.path, envoy.path
        if address.operations:
            try:
                chain = address.operations
                node: Any = self._outermost(host, envoy, chain[0])
                outer = node
                for depth, operation in enumerate(chain[1:], 1):
                    wanted = host.root.forwards.wanted(envoy.path, chain[:depth])
                    node, around = _operation(drilled(host, node, wanted), operation), node.path
                path = node.path
            except SourceNotAvailable as error:
                raise Unavailable(self.name, str(error), self._other_load(host), where=host.place) from None
            except AddressError as error:
                if not host.holds(self.name):
                    raise host.not_on_this_block(self.name, error.message) from None
                load = self._other_load(host)
                why = error.message if load else f"{error.message} ({under(host.family.vocabulary.versions)})"
                raise Unavailable(self.name, why, load, where=host.place) from None
        location = f"{path}.{'output' if address.access == 'output' else 'input'}"
        if address.operations:
            catch_up(location, around)
        # A nested operation is instrumented anew in every run, and one that some calls pass by is counted anew.
        if self.always and len(address.operations) < 2:
            host.places[self] = location
        elif self.always and len(address.operations) == 2:
            host.inner[self] = (location, outer)
        return location

    def foreseen(self, host: Hosting) -> tuple[str, Any] | None:
        """The location as an earlier run found it, and the operation in whose function it lies, if it does."""
        if self in host.places:
            return host.places[self], None
        location, outer = host.inner.get(self, ("", None))
        if outer is None or self._outermost(host, self.descend(host), self._address.operations[0]) is not outer:
            return None
        return location, outer

    def _outermost(self, host: Hosting, envoy: Any, operation: str) -> Any:
        """The operation in the forward of the module; as it was found before, for as long as that runs as it did."""
        here = envoy._module.__dict__
        state = here.get(STATE)
        body, routes, node = host.outermost.get(self, (None, None, None))
        if node is None or state is None or body is not state.body or routes is not state.routes:
            node = _operation(opened(envoy, frozenset([operation])), operation)
            state = here[STATE]
            host.outermost[self] = (state.body, state.routes, node)
        return node

    def descend(self, host: Hosting) -> Any:
        """The envoy whose call or forward the address is about; raises `AddressError` naming the children there."""
        envoy = host.origin(self._address.anchor)
        for child in self._address.children:
            envoy = find_child(envoy, child)
        return envoy

    def _other_load(self, host: Hosting) -> dict[str, str]:
        options = host.root.load_options()
        return {option: choices[0] for option, choices in self.spec.needs.items() if options.get(option) not in choices}

    def take(self, host: Hosting, raw: Any) -> Tensor:
        """The tensor of the value in a call's raw inputs or output; raises `Unavailable` for anything else there."""
        element = raw
        for key in keys_of(self._address, raw):
            if isinstance(
                element, Tensor
            ):  # a tensor where the address expects a tuple: its first row is not the value
                raise Unavailable(self.name, f"{self._address} points into a tensor, not a tuple", where=host.place)
            try:
                element = element[key]
            except (KeyError, IndexError, TypeError):
                raise Unavailable(
                    self.name, f"nothing is at {self._address} in this call", self._other_load(host), where=host.place
                ) from None
        if not isinstance(element, Tensor):
            kind = type(element).__name__
            raise Unavailable(
                self.name, f"{self._address} holds a {kind}, not a tensor", self._other_load(host), where=host.place
            )
        return element


def _operation(source: Any, name: str) -> Any:
    if name not in source.names:
        there = ", ".join(source.names) or "none"
        hint = nearest(name, source.names)
        raise AddressError(
            f"there is no operation {name!r} inside {source.prefix}{hint}; the operations there are {there}"
        )
    return source.node(name)
