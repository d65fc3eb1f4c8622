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
from functools import lru_cache
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from nnsight.intervention import source as nn
from nnsight.intervention.source import Compiled, Source, SourceNotAvailable

from nnpedia.errors import AddressError
from nnpedia.handoffs import operation

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


#: What a rewritten forward calls: variables of its own, so that all modules of a class share their globals.
CALLED = (nn.OP, nn.BIND)


@lru_cache(maxsize=1024)
def _compiled(code: CodeType, wanted: frozenset[str]) -> Compiled:
    """A function's code rewritten with `Bracket`, inside a shell that makes its free variables and `CALLED` free."""
    tree, start, source = nn.source_tree(code)
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise SourceNotAvailable("callable is not a plain function")
    definition.decorator_list = []  # whoever calls this has taken them off, and puts them back
    rewriting = Bracket(wanted)
    rewriting.visit(tree)
    arguments = ast.parse(f"def {nn.SHELL}({', '.join((*code.co_freevars, *CALLED))}): pass").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    arguments.body = [definition]
    tree.body[0] = ast.copy_location(arguments, definition)
    ast.increment_lineno(tree, start - 1)
    ast.fix_missing_locations(tree)
    shell = _code_in(compile(tree, code.co_filename, "exec"), nn.SHELL)
    return Compiled(_code_in(shell, code.co_name), tuple(rewriting.names), rewriting.lines, source)


def _code_in(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


def bracketed(
    function: Callable[..., Any],
    call: Callable[..., Any],
    wanted: frozenset[str],
    peel: Callable[[Any], tuple[Any, Any]] = nn.decorator_chain,
) -> tuple[Callable[..., Any], Compiled]:
    """`function` calling `call` at the wanted operations; raises `SourceNotAvailable` as nnsight does."""
    called: Any = getattr(type(function), "__call__", None)  # noqa: B004 (its code is wanted)
    if isinstance(called, FunctionType):  # an object that is called
        function = called.__get__(function)
    receiver = function.__self__ if isinstance(function, MethodType) else None
    inner, decorators = peel(function.__func__ if isinstance(function, MethodType) else function)
    if not isinstance(inner, FunctionType):
        raise SourceNotAvailable("a builtin or C function has no Python source")
    compiled = _compiled(inner.__code__, wanted)
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True))
    cells |= {nn.OP: CellType(call), nn.BIND: CellType(nn.bind)}
    closure = tuple(cells[name] for name in compiled.code.co_freevars)
    made = FunctionType(compiled.code, inner.__globals__, inner.__name__, inner.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = inner.__kwdefaults__, inner.__qualname__
    built = nn.rewrap(decorators, made)
    return (built if receiver is None else built.__get__(receiver)), compiled


@lru_cache(maxsize=1024)
def _of_class(method: Callable[..., Any]) -> tuple[Any, Any]:
    """nnsight's `decorator_chain`, which reads the source of every decorator, once for all modules of a class."""
    return nn.decorator_chain(method)


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
    state = _state(envoy)
    if state.sourced:  # nnsight has opened it: everything is bracketed
        return Source(envoy, envoy.path, state.compiled)
    known = _OPENED.get(envoy._module)
    if known is None or state.body is not known.body or not wanted <= known.wanted:
        wanted |= frozenset() if known is None else known.wanted
        shown = operation(lambda: state.active()[:2], state)
        shared = getattr(type(envoy._module), "forward", None) is state.original
        peel = _of_class if shared else nn.decorator_chain  # what no class holds is not held here either
        state.body, compiled = bracketed(state.original, shown, wanted, peel)
        known = _OPENED[envoy._module] = Opened(state.body, compiled, wanted)
    return Source(envoy, envoy.path, known.compiled)


def runs_as_opened(envoy: Any) -> bool:
    """Whether what runs in an envoy's call is what `opened` made of its forward, and not what nnsight has since."""
    state, known = envoy._module.__dict__.get(nn.STATE), _OPENED.get(envoy._module)
    return state is not None and known is not None and state.body is known.body


def _state(envoy: Any) -> Any:
    """nnsight's state of an envoy's module; put there only where it is missing, as each time moves its routes."""
    here = envoy._module.__dict__
    state = here.get(nn.STATE)
    if state is None or not isinstance(here.get("forward"), nn.Controller):
        return nn.install_controller(envoy)
    known = any(reference() is envoy.interleaver for reference, *_ in state.routes)
    return state if known else nn.install_controller(envoy)


def inside(node: Any, wanted: frozenset[str] | None, ask: Callable[[str], Any]) -> Source:
    """The operations inside the function that an operation calls, which is asked for; `None` wants them all.

    Raises nnsight's `SourceNotAvailable` where there is no Python function.
    """
    sourced = node.envoy.interleaver.sourced
    if sourced.get(node.path) is None:
        sourced[node.path] = None
        function = ask(f"{node.path}.fn")
        if isinstance(function, torch.nn.Module) or function is nn.bind:
            raise SourceNotAvailable(f"{node.name!r} calls no function of its own")
        if sourced[node.path] is None:
            sourced[node.path] = inside_again(node, function, wanted)
    return Source(node.envoy, node.path, sourced[node.path][1])


def inside_again(node: Any, function: Any, wanted: frozenset[str] | None) -> tuple[Any, Compiled]:
    """The bracketed function; as an earlier run made it where that called the same plain one."""
    kept = node.envoy.__dict__.setdefault("_inside", {})
    called, before, made = kept.get(node.path, (None, None, None))
    if called is function and before == wanted:
        return made
    interleaver, path = node.envoy.interleaver, node.path
    shown = operation(lambda: (interleaver, path) if interleaver.interleaving else (None, None))
    made = nn.instrument(function, shown) if wanted is None else bracketed(function, shown, wanted)
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
    from nnpedia.holding import PATHS
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
