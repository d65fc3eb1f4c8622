"""Errors: what went wrong, where, and what to do about it, in one sentence each.

Every error a user can cause derives from `NnpediaError`, which carries the place it is about
(`file:line` or a model path). The command line prints `str(error)` alone and exits with
`exit_code`; the library lets it propagate like any exception.

None of these derives from `AttributeError`: raised inside a property of an nnsight `Envoy`, an
`AttributeError` is taken for a missing attribute and its message is lost.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

LONGEST = 2000  # characters of a message: a name that a file gives may be of any length


class NnpediaError(Exception):
    """Something a user can mend. `str()` is one line, and names the place when there is one."""

    exit_code = 2

    def __init__(self, message: str, *, where: str | None = None) -> None:
        line = " ".join(message.split())
        half = LONGEST // 2  # what is wrong with a long name is said after it
        self.message = line if len(line) <= LONGEST else f"{line[:half]} … {line[-half:]}"
        self.where = where
        super().__init__(f"{where}: {self.message}" if where else self.message)


class SpecError(NnpediaError):
    """A YAML file that says something it cannot say: a bad key, value, address or reference."""


class AddressError(SpecError):
    """An address that does not parse, or that names something the model does not have."""


class CheckpointError(NnpediaError):
    """A checkpoint that is not there, cannot be fetched, or is refused (pickle, remote code, hash)."""


class UnknownFamily(NnpediaError):
    """A `model_type` no family folder describes."""


class ModelError(NnpediaError):
    """A wrong use of a live model."""


class UnknownKeyword(ModelError, TypeError):
    """A keyword that a load or a run does not take, with the nearest spelling. Also a `TypeError`, as Python's is."""


class NoSuchBlock(ModelError, IndexError):
    """A block that the model does not have; also an `IndexError`, which ends a loop over blocks by number."""


class PromptError(ModelError):
    """Something a model cannot be run on: no text and no ids, no tokens, or tokens that the model does not have."""


class PromptTooLong(PromptError, IndexError):
    """More tokens than the model has positions; also an `IndexError`, as torch's is. The message has both numbers."""


class PaddingWarning(UserWarning):
    """Padded token ids came without a mask: the model reads their padding as text."""


class Unavailable(ModelError):
    """A value this model, this block or this load does not have; the message says why.

    Attributes:
        value: The value's name.
        reason: Why it is not there, a sentence.
        load: The load options that would give it, such as `{"attn_implementation": "eager"}`;
            empty when no load does.
        layers: The blocks that have the value, when this one is not built to have it.
    """

    def __init__(
        self,
        value: str,
        reason: str,
        load: dict[str, str] | None = None,
        *,
        layers: tuple[int, ...] = (),
        where: str | None = None,
    ) -> None:
        self.value, self.reason, self.load, self.layers = value, reason, dict(load or {}), layers
        advice = ", ".join(f'{key}="{choice}"' for key, choice in self.load.items())
        super().__init__(
            f"{value} is not available: {reason}" + (f"; load with {advice}" if advice else ""),
            where=where,
        )


class OutsideTrace(ModelError):
    """A value read or assigned with no forward pass running."""


class ReadTooLate(ModelError):
    """A value asked for after the forward had passed its place."""


class ReadOnly(ModelError):
    """An assignment to a value that is derived, not a place in the forward."""


class LayoutError(ModelError):
    """A tensor whose shape or kind does not fit the layout, or that counts beyond its axis; the message names both."""


class SnippetRefused(NnpediaError):
    """Something a snippet may not do: write outside its folder, open a socket, start a process."""

    exit_code = 1


class BuildFailure(NnpediaError):
    """Something documented is wrong: a value, a law, a shape or a snippet."""

    exit_code = 1


def place(path: Path | str, line: int | None = None) -> str:
    """`file:line`, relative to the working folder where it lies below it."""
    shown = _seen_from(os.getcwd(), str(Path(path)))
    return f"{shown}:{line}" if line else shown


@lru_cache(maxsize=1024)
def _seen_from(folder: str, path: str) -> str:
    try:
        return str(Path(path).resolve().relative_to(Path(folder).resolve()))
    except ValueError:
        return path


def nearest(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest candidate, or the empty string."""
    close = difflib.get_close_matches(str(word), [str(candidate) for candidate in candidates], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_line(error: BaseException) -> str:
    """`KeyError: 'x'`: the exception's type and the first line of what it says."""
    says = str(error).strip().splitlines()
    return f"{type(error).__name__}: {says[0]}" if says else type(error).__name__
