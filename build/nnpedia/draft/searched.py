"""Searched recurrences: where the values of a recurrence are read, and in which order, as a spec says them."""

from __future__ import annotations

from nnpedia.draft.candidates import host_path
from nnpedia.draft.places import Finder, Place
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.recurring import HEADS, Recurrence, is_kept
from nnpedia.draft.sighting import Kind, Sighting
from nnpedia.entryspec import DecodePlace
from nnpedia.vocabulary import ValueSpec

#: The values that are read from the forward, not worked out from the others.
READ = ("queries", "keys", "values", "betas", "decays", "head_outputs", "state_output")
MOST = 4  # places of one value that are tried


def specs_of(seen: Sighting, kind: Kind, found: Recurrence) -> tuple[dict[str, list[ValueSpec]], list[str]] | None:
    """For each recurrent value the specs to try, best first, and the values in the order the forward reaches them.

    `None` where no address says a value's place.
    """
    path = host_path(kind, "linear_attn")
    table = seen.vocabulary.values["linear_attn"]
    if path is None:
        return None
    specs: dict[str, list[ValueSpec]] = {}
    when: dict[str, int] = {}
    finder = Finder(seen.first, path, kind.block.path, seen.names.paths)
    for name in READ:
        layout = layout_of(seen, found, name)
        places = _places(seen.first, finder, name, found, seen.vocabulary.axes_of(layout))
        if not places:
            return None
        when[name] = places[0][0].order
        specs[name] = [
            table[name].model_copy(
                update={
                    "layout": layout,
                    "at": place.at,
                    "native": place.native,
                    "copies": place.copies,
                    "reader": None,
                    # the place of a step of one token is not looked for; the vocabulary's may have another layout
                    "decode": DecodePlace(at=place.at, native=place.native) if table[name].decode else None,
                }
            )
            for _, place in places[:MOST]
        ]
    for name, reader in (("states", found.reader), ("state_input", table["state_input"].reader)):
        layout = layout_of(seen, found, name)
        specs[name] = [table[name].model_copy(update={"layout": layout, "reader": reader, "at": None})]
    return specs, _order(list(table), when)


def layout_of(seen: Sighting, found: Recurrence, name: str) -> str:
    """The layout of a value: the one it was seen in, or the vocabulary's."""
    if name in found.layouts:
        return found.layouts[name]
    if name in ("queries", "keys"):
        return "HeadKeys" if found.sizes["groups"] == found.sizes["state_heads"] else "StateKeys"
    return HEADS.get(name) or seen.vocabulary.values["linear_attn"][name].layout


def _places(
    recording: Recording, finder: Finder, name: str, found: Recurrence, axes: tuple[str, ...]
) -> list[tuple[Event, Place]]:
    """Places that hold a value, those where an edit reaches all that reads it first."""
    kernels = {(event.module, event.operations[0]) for event in recording.places.values() if len(event.operations) > 1}

    def rank(one: tuple[Event, Place]) -> tuple[int, int, int]:
        event = one[0]
        kernel = (event.module, event.operations[0]) in kernels and len(event.operations) == 1
        entering = kernel and event.access in ("input", "args", "kwargs") and name != "head_outputs"
        leaving = event.access == "output" and (kernel or len(event.operations) > 1 or name != "head_outputs")
        order = event.order if name == "head_outputs" else -event.order
        return (0 if entering else 1 if leaving else 2, len(event.operations), order)

    places = [
        (event, place)
        for event, place in finder.places(found.targets[name], axes)
        if event.operations
        and (is_kept(event) if name == "state_output" else not event.operations[0].startswith("cache"))
    ]
    return sorted(places, key=rank)


def _order(names: list[str], when: dict[str, int]) -> list[str]:
    """The table's values with those that are read from the forward in the order it reaches them."""
    entering = sorted((name for name in READ[:5]), key=lambda name: (when[name], names.index(name)))
    rest = [name for name in names if name not in entering]
    start = rest.index("state_input") + 1
    return [*rest[:start], *entering, *rest[start:]]
