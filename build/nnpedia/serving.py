"""Serving: what `make serve` shows while notes are being written, and what it need not make again.

A server renders after every saved file. What did not change is kept: parts of a page by what they are
made from, and whole pages on disk. A fence keeps the record of its run when it moves; one that changed
is shown as not run, for the record speaks of other code.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from mkdocs.structure.files import File

from nnpedia.entry import Entry
from nnpedia.fences import Fence, read_document
from nnpedia.record import Page, SnippetFact

T = TypeVar("T")


@dataclass
class Remembered:
    """The last answer for each name, given again while what it was made from is equal."""

    known: dict[str, tuple[object, Any]] = field(default_factory=dict)

    def get(self, name: str, made_from: object, make: Callable[[], T]) -> T:
        if name not in self.known or self.known[name][0] != made_from:
            self.known[name] = (made_from, make())
        answer: T = self.known[name][1]
        return answer


@dataclass
class Shown:
    """The pages that a server has written, by the digest of what they say."""

    written: dict[str, str] = field(default_factory=dict)
    coming: dict[str, str] = field(default_factory=dict)

    def leave(self, files: Iterable[File], said: Callable[[File], str]) -> None:
        """Tell MkDocs of each page whether it says what the one on disk says; `said` gives all that a page is of."""
        self.coming = {}
        for file in files:
            digest = hashlib.sha256(said(file).encode()).hexdigest()
            self.coming[file.src_uri] = digest
            stands = self.written.get(file.src_uri) == digest and os.path.isfile(file.abs_dest_path)
            vars(file)["is_modified"] = lambda stands=stands: not stands

    def done(self) -> None:
        """The build came to its end: what was coming is on disk."""
        self.written, self.coming = self.coming, {}


def stamp(folder: Path) -> str:
    """The names and times of a folder's files: another one when any was saved."""
    return repr(sorted((path.as_posix(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()))


def entry_as_written(entry: Entry) -> Entry:
    """The entry with its records' snippets where its notes now have them."""
    if not entry.runs:
        return entry
    told = {id(fact): number for number, run in enumerate(entry.runs) for fact in run.snippets}
    facts = [fact for run in entry.runs for fact in run.snippets]
    advice = f"`nnpedia build {entry.name}` runs it"
    found: list[list[SnippetFact]] = [[] for _ in entry.runs]
    for old, fact in placed(entry.notes, entry.notes_file, facts, advice):
        found[told[id(old)] if old else 0].append(fact)
    runs = [run.model_copy(update={"snippets": each}) for run, each in zip(entry.runs, found, strict=True)]
    return replace(entry, runs=runs)


def page_as_written(record: Page, text: str) -> Page:
    """The record of a hand-written page with its snippets where the page now has them."""
    facts = [fact for _, fact in placed(text, record.file, record.snippets, "`nnpedia build` runs it")]
    return record.model_copy(update={"snippets": facts})


def placed(
    text: str, file: str, facts: Sequence[SnippetFact], advice: str
) -> list[tuple[SnippetFact | None, SnippetFact]]:
    """For each Python fence of a text the record it had, if any, and the one to show."""
    known: dict[tuple[str, str], list[SnippetFact]] = defaultdict(list)
    for fact in facts:
        known[fact.code, repr(fact.load)].append(fact)
    found: list[tuple[SnippetFact | None, SnippetFact]] = []
    changed = False
    for fence in read_document(file, text).fences:
        same = known[fence.code, repr(fence.load)]
        changed = not same or (changed and fence.continues)
        old = None if changed else same.pop(0)
        found.append((old, unrun(fence, file, advice) if old is None else old.model_copy(update=place_of(fence))))
    return found


def place_of(fence: Fence) -> dict[str, Any]:
    return {"line": fence.line, "section": fence.section}


def unrun(fence: Fence, file: str, advice: str) -> SnippetFact:
    reason = fence.reason or f"since it changed, or what it continues did; {advice}"
    return SnippetFact(
        file=file, line=fence.line, section=fence.section, code=fence.code, load=fence.load, ran=False, reason=reason
    )
