"""Spots: who waits where in a run, and how often each place was reached.

nnsight looks a place up in three tables whenever a call goes by it, and writes down the visit in a fourth. A
forward goes by a thousand places and few of them have anybody waiting. So here a place is told when
somebody begins to wait there, a visit that nobody looks at is counted where the call is made, and whoever asks
for a count gets the sum. What is served, and at which count, is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nnsight.intervention.interleaver import EarlyStopException, Event, Interleaver, Pending

Places = tuple[str, str, str]  # where a call's inputs, its gate and its output are shown


class Live:
    """Whether the visits of a run count just now: not between runs, nor in a call that trace code makes itself.

    Every call of a forward asks it, so it is one small object; and not the interleaver, which holds functions of
    the model that are bound to its weights.
    """

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


class Spot:
    """A call that somebody may wait at: before it (its inputs, its gate), within it (what it calls) or after it.

    `entered` and `left` are how often it went by in this run with nobody there. `gathers` is what its calls gave,
    where that is kept for somebody who waits at a later one (`nnpedia.gathering`); then `after` is set too. What a
    call touches has long left the processor's cache: hence the slots.
    """

    __slots__ = ("after", "before", "entered", "gathers", "left", "live", "places", "within")

    def __init__(self, places: Places = ("", "", "")) -> None:
        self.places = places
        self.live = Live()
        self.before = self.after = self.within = False
        self.gathers: list[Any] | None = None
        self.entered = self.left = 0


class Counts(dict[str, int]):
    """How often each place was reached in a run, the visits that only their spots counted among them."""

    def __init__(self, spots: dict[str, Spot], calls: dict[str, Spot]) -> None:
        super().__init__()
        self.spots, self.calls = spots, calls

    # What `super()` would take is asked for by name: these run with cold caches, several times for each value read.

    def get(self, place: str, default: Any = 0) -> Any:
        return self[place] or default

    def __getitem__(self, place: str) -> int:
        spot = self.spots.get(place)
        count = dict.get(self, place, 0)
        if spot is None or place not in spot.places:
            return count
        return count + (spot.left if place == spot.places[2] else spot.entered)

    def __setitem__(self, place: str, count: int) -> None:
        dict.__setitem__(self, place, count - self[place] + dict.get(self, place, 0))

    def visited(self, place: str) -> None:
        """Count one visit more."""
        dict.__setitem__(self, place, dict.get(self, place, 0) + 1)

    def keys(self) -> Any:
        """The places that were reached; of these a copy is made when trace code starts."""
        reached = [place for spot in self.calls.values() if spot.entered for place in spot.places]
        return dict.fromkeys([*super().keys(), *reached]).keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def clear(self) -> None:
        super().clear()
        for spot in self.calls.values():
            spot.entered = spot.left = 0


class Watching(Interleaver):
    """nnsight's interleaver, telling the spots where somebody waits."""

    counts: Counts
    fragments: Any

    def __init__(self, fragments: Any) -> None:
        self.live = Live()
        self.spots: dict[str, Spot] = {}  # by each of its places
        self.calls: dict[str, Spot] = {}  # by the last of them
        self.told: list[Spot] = []
        self.watched: set[Spot] = set()  # those that a cache keeps values of, in the whole of a run
        super().__init__(fragments)
        self.counts = Counts(self.spots, self.calls)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "parked":
            self.tell()
        elif name in ("interleaving", "busy"):
            self.live.on = self.__dict__.get("interleaving", False) and self.__dict__.get("busy", False)

    def tell(self) -> None:
        """Tell the spots whether a worker waits there now."""
        for spot in self.told:
            if spot not in self.watched:
                spot.before = spot.within = spot.after = False
        self.told = self._mark(self.parked)

    def handle(self, provider: str, value: Any) -> Any:
        """nnsight's `handle`, shorter where one worker is all there is to serve: a trace of one block, without edits.

        Every value that is read comes through here right after the weights of a block went through the processor's
        cache, so what it takes is the code and the tables it touches more than what it does with them.
        """
        mediators = self.mediators
        if len(mediators) != 1 or self.observers or self.defer_exceptions or self.fragments.enabled:
            return super().handle(provider, value)
        mediator = mediators[0]
        pending = before = mediator.pending
        if pending is not None and pending.provider == provider:
            try:
                reached = self.counts[provider] - mediator.counts_at_start.get(provider, 0)
                if pending.event is Event.VALUE and pending.iteration == reached:
                    if mediator.iteration:
                        mediator.iteration = None
                    pending = mediator.pending = mediator.switch(value)
                if pending is not None and pending.provider == provider:  # it assigns, or skips what comes next
                    value = mediator.handle(provider, value)
                    pending = mediator.pending
            except EarlyStopException:  # it ends what follows this place: the visit itself is finished first
                mediator.pending = None
                self._reindex_parked()
                self.counts.visited(provider)
                raise
            if pending is not before:
                self._moved(pending)
        self.counts.visited(provider)
        return value

    def _moved(self, pending: Pending | None) -> None:
        """Tell the spots where the only worker waits now."""
        here = self.__dict__
        for spot in self.told:
            spot.before = spot.within = spot.after = False
        here["parked"] = waits = set() if pending is None or pending.provider is None else {pending.provider}
        here["told"] = self._mark(waits)

    def _mark(self, places: Iterable[str]) -> list[Spot]:
        marked = []
        for place in places:
            spot = self.spots.get(place)
            if spot is not None:
                marked.append(spot)
                if place == spot.places[2]:
                    spot.after = True
                elif place in spot.places:
                    spot.before = True
                else:
                    spot.within = True
        return marked

    def watch(self, spot: Spot, *others: str) -> None:
        """Tell a spot from now on whether somebody waits at its places, or at others that belong to its call."""
        before = self.calls.get(spot.places[2])
        if before is not None and before is not spot:
            spot.entered, spot.left = before.entered, before.left
        spot.live = self.live
        self.calls[spot.places[2]] = spot
        places = (*spot.places, *others)
        self.spots.update(dict.fromkeys(places, spot))
        self.watched.update(self._mark(place for place in places if place in self.observers))
        self.told += self._mark(place for place in places if place in self.parked)

    def reindex(self) -> None:
        for spot in self.watched:
            spot.before = spot.within = spot.after = False
        self.watched = set()
        super().reindex()
        self.watched = set(self._mark(self.observers))

    def __enter__(self) -> Interleaver:
        if not self.interleaving and all(mediator.worker is None for mediator in self.mediators):
            self.counts.clear()  # workers count from where they start, and all of them start here
        return super().__enter__()
