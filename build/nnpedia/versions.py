"""Versions: what is installed, what the specs were measured with, and what a spec says of other ones.

A place that moved between releases of transformers is data: an entry of `moved` says what a value or
a law was or is `since` one release, or `until` another. `until` is the first release that it no longer
holds for, so that what one entry leaves off the next takes up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Release = tuple[int, int, int]
RELEASE = r"^\d+\.\d+(\.\d+)?$"
MOVES = "transformers"  # whose releases `since` and `until` speak of: addresses name places in its code


def release(text: str) -> Release:
    """`"5.24.0.dev0"` as `(5, 24, 0)`, so that releases compare."""
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return tuple([*numbers, 0, 0, 0][:3])  # type: ignore[return-value]


@cache
def installed(package: str, otherwise: str = "none") -> str:
    """The version of a package, without importing it."""
    try:
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        return otherwise


def quoted(text: Any) -> Any:
    """A release as YAML has it; raises `ValueError` for one without its quotes."""
    if isinstance(text, (int, float)):
        raise ValueError("a version is written in quotes: without them 5.20 is the number 5.2")
    return text


class Span(BaseModel):
    """Releases from `since` up to, and not with, `until`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    since: str | None = Field(default=None, pattern=RELEASE)
    until: str | None = Field(default=None, pattern=RELEASE)

    @field_validator("since", "until", mode="before")
    @classmethod
    def _quoted(cls, text: Any) -> Any:
        return quoted(text)

    @model_validator(mode="after")
    def _forward(self) -> Span:
        if self.since is None and self.until is None:
            raise ValueError("say since, until or both")
        if self.since and self.until and release(self.since) >= release(self.until):
            raise ValueError(f"since {self.since} is not before until {self.until}")
        return self

    def holds(self, version: str) -> bool:
        now = release(version)
        return (self.since is None or release(self.since) <= now) and (self.until is None or now < release(self.until))

    def meets(self, other: Span) -> bool:
        """Whether some release lies in both."""
        starts = [release(span.since) for span in (self, other) if span.since]
        ends = [release(span.until) for span in (self, other) if span.until]
        return not starts or not ends or max(starts) < min(ends)

    def words(self) -> str:
        """`before 5.24`, `since 5.20`, `since 5.20, before 5.24`."""
        since = [f"since {self.since}"] if self.since else []
        return ", ".join([*since, *([f"before {self.until}"] if self.until else [])])


class Told(Span):
    """A package the specs are told for: the releases they hold on, and the one they were measured with.

    `older` says why the releases before are not among them.
    """

    measured: str = Field(pattern=RELEASE)
    older: str | None = None

    @model_validator(mode="after")
    def _within(self) -> Told:
        if not self.holds(self.measured):
            raise ValueError(f"measured with {self.measured}, which is not {self.words()}")
        if self.since is None or self.until is None:
            raise ValueError("say since and until: a range has two ends")
        return self

    def between(self) -> str:
        """The minor releases from the first to the one measured with: `5.21 to 5.24`, `0.8`."""
        first, last = (".".join(str(text).split(".")[:2]) for text in (self.since, self.measured))
        return first if first == last else f"{first} to {last}"


def check_spans(spans: Iterable[Span], told: Span | None = None) -> None:
    """Raise `ValueError` for entries of which two hold at once, or of which one holds on no release there is."""
    spans = list(spans)
    for place, span in enumerate(spans):
        if told is not None and not span.meets(told):
            raise ValueError(f"moved: {span.words()} is no {MOVES} that the specs are told for ({told.words()})")
        for other in spans[:place]:
            if span.meets(other):
                raise ValueError(f"moved: {other.words()} and {span.words()} hold at once")


def under(told: dict[str, Told]) -> str:
    """A clause that names what is installed and what the specs were measured with."""
    here = " and ".join(f"{package} {installed(package)}" for package in told)
    measured = " and ".join(f"{package} {each.measured}" for package, each in told.items())
    return f"installed: {here}; the spec was measured with {measured}" if told else "the spec names no versions"
