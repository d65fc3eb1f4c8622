"""Measuring: drafts against what is known, and every causal language model there is.

A family written by hand is hidden with all that extend it, drafted from its reference checkpoint's config, and both
specs are put over one small checkpoint: a value is right when the two give equal tensors wherever they are there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from nnpedia.draft.depending import taken
from nnpedia.draft.drafting import draft_of
from nnpedia.draft.elsewhere import badges_elsewhere, subject_of
from nnpedia.draft.opening import open_subject
from nnpedia.draft.places import ACROSS, same
from nnpedia.draft.proving import Draft
from nnpedia.draft.spec import has_module
from nnpedia.errors import CheckpointError, NnpediaError, one_line
from nnpedia.family import Family, family_folders, for_config, load_family

Pair = tuple[str, str]


@dataclass
class Score:
    """A draft beside the family it is of.

    Attributes:
        names: Names said right, and how many there are.
        values: Values that are right (an equal tensor, or absent in both), and how many there are.
        badges: Badges both have, and how many either has.
        elsewhere: Badges of the family that another of its checkpoints shows, with that one's id.
        wrong: Values the draft presents as proven whose tensor is another one, or that the family has not.
        missing: Values the draft has not worked out.
        partly: Values right where they are, but not there on every block or under every load.
        name_faults, lacking, added: The names, badges said otherwise.
        read: The families that the draft took words of.
    """

    family: str
    extends: str | None = None
    names: tuple[int, int] = (0, 0)
    values: tuple[int, int] = (0, 0)
    badges: tuple[int, int] = (0, 0)
    wrong: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    name_faults: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cause: str | None = None
    read: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def score(name: str, families: Path) -> Score:
    """One hand-written family hidden and drafted."""
    torch.set_num_threads(1)
    known = family_folders(families)
    truth = load_family(known[name])
    subject = subject_of(truth, truth.checkpoints[0], open_subject(name).architecture)
    with tempfile.TemporaryDirectory(prefix="nnpedia-measure-") as scratch:
        made = draft_of(subject, families, [name], Path(scratch))
        return compare(made, Path(scratch), for_config(truth, made.seen.trial.config))


def compare(made: Draft, folder: Path, truth: Family) -> Score:
    """A draft in its scratch folder beside the family it is of, over one checkpoint under every load."""
    result = Score(made.name, made.base.family if made.base else None)
    result.problems = [problem.what for problem in made.problems]
    drafted = load_family(folder / made.name)
    result.read = taken(drafted, made.base, made.pool, made.seen.vocabulary)
    _names(made, drafted, truth, result)
    elsewhere = badges_elsewhere(made, truth, [one for one in truth.badges if one not in made.badges])
    result.elsewhere = [f"{badge} on {checkpoint}" for badge, checkpoint in elsewhere.items()]
    ours, theirs = {*made.badges, *elsewhere}, set(truth.badges)
    result.badges = (len(ours & theirs), len(ours | theirs))
    result.lacking, result.added = sorted(theirs - ours), sorted(ours - theirs)
    _values(made, drafted, truth, result)
    return result


def _names(made: Draft, drafted: Family, truth: Family, result: Score) -> None:
    right = total = 0
    for host, table in truth.names.items():
        for native, standard in table.items():
            if native == standard or not _there(made, truth, host, native):
                continue
            total += 1
            if drafted.names.get(host, {}).get(native) == standard:
                right += 1
            else:
                result.name_faults.append(f"{host}.{native}: {standard}")
    result.names = (right, total)


def _there(made: Draft, truth: Family, host: str, native: str) -> bool:
    parents = [""]
    if host != "model":
        blocks = [kind.block.path for kind in made.seen.kinds]
        own = [name for name, standard in truth.names.get("layers", {}).items() if standard == host] + [host]
        parents = blocks if host == "layers" else [f"{block}.{name}" for block in blocks for name in own]
    return has_module(made.seen, parents, native)


def _values(made: Draft, drafted: Family, truth: Family, result: Score) -> None:
    from nnpedia.checkpoints import forge
    from nnpedia.model import StandardizedTransformer
    from nnpedia.observe import read, spots_of
    from nnpedia.snippets import PROMPT
    from nnpedia.support import probing

    folder = forge.materialize(drafted)
    verdicts: dict[Pair, set[str]] = {}
    for options in made.seen.loads.values():
        found = []
        for families in (drafted.folder.parent, truth.folder.parent):
            chosen: dict[str, Any] = dict(options)
            model = StandardizedTransformer(folder, families=families, **chosen)
            model.dispatch()
            with probing(model):
                found.append(read(model, spots_of(model), PROMPT))
        for host, table in truth.values.items():
            for name in table:
                spots = {spot for one in found for spot in one if spot[1:] == (host, name)}
                for spot in spots:
                    ours, theirs = found[0].get(spot), found[1].get(spot)
                    verdicts.setdefault((host, name), set()).add(_verdict(ours, theirs))
    right = total = 0
    for host, table in truth.values.items():
        for name, spec in table.items():
            own = drafted.values[host][name]
            if spec.absent is not None and own.absent is not None and own.todo is None and _by_part(truth, host, name):
                continue
            total += 1
            seen = verdicts.get((host, name), set()) - {"neither"}
            label = f"{host}.{name}"
            if own.todo is not None:
                result.missing.append(label)
            elif seen & {"other", "ours"} and own.absent is None:
                (result.wrong if "other" in seen or spec.absent is not None else result.partly).append(label)
                right += int("other" not in seen and spec.absent is None)
            elif "theirs" in seen:
                (result.missing if seen == {"theirs"} else result.partly).append(label)
            else:
                right += 1
    result.values = (right, total)


def _by_part(truth: Family, host: str, name: str) -> bool:
    parts = truth.vocabulary.values[host][name].any_of
    return bool(parts) and not set(parts) & set(truth.parts)


def _verdict(ours: Any, theirs: Any) -> str:
    have = isinstance(ours, (torch.Tensor, list)), isinstance(theirs, (torch.Tensor, list))
    if have == (False, False):
        return "neither"
    if have != (True, True):
        return "ours" if have[0] else "theirs"
    if isinstance(ours, list):
        return "same" if ours == theirs else "other"
    if ours.dtype != theirs.dtype and ours.is_floating_point():
        ours, theirs = ours.float(), theirs.float()
    return "same" if same(ours, theirs, ACROSS) else "other"


# -- every model there is -------------------------------------------------------------------------------------------


@dataclass
class Cover:
    """What became of drafting one model type.

    Attributes:
        state: `complete` (every value proven or shown absent, every law told), `drafted`, `not yet`, or `left out`.
        why: The reason, for the last two; what is not worked out, for a draft.
        read: The families that the draft took words of.
    """

    model_type: str
    state: str
    why: str = ""
    architecture: str = ""
    extends: str | None = None
    proven: int = 0
    todo: int = 0
    laws: int = 0
    untold: int = 0
    problems: int = 0
    full_size: str = ""
    read: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def cover(model_type: str, families: Path) -> Cover:
    """One model type drafted from its config class's defaults."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    torch.set_num_threads(1)
    architecture = str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type, ""))
    try:
        subject = open_subject(model_type)
    except CheckpointError as error:
        out = "builds no config" not in error.message
        return Cover(model_type, "left out" if out else "not yet", error.message, architecture)
    try:
        with tempfile.TemporaryDirectory(prefix="nnpedia-cover-") as scratch:
            made = draft_of(subject, families, [], Path(scratch))
            return _covered(made, Path(scratch), architecture)
    except NnpediaError as error:
        out = "is an encoder" in error.message
        return Cover(model_type, "left out" if out else "not yet", error.message, architecture)
    except Exception as error:  # a model may raise anything of its own under the checks
        return Cover(model_type, "not yet", one_line(error), architecture)


def _covered(made: Draft, folder: Path, architecture: str) -> Cover:
    untold = [f"{host}.{name}" for (host, name), form in made.laws.items() if form is None]
    todo = made.todo
    unseen = list(dict.fromkeys(kind.block.why for kind in made.seen.kinds if kind.block.why))
    found = Cover(
        made.name, "drafted", architecture=architecture, extends=made.base.family if made.base else None,
        proven=len(made.proven), todo=len(todo), laws=sum(form is not None for form in made.laws.values()),
        untold=len(untold), problems=len(made.problems), full_size=_full_size(folder / made.name),
        read=taken(load_family(folder / made.name), made.base, made.pool, made.seen.vocabulary),
    )  # fmt: skip
    if made.problems:
        found.state, found.why = "not yet", f"a check still fails: {made.problems[0].what}"
    elif not made.proven:
        found.state, found.why = "not yet", next(iter(todo.values()), "nothing was proven")
    elif found.full_size and not found.full_size.startswith("not built"):
        found.why = f"{len(todo)} values are not worked out, and at full size {found.full_size}"
    elif not todo and made.readout is not None and not unseen:
        found.state = "complete"
    else:
        groups: dict[str, list[str]] = {}
        for (_, name), why in todo.items():
            groups.setdefault(why.partition(";")[0].partition(" (candidates")[0], []).append(name)
        said = [
            *(one for one in unseen if one not in groups),
            *(f"{', '.join(names)}: {why}" for why, names in groups.items()),
        ]
        found.why = "; ".join([*said, *([] if made.readout else ["no readout found"])])
    return found


def _full_size(folder: Path) -> str:
    """What the checks at full size say of a draft: nothing, or the first thing wrong."""
    from nnpedia.introspect import reference

    family = load_family(folder)
    try:
        problems = reference(family, family.checkpoints[0]).problems
    except Exception as error:  # whatever building on meta raises
        return f"not built at full size: {' '.join(str(error).split())[:160]}"
    return problems[0].what if problems else ""


def model_types(families: Path, drafted: Sequence[str] = ()) -> list[str]:
    """The causal language models of transformers that no family describes yet."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} - {*family_folders(families)} - {*drafted})
