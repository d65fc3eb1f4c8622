"""Handoffs: what every module and every bracketed operation does in each call besides its own work.

nnsight shows the interleaver a call's inputs, a gate to skip it and its output, each through functions of
its own. Few calls of a run have anybody waiting (`nnpedia.spots`), and those are shown that way; the
others only count that they went by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from nnsight.intervention.source import STATE, Controller, run_op

from nnpedia.spots import Spot, Watching


class Handoff(Spot, Controller):
    """nnsight's controller, with a short way through a call that nobody looks at."""

    __slots__ = ("module_ref", "routes", "state")

    def __init__(self, module: Any, state: Any) -> None:
        Spot.__init__(self)
        Controller.__init__(self, module, state)
        self.routes: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.state
        if state.routes is not self.routes and not self.look():
            return Controller.__call__(self, *args, **kwargs)
        if not self.live.on:
            return state.body(self.module_ref(), *args, **kwargs)
        if self.before:
            return Controller.__call__(self, *args, **kwargs)
        self.entered += 1
        output = state.body(self.module_ref(), *args, **kwargs)
        if self.after:  # since before the call, or since something within it
            if self.gathers is None:
                return self.routes[0][0]().handle(self.places[2], output)
            self.gathers.append(output)
        self.left += 1
        return output

    def look(self) -> bool:
        """Note where the module's calls are shown; false for one that several trees share, or that is moved about.

        nnsight makes a new list of routes with every change.
        """
        module, routes = self.module_ref(), self.state.routes
        watching = routes[0][0]() if len(routes) == 1 else None
        if not isinstance(watching, Watching) or "_hf_hook" in module.__dict__:
            self.routes = None
            return False
        self.routes, self.places = routes, routes[0][2]
        watching.watch(self)
        return True


class Site(Spot):
    """An operation inside a forward."""

    __slots__ = ("base", "drilled", "inside", "routes")

    def __init__(self, base: str) -> None:
        super().__init__((f"{base}.input", f"{base}.skip", f"{base}.output"))
        self.base, self.drilled = base, False
        #: What makes the function to run in the place of the one that is called, where what it gives is gathered.
        self.inside: Callable[[Any], Any] | None = None
        self.routes: Any = None

    def function(self, interleaver: Watching, fn: Callable[..., Any]) -> Callable[..., Any]:
        """What runs in the place of `fn` where somebody reads inside of it; else `fn` itself."""
        if self.base in interleaver.sourced:
            interleaver.handle(f"{self.base}.fn", fn)  # whoever waits for it makes the other one
        made = interleaver.sourced.get(self.base)
        if made is None and self.inside is not None:
            made = interleaver.sourced[self.base] = self.inside(fn)
        self.drilled = made is not None
        return fn if made is None else made[0]


class Unshared:
    """What a function that an operation calls has for a state: nothing but the one run it is called in."""

    routes = None


def operation(locate: Callable[[], tuple[Any, Any]], owner: Any = Unshared) -> Callable[..., Any]:
    """nnsight's `make_op`, with the same short way: what an instrumented forward calls at each operation.

    `locate` answers which interleaver is running, and under what path the forward is known there; `owner` is the
    state of the module whose forward it is.
    """
    sites: dict[str, Site] = {}

    def call(location: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        site = sites.get(location)
        if site is None or site.routes is not owner.routes:
            interleaver, path = locate()
            if interleaver is None:
                return fn(*args, **kwargs)
            if not isinstance(interleaver, Watching) or (owner.routes is not None and len(owner.routes) > 1):
                sites.pop(location, None)
                return run_op(interleaver, f"{path}.{location}", fn, args, kwargs)
            site = sites[location] = site_of(interleaver, f"{path}.{location}")
            site.routes = owner.routes
        if not site.live.on:
            return fn(*args, **kwargs)
        if site.before:
            interleaver = locate()[0]
            value = run_op(interleaver, site.base, fn, args, kwargs)
            site.drilled = site.base in interleaver.sourced  # from now on its function is another one in this run
            return value
        if site.within or site.drilled:
            fn = site.function(locate()[0], fn)
        site.entered += 1
        value = fn(*args, **kwargs)
        if site.after:
            if site.gathers is None:
                return locate()[0].handle(site.places[2], value)
            site.gathers.append(value)
        site.left += 1
        return value

    return call


def site_of(interleaver: Watching, base: str) -> Site:
    """The site of an operation, one and the same for every rewriting of its forward."""
    site = interleaver.spots.get(f"{base}.output")
    if not isinstance(site, Site):
        site = Site(base)
        interleaver.watch(site, f"{base}.fn")
    return site


def shorten(root: torch.nn.Module) -> None:
    """Put a `Handoff` where nnsight has its own controller, on every module of a tree."""
    for module in root.modules():
        here = module.__dict__
        if type(here.get("forward")) is Controller:
            here["forward"] = Handoff(module, here[STATE])
