"""Checkpoints: what can be run here, and how a name becomes a folder that `from_pretrained` loads.

Three sources behind one interface: the Hub, wheels that carry trained weights (`packages:` of a
spec), and the forge, which makes a small checkpoint with informative random weights.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from nnpedia import cache
from nnpedia.errors import CheckpointError, SpecError, nearest

if TYPE_CHECKING:
    from nnpedia.family import Family

FORGE = "forge"


@dataclass(frozen=True)
class Runnable:
    """Something whose weights can run here.

    Attributes:
        name: "forge", a package's name, or a Hub id.
        id: The public checkpoint it is, or that it was scaled from.
        detail: A sentence on where the weights come from.
        config_origin: Where its config comes from: "package", "forge", or as the spec says of the checkpoint.
    """

    family: str
    name: str
    source: Literal["hub", "package", "forge"]
    id: str
    detail: str
    dtype: str
    config_origin: str


def runnables(family: Family, hub: bool = False) -> list[Runnable]:
    """What of a family can run here: trained weights first, then the forge; touches no weights.

    With `hub`, the public checkpoints follow.
    """
    found = [_of_package(family, package) for package in family.packages]
    found += [_of_forge(forged, name) for name, forged in forges(family).items()]
    if hub:
        found += [_of_hub(family, checkpoint) for checkpoint in family.checkpoints]
    return found


def forges(family: Family) -> dict[str, Family]:
    """The families a small checkpoint is forged for, by runnable name: the family itself, and each variant."""
    return {FORGE: family, **{f"{FORGE}-{name}": variant_of(family, name) for name in family.variants}}


def variant_of(family: Family, name: str) -> Family:
    """The family as one variant's checkpoints have it, told from that variant's own checkpoint."""
    from nnpedia.family import load_family

    variant = family.variants[name]
    own = [checkpoint for checkpoint in family.checkpoints if checkpoint.id == variant.checkpoint]
    return replace(
        load_family(family.folder, (name,)),
        checkpoints=tuple(own or family.checkpoints[:1]),
        forge={**family.forge, **variant.forge, **variant.when},
    )


def runnable_names(family: Family, hub: bool = False) -> list[str]:
    """The names of `runnables`, without importing transformers for what else they say."""
    names = [*(package.name for package in family.packages), *forges(family)]
    return [*names, *(checkpoint.id for checkpoint in family.checkpoints)] if hub else names


def runnable(family: Family, name: str) -> Runnable:
    """The runnable of a family by its name. Raises `CheckpointError` with what there is."""
    found = {candidate.name: candidate for candidate in runnables(family, hub=True)}
    if name not in found:
        raise CheckpointError(
            f"{family.family} has no checkpoint {name!r}{nearest(name, found) or '; there is ' + ', '.join(found)}"
        )
    return found[name]


def materialize(runnable: Runnable, family: Family) -> Path:
    """The folder of a runnable's `config.json`, `*.safetensors` and tokenizer, made when it is not there.

    Raises `CheckpointError`, one line, when it cannot be made, and `SpecError` for a key that its config does not take.
    """
    from nnpedia.checkpoints import stated

    stated.refuse_wrong(family, runnable.name)
    if runnable.source == "forge":
        from nnpedia.checkpoints import forge

        return forge.materialize(forges(family)[runnable.name])
    if runnable.source == "package":
        from nnpedia.checkpoints import package

        return package.materialize(family, next(one for one in family.packages if one.name == runnable.name))
    from nnpedia.checkpoints import hub

    revisions = {checkpoint.id: checkpoint.revision for checkpoint in family.checkpoints}
    return hub.fetch(runnable.id, revisions.get(runnable.id))


def reference_config(family: Family, checkpoint: Any) -> Any:
    """A public checkpoint's config at full size: the config class's defaults with the spec's keys over them.

    Raises `SpecError` for a key that the class does not take.
    """
    from nnpedia.checkpoints import configs, stated

    stated.refuse_wrong(family, checkpoint.id)
    return configs.reference(family, checkpoint)


def resolve(checkpoint: str | Path, revision: str | None = None, **how: Any) -> Path:
    """The folder a checkpoint's name stands for, checked so that loading it can only fail for deeper reasons.

    Args:
        checkpoint: A folder; `family:forge` or `family:<package name>`; or a Hub id.
        revision: Of a Hub id: a commit, tag or branch. Left out, the commit a spec pins for this id, else main.
        **how: Of a Hub id: how it is fetched, see `nnpedia.checkpoints.hub.fetch`.

    Raises `CheckpointError`, one line, when there is no such checkpoint or it is refused.
    """
    from nnpedia.checkpoints import hub
    from nnpedia.family import family_folders

    if not isinstance(checkpoint, str | Path) or not str(checkpoint).strip():
        raise CheckpointError(
            f"{checkpoint!r} names no checkpoint: give a folder, a Hub id such as 'openai-community/gpt2', "
            "or family:name such as 'llama:forge'"
        )
    text = os.fspath(checkpoint)
    folder = Path(text).expanduser()
    try:
        kind = "a folder" if folder.is_dir() else "a file" if folder.exists() else ""
    except (OSError, ValueError) as error:  # longer than any path, or with a null character in it
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"{text[:60]!r}… can be neither a folder nor a name: {reason.lower()}") from None
    if kind == "a folder":
        hub.inspect(folder, text)
        return folder.absolute()
    if kind == "a file":
        raise CheckpointError(
            f"the checkpoint {text} is a file, not a folder: give the folder that holds config.json and *.safetensors"
        )
    if isinstance(checkpoint, Path) or text.startswith((".", "/", "~")):
        raise CheckpointError(f"the checkpoint {text} is not there")
    if ":" in text:
        name, _, which = text.partition(":")
        family = _family(name, text)
        return materialize(runnable(family, which), family)
    try:
        return hub.fetch(text, revision or pinned(text), **how)
    except CheckpointError as error:
        if text not in family_folders(cache.families_folder()):
            raise
        raise CheckpointError(f"{error.message}; of the family {text} there is {text}:{FORGE}") from None


def pinned(checkpoint: str) -> str | None:
    """The commit that the first spec naming this Hub id pins, if one does."""
    from nnpedia.family import load_families

    try:
        families = load_families(cache.families_folder())
    except SpecError:  # a broken spec of some family is no reason not to load a checkpoint by name
        return None
    public = [one for family in families.values() for one in family.checkpoints]
    return next((one.revision for one in public if one.id == checkpoint and one.revision), None)


def _family(name: str, checkpoint: str) -> Family:
    from nnpedia.family import family_folders, load_family, present

    folders = family_folders(cache.families_folder())
    if name not in folders:
        raise CheckpointError(f"{checkpoint}: there is no family {name!r}{nearest(name, folders)}")
    return present(load_family(folders[name]))


def _of_package(family: Family, package: Any) -> Runnable:
    wheels = [f"{wheel.project} {wheel.version}" for wheel in package.wheels]
    listed = wheels[0] if len(wheels) == 1 else f"{', '.join(wheels[:-1])} and {wheels[-1]}"
    return Runnable(
        family=family.family, name=package.name, source="package", id=package.id, dtype="float32",
        config_origin="package",
        detail=f"Trained weights ({package.licence}) from the PyPI wheel{'s' * (len(wheels) > 1)} {listed}, "
               f"dequantized from {quantization(package)} to float32.",
    )  # fmt: skip


def quantization(package: Any) -> str:
    """The GGUF quantization a package's file name states, such as Q4_1."""
    found = re.search(r"q\d\w*|b?f16", PurePosixPath(package.wheels[0].member).name, re.IGNORECASE)
    return f"GGUF {found.group().upper()}" if found else "GGUF"


def _of_forge(family: Family, name: str) -> Runnable:
    from nnpedia.checkpoints import forge

    return Runnable(
        family=family.family, name=name, source="forge", id=family.checkpoints[0].id, dtype="float32",
        config_origin="forge", detail=forge.detail(family),
    )  # fmt: skip


def _of_hub(family: Family, checkpoint: Any) -> Runnable:
    at = f" at {checkpoint.revision}" if checkpoint.revision else ""
    return Runnable(
        family=family.family, name=checkpoint.id, source="hub", id=checkpoint.id, dtype=checkpoint.dtype,
        config_origin=checkpoint.origin, detail=f"The public checkpoint {checkpoint.id} on the Hugging Face Hub{at}.",
    )  # fmt: skip
