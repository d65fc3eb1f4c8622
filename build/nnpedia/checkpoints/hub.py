"""Public checkpoints on the Hugging Face Hub, and folders laid out like them.

Only safetensors, JSON and tokenizer files are fetched. Pickles are never opened and code that a
repository carries is never run: transformers' own class is used for the model type it names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nnpedia import cache
from nnpedia.errors import CheckpointError

WANTED = ["*.safetensors", "*.json", "tokenizer*", "*.model", "*.tiktoken", "vocab.*", "merges.txt", "*.jinja"]
UNWANTED = ["*/*", "consolidated*"]  # other formats' copies of the same weights
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def fetch(checkpoint: str, revision: str | None = None, **how: Any) -> Path:
    """The folder of a Hub checkpoint at a revision, downloaded when the Hub's cache does not have it.

    `how` is what `snapshot_download` takes besides: `token`, `cache_dir`, `local_files_only`, `force_download`.
    Raises `CheckpointError`, one line, when the repository or revision is not there or not open to
    this user, when it cannot be reached, or when `inspect` refuses what it holds.
    """
    from huggingface_hub import errors, snapshot_download

    at = f"{checkpoint}@{revision}" if revision else checkpoint
    try:
        wanted = {"revision": revision, "allow_patterns": WANTED, "ignore_patterns": UNWANTED, **how}
        folder = Path(snapshot_download(checkpoint, **wanted))
    except errors.GatedRepoError:
        raise _refused(at, "is gated: accept its terms on the Hub and log in with `hf auth login`") from None
    except errors.RevisionNotFoundError:
        raise _refused(at, "has no such revision on the Hub") from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise _refused(at, "is neither a folder here nor a repository on the Hub (or it is private)") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        why = "local_files_only asks for nothing else" if how.get("local_files_only") else _unreachable()
        raise _refused(at, f"is not in the Hub's cache here, and {why}") from None
    except (TypeError, KeyError, AttributeError) as error:  # a proxy's page, a mirror that lacks something
        raise _refused(at, f"could not be fetched: what answers is no Hub ({_first_line(error)})") from None
    except Exception as error:  # the HTTP library's own, whichever the Hub's client uses
        raise _refused(at, f"could not be fetched ({_first_line(error)}); what is here of it is gone on from") from None
    inspect(folder, at)
    return folder


def _unreachable() -> str:
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return "the Hub is switched off (HF_HUB_OFFLINE)"
    return "the Hub cannot be reached"


def _refused(checkpoint: str, why: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint {checkpoint} {why}")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def inspect(folder: Path, name: str) -> None:
    """Raise `CheckpointError` unless the folder is a checkpoint that can be loaded as it should be.

    It has a `config.json` of a model type that transformers has, and its weights are all there, in
    safetensors files with whole headers.
    """
    from transformers import CONFIG_MAPPING

    config = _json(folder / "config.json", name)
    model_type = config.get("model_type")
    _check_release(str(model_type))
    if model_type not in CONFIG_MAPPING:
        code = ", and the code it brings along is not run" if "auto_map" in config else ""
        raise _refused(name, f"has model type {model_type!r}, which transformers does not have{code}")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        pickles = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
        found = f" ({pickles[0]} is a pickle)" if pickles else ""
        raise _refused(name, f"holds no safetensors weights; pickled ones are not opened{found}")
    if (folder / "model.safetensors.index.json").exists():
        shards = set(_json(folder / "model.safetensors.index.json", name).get("weight_map", {}).values())
        if missing := sorted(shards - {path.name for path in weights}):
            raise _refused(name, f"lacks {len(missing)} of its {len(shards)} weight files, the first {missing[0]}")
    for path in weights:
        _check_header(path, name)


def _check_release(model_type: str) -> None:
    """Raise `UnknownFamily` for a model type that is described, and younger than transformers here."""
    from nnpedia.family import family_folders, load_family, present

    known = family_folders(cache.families_folder())
    if model_type in known:
        present(load_family(known[model_type]))


def _json(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        raise _refused(name, f"has no {path.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _refused(name, f"has a {path.name} that is not JSON ({_first_line(error)})") from None
    if not isinstance(content, dict):
        raise _refused(name, f"has a {path.name} that is not a mapping")
    return content


def _check_header(path: Path, name: str) -> None:
    """A header names every tensor's bytes, and safetensors compares their end with the file's."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            file.keys()
    except (SafetensorError, OSError) as error:
        raise _refused(name, f"has a damaged {path.name} ({_first_line(error)})") from None
