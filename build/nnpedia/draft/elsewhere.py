"""Other checkpoints: a family has a badge when some checkpoint of it shows what the badge says.

A draft is of one checkpoint. A badge of a family that its reference does not show (grouped queries that only a larger
one has, a norm that a setting switches on) is therefore looked for on the family's other checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nnpedia.checkpoints import configs
from nnpedia.draft.badging.registry import DETECTORS
from nnpedia.draft.opening import Subject
from nnpedia.draft.proving import Draft
from nnpedia.draft.sighting import see
from nnpedia.draft.trial import trial
from nnpedia.errors import CheckpointError
from nnpedia.family import Family
from nnpedia.familyspec import PublicCheckpoint

#: Checkpoints that are looked at; each is a small model built and run under every load.
MOST = 5


def subject_of(family: Family, checkpoint: PublicCheckpoint, architecture: str) -> Subject:
    """A checkpoint of a family as what a draft is made of."""
    stated = dict(checkpoint.config)
    config = configs.build(family.family, stated)
    return Subject(family.family, config, architecture, checkpoint.id, checkpoint.origin, stated)


def badges_elsewhere(draft: Draft, family: Family, badges: Iterable[str]) -> dict[str, str]:
    """Which of these badges another checkpoint shows: badge to the checkpoint's id. Its laws are the draft's."""
    left, found, seen = [*badges], dict[str, str](), [dict(family.checkpoints[0].config)]
    for checkpoint in family.checkpoints[1:]:
        if not left or len(seen) > MOST:
            break
        if dict(checkpoint.config) in seen:
            continue
        seen.append(dict(checkpoint.config))
        try:
            subject = subject_of(family, checkpoint, draft.subject.architecture)
            other = replace(draft, subject=subject, seen=see(trial(subject), draft.seen.vocabulary))
        except CheckpointError:
            continue
        shown = [badge for badge in left if badge in DETECTORS and DETECTORS[badge](other)]
        found |= dict.fromkeys(shown, checkpoint.id)
        left = [badge for badge in left if badge not in shown]
    return found
