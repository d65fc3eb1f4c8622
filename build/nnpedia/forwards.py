"""Forwards: the operations inside a forward that a family's values are read at, and only those.

nnsight brackets every call and assignment of a forward that it opens, which in a small model costs
more than the values do. A spec says at which operations it reads, so those are bracketed here and the
others stay as they were written. Whoever asks a trace for `.source` gets nnsight's own, with everything.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from nnsight.intervention import source as nn
from nnsight.intervention.interleaver import Mediator
from nnsight.intervention.source import Compiled, Source, SourceNotAvailable

from nnpedia.errors import AddressError

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer
    from nnpedia.values import Value


#: Operations one inside the other, from the forward inwards.
Chain = tuple[str, ...]


class Bracket(nn.Instrument):
    """nnsight's rewriting of a forward, with all operations numbered and only the wanted ones bracketed."""

    def __init__(self, wanted: frozenset[str]) -> None:
        super().__init__()
        self.wanted = wanted

    def wrap(
        self, name: str, fn: ast.expr, args: list[Any], keywords: list[Any], node: ast.AST
    ) -> ast.expr:  # the name and the arguments are nnsight's
        made = super().wrap(name, fn, args, keywords, node)
        if self.names[-1] in self.wanted:
            return made
        if isinstance(fn, ast.Name) and fn.id == nn.BIND:
            return args[0]
        return ast.copy_location(ast.Call(func=fn, args=args, keywords=keywords), node)


@lru_cache(maxsize=256)
def _compiler(wanted: frozenset[str]) -> Callable[[Callable[..., Any]], Compiled]:
    """nnsight's compiler of a forward, rewriting with `Bracket`; each forward once."""
    rewriting = {**vars(nn), "Instrument": partial(Bracket, wanted)}
    compile_source = FunctionType(nn.compile_source.__code__, rewriting)
    known: dict[CodeType, Compiled] = {}

    def compiled(function: Any) -> Compiled:
        code = getattr(function, "__code__", None)
        if code is None:
            raise SourceNotAvailable("a builtin or C function has no Python source")
        if code not in known:
            known[code] = compile_source(function)
        return known[code]

    return compiled


def bracketed(
    function: Callable[..., Any], operation: Callable[..., Any], wanted: frozenset[str]
) -> tuple[Callable[..., Any], Compiled]:
    """`function` calling `operation` at the wanted operations; raises `SourceNotAvailable` as nnsight does."""
    instrument = FunctionType(nn.instrument.__code__, {**vars(nn), "compiled": _compiler(wanted)})
    made: tuple[Callable[..., Any], Compiled] = instrument(function, operation)
    return made


@dataclass(frozen=True)
class Opened:
    """A module's forward as it now runs, and the operations bracketed in it."""

    body: Callable[..., Any]
    compiled: Compiled
    wanted: frozenset[str]


# Not on the module: a copy or a pickle of it must not carry a code object along.
_OPENED: WeakKeyDictionary[torch.nn.Module, Opened] = WeakKeyDictionary()


def opened(envoy: Any, wanted: frozenset[str] = frozenset()) -> Source:
    """The operations of an envoy's forward, with at least the wanted ones served from its next call on.

    Raises nnsight's `SourceNotAvailable` for a forward without Python source.
    """
    state = nn.install_controller(envoy)
    if state.sourced:  # nnsight has opened it: everything is bracketed
        return Source(envoy, envoy.path, state.compiled)
    known = _OPENED.get(envoy._module)
    if known is None or state.body is not known.body or not wanted <= known.wanted:
        wanted |= frozenset() if known is None else known.wanted
        operation = nn.make_op(lambda: state.active()[:2])
        state.body, compiled = bracketed(state.original, operation, wanted)
        known = _OPENED[envoy._module] = Opened(state.body, compiled, wanted)
    return Source(envoy, envoy.path, known.compiled)


def inside(node: Any, wanted: frozenset[str] | None) -> Source:
    """The operations inside the function that an operation calls, waited for; `None` wants them all.

    Raises nnsight's `SourceNotAvailable` where there is no Python function.
    """
    sourced = node.envoy.interleaver.sourced
    if wanted is None or sourced.get(node.path) is not None:
        return node.source
    sourced[node.path] = None
    function = Mediator.value(f"{node.path}.fn")
    if isinstance(function, torch.nn.Module) or function is nn.bind:
        raise SourceNotAvailable(f"{node.name!r} calls no function of its own")
    if sourced[node.path] is None:
        sourced[node.path] = _inside_again(node, function, wanted)
    return Source(node.envoy, node.path, sourced[node.path][1])


def _inside_again(node: Any, function: Any, wanted: frozenset[str]) -> tuple[Any, Compiled]:
    """The bracketed function; as an earlier run made it where that called the same plain one."""
    kept = node.envoy.__dict__.setdefault("_inside", {})
    called, before, made = kept.get(node.path, (None, None, None))
    if called is function and before == wanted:
        return made
    interleaver, path = node.envoy.interleaver, node.path
    operation = nn.make_op(lambda: (interleaver, path) if interleaver.interleaving else (None, None))
    made = bracketed(function, operation, wanted)
    if isinstance(function, FunctionType) and function.__closure__ is None:  # it holds no tensor of this run
        kept[path] = (function, wanted, made)
    return made


# -- what a family reads at ---------------------------------------------------------------------


@dataclass
class Forwards:
    """The forwards that values are read inside of: by module path the envoy, and the chains of operations there."""

    envoys: dict[str, Any] = field(default_factory=dict)
    chains: dict[str, set[Chain]] = field(default_factory=dict)
    whole: bool = False

    def wanted(self, path: str, above: Chain = ()) -> frozenset[str] | None:
        """The operations that values want of a forward, inside those of `above`; `None` stands for all of them."""
        if self.whole or path not in self.chains:
            return None
        depth = len(above)
        return frozenset(chain[depth] for chain in self.chains[path] if chain[:depth] == above and len(chain) > depth)

    def open(self, code: Iterable[CodeType]) -> None:
        """Before a run of these traces: if one of them asks for `.source`, everything is to be served."""
        self.whole = any(map(asks_for_source, code))
        if self.whole:
            for envoy in self.envoys.values():
                with contextlib.suppress(SourceNotAvailable):
                    _ = envoy.source


def open_forwards(model: StandardizedTransformer) -> Forwards:
    """Make the operations that values are read at visible, before a forward that has begun hides them."""
    forwards = Forwards()
    read_by_code: set[str] = set()
    for host, value in _values(model):
        if value.spec.reader is not None and host is not model:
            read_by_code.add(host.start.path)  # a reader's places are in its code
            forwards.envoys[host.start.path] = host.start
        for each in (value, value.decoded, *value.by_class.values()):
            if each is not None and each.address is not None and each.address.operations:
                with contextlib.suppress(AddressError):  # this block has no such place; asking for the value says why
                    envoy = each.descend(host)
                    forwards.envoys[envoy.path] = envoy
                    forwards.chains.setdefault(envoy.path, set()).add(each.address.operations)
    for path, envoy in forwards.envoys.items():
        with contextlib.suppress(SourceNotAvailable):
            if path in read_by_code:
                forwards.chains.pop(path, None)
                _ = envoy.source
            else:
                opened(envoy, forwards.wanted(path) or frozenset())
    return forwards


def _values(model: StandardizedTransformer) -> Iterator[tuple[Any, Value]]:
    """Every host of the model with each of its values."""
    from nnpedia.hosts import PATHS
    from nnpedia.observe import host_at

    blocks = [(layer, name) for layer in range(model.num_layers) for name in PATHS if name in model.family.values]
    for layer, name in [(None, "model"), *blocks]:
        host = host_at(model, layer, name)
        if host is not None:
            yield from ((host, getattr(type(host), value)) for value in model.family.values[name])


@lru_cache(maxsize=4096)
def asks_for_source(code: CodeType) -> bool:
    """Whether a trace's code speaks of `.source`."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return "source" in code.co_names or any(asks_for_source(each) for each in inner)
