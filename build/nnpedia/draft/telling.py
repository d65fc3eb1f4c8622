"""Telling: what was measured of a model beside the family it extends, for an author to begin from."""

from __future__ import annotations

import inspect
import re
from typing import Any

from nnpedia.draft.proving import Draft


def subtitle_of(draft: Draft) -> str:
    """One sentence: the family it is as, and the badges that are other ones."""
    if draft.base is None:
        return "Drafted from a live model; what sets it apart is not written yet."
    more, less = differing_badges(draft)
    parts = [f"with {_listed(more)}" if more else "", f"without {_listed(less)}" if less else ""]
    told = ", ".join(part for part in parts if part) or "with the same badges"
    return f"Drafted, to be put into words: as {draft.base.family}, {told}."


def about_of(draft: Draft) -> str:
    """What the page says of the spec, told from the draft: the tree, and each difference that was measured."""
    around = draft.seen.containers
    lines = [
        f"{draft.subject.architecture} keeps its blocks under `{around.layers}` and its token embedding at "
        f"`{around.embedding}`. The places below were found by what flows and are proven on a small forged checkpoint."
    ]
    facts = [*_blocks(draft), *_settings(draft), *_names(draft), *_laws(draft)]
    if facts:
        beside = "" if draft.base is None else f" beside {draft.base.family}"
        lines += ["", f"Measured{beside}:", "", *(f"- {fact}" for fact in facts)]
    if draft.todo:
        lines += ["", "Not worked out yet: " + ", ".join(name for _, name in draft.todo) + "."]
    return "\n".join(lines) + "\n"


def differing_badges(draft: Draft) -> tuple[list[str], list[str]]:
    """The badges that the draft has and its base has not, and the other way round, in words."""
    known = set(draft.base.badges) if draft.base else set()
    own = set(draft.badges)
    return [_words(one) for one in draft.badges if one not in known], [_words(one) for one in sorted(known - own)]


def _words(badge: str) -> str:
    return badge.replace("-", " ")


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _blocks(draft: Draft) -> list[str]:
    """How each kind of block adds to the stream, and which of its norms stand where."""
    shapes = {
        "sequential": "one sublayer after the other",
        "parallel": "both sublayers at once",
        "single": "one sublayer",
    }
    told = []
    for kind in draft.seen.kinds:
        block = kind.block
        what = f"{shapes.get(block.shape, 'what was not told apart')} in blocks such as {kind.layers[0]}"
        norms = [
            f"{part.role} {'normed before' if part.norm else 'not normed before'}"
            f"{' and normed after' if part.after else ''}"
            for part in block.sublayers
        ]
        passing = f"; the stream passes {_listed(list(block.sums))} after each sum" if block.sums else ""
        passing += f"; `{block.scale}` scales what leaves the block" if block.scale else ""
        told.append(f"{what}: {', '.join(norms) or block.why}{passing}")
    return list(dict.fromkeys(told))


def _settings(draft: Draft) -> list[str]:
    """Numbers of the config at full size that change the arithmetic."""
    given: dict[str, Any] = draft.subject.config.to_dict()
    window = given.get("sliding_window")
    told = [f"`sliding_window` is {window}"] if window and "sliding-window" in draft.badges else []
    told += [
        f"`{key}` is null here, and the attention's forward reads it: what it does as a number is not seen (todo)"
        for key in _null_settings(draft)
    ]
    scales = {one.at.place.scale for one in draft.said.values() if one.at is not None and one.at.place.scale}
    return told + [f"a contribution is scaled by `{scale}`" for scale in sorted(scales)]


def _null_settings(draft: Draft) -> list[str]:
    """Settings that are null and that an attention's own forward asks for, such as a bound that clips."""
    given = draft.seen.trial.config.to_dict()
    read: dict[str, None] = {}
    for kind in draft.seen.kinds:
        part = kind.block.of("attention")
        if part is None or part.virtual:
            continue
        try:
            source = inspect.getsource(type(draft.seen.trial.model.get_submodule(part.host)).forward)
        except (OSError, TypeError):
            continue
        asked = re.findall(r"self\.(?:config\.)?(\w+)", source)
        read |= dict.fromkeys(key for key in asked if key in given and given[key] is None)
    return list(read)


def _names(draft: Draft) -> list[str]:
    return [
        f"in {host}, {_listed([f'`{native}` is `{name}`' for native, name in table.items()])}"
        for host, table in draft.spec.get("names", {}).items()
    ]


def _laws(draft: Draft) -> list[str]:
    return [
        f"{name}: `{law['formula']}`"
        for table in draft.spec.get("laws", {}).values()
        for name, law in table.items()
        if "formula" in law
    ]
