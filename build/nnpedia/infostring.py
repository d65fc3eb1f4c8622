"""Info strings: what stands after the fence of a block of Python, and what each option says.

`python`, then options separated by blanks.

    continues                     the previous runnable fence's names are in scope, same model
    on=NAME                       what to run on, instead of the first runnable checkpoint
    attn_implementation=eager     how to load the model; also experts_implementation
    network                       it may open sockets; no other snippet may
    since=5.23, until=5.24        the releases of transformers it runs on; on others it is shown and not run
    norun="reason"                shown and not run
"""

from __future__ import annotations

import re

from nnpedia.errors import nearest
from nnpedia.versions import MOVES, RELEASE, Span, installed, release

LOAD_OPTIONS = {
    "attn_implementation": ("eager", "sdpa"),
    "experts_implementation": ("eager", "batched_mm", "grouped_mm"),
}
FLAGS = ("continues", "network")
SPAN = ("since", "until")
OPTIONS = ("continues", "on", *LOAD_OPTIONS, "network", *SPAN, "norun")
INHERITED = frozenset(("on", "network", *LOAD_OPTIONS))  # what a fence has of the one it continues

_OPTION = re.compile(r"\s*(?P<key>[^\s=]+)(?:=(?P<value>\"[^\"]*\"|'[^']*'|\S*))?")


def elsewhere(span: Span | None) -> str | None:
    """Why a fence told for some releases does not run on the one installed; `None` when it does."""
    if span is None or span.holds(installed(MOVES)):
        return None
    return f"it is told for {MOVES} {span.words()}, and {installed(MOVES)} is installed"


def parse(text: str) -> dict[str, str]:
    """Parse an info string's options; a `ValueError` says what is wrong with them."""
    options: dict[str, str] = {}
    for match in _OPTION.finditer(text.strip()):
        key, value = match["key"], match["value"]
        if key not in OPTIONS:
            known = nearest(key, OPTIONS) or f"; the options are {', '.join(OPTIONS)}"
            raise ValueError(f"unknown option {key!r}{known}")
        if key in options:
            raise ValueError(f"option {key!r} is given twice")
        if key in FLAGS and value is not None:
            raise ValueError(f"option {key!r} takes no value")
        plain = (value or "").strip("\"'").strip()
        if key not in FLAGS and not plain:
            raise ValueError(
                'norun needs its reason: norun="why it is not run"' if key == "norun" else f"{key} needs a value"
            )
        if key in LOAD_OPTIONS and plain not in LOAD_OPTIONS[key]:
            choices = LOAD_OPTIONS[key]
            raise ValueError(f"{key} is {' or '.join(choices)}, not {plain!r}{nearest(plain, choices)}")
        if key in SPAN and not re.match(RELEASE, plain):
            raise ValueError(f"{key} is a release of {MOVES}, such as 5.24, not {plain!r}")
        options[key] = plain
    if "since" in options and "until" in options and release(options["since"]) >= release(options["until"]):
        raise ValueError(f"since {options['since']} is not before until {options['until']}")
    return options
