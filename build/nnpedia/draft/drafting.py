"""Drafting: from a name to a proven draft."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from nnpedia import verify
from nnpedia.draft.badging import badges_of
from nnpedia.draft.basing import nearest
from nnpedia.draft.notes import notes_of
from nnpedia.draft.opening import Subject, open_subject
from nnpedia.draft.proving import Draft, available, drafted, prove, write
from nnpedia.draft.said import parts_of
from nnpedia.draft.sighting import see
from nnpedia.draft.telling import about_of, subtitle_of
from nnpedia.draft.trial import trial
from nnpedia.errors import CheckpointError, place
from nnpedia.family import load_family
from nnpedia.fences import read_document
from nnpedia.placing import wrong
from nnpedia.vocabulary import load_vocabulary


def draft(name: str, families: Path, hidden: Sequence[str] = ()) -> Draft:
    """A model type, checkpoint or folder drafted and proven.

    Raises `CheckpointError`, one line, for what cannot be drafted.
    """
    with tempfile.TemporaryDirectory(prefix="nnpedia-draft-") as scratch:
        return draft_of(open_subject(name), families, hidden, Path(scratch))


def draft_of(subject: Subject, families: Path, hidden: Sequence[str], folder: Path) -> Draft:
    """A subject drafted and proven in `folder`, a families folder of its own.

    The families `hidden` names, those that extend one of them, and the one of the drafted type are no bases.
    """
    made = trial(subject)
    pool = available(families, [*hidden, subject.model_type])
    seen = see(made, load_vocabulary(families))
    if not parts_of(seen):
        why = next((kind.block.why for kind in seen.kinds if kind.block.why), "nothing is added to a stream")
        raise CheckpointError(f"no block of {subject.architecture} was understood: {why}")
    result = drafted(subject, seen, pool)
    prove(result, folder)
    result = nearest(result, folder)
    result.badges = badges_of(result)
    result.subtitle, result.about = subtitle_of(result), about_of(result)
    write(result, folder)
    _write_notes(result, folder)
    return result


def _write_notes(result: Draft, folder: Path) -> None:
    """The notes' skeleton beside the spec; a snippet of it that does not run is one more problem of the draft."""
    from nnpedia.checkpoints import runnables
    from nnpedia.introspect import loader
    from nnpedia.snippets import PROMPT

    result.notes = notes_of(result)
    (folder / result.name / "notes.md").write_text(result.notes)
    family = load_family(folder / result.name)
    forged = runnables(family)[0]
    snippets = verify.notes(family, forged, loader(family), PROMPT)
    document = read_document(family.notes, file=place(family.notes))
    result.problems = [*result.problems, *wrong(document, snippets)]
