"""Folders at run time: where specs are read, where checkpoints and records are kept.

Three things can say where they are, in this order: an environment variable (the command line's
`--families` sets it), a checkout of the repository, and the installed wheel, which carries
`families/` and `templates/` inside the package.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from nnpedia.errors import NnpediaError

PACKAGE = Path(__file__).parent


def checkout(start: Path | None = None) -> Path | None:
    """The repository this package, or the folder `start` (default: the current one), lies in.

    A checkout is a folder that has both `mkdocs.yml` and `families/vocabulary.yml`.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (PACKAGE.parent.parent, here, *here.parents):
        if (folder / "mkdocs.yml").is_file() and (folder / "families" / "vocabulary.yml").is_file():
            return folder
    return None


def home() -> Path:
    """Where checkpoints and records are kept: NNPEDIA_HOME, else `.nnpedia/` of the checkout, else the user's cache.

    The folder is made when it is missing. Raises `NnpediaError` when it cannot be.
    """
    root = checkout()
    if os.environ.get("NNPEDIA_HOME"):
        folder = Path(os.environ["NNPEDIA_HOME"]).expanduser().absolute()
    elif root is not None:
        folder = root / ".nnpedia"
    else:
        folder = Path(platformdirs.user_cache_dir("nnpedia", appauthor=False))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NnpediaError(
            f"the cache folder cannot be made ({error.strerror}); set NNPEDIA_HOME to a folder that can be written",
            where=str(folder),
        ) from None
    return folder


def families_folder() -> Path:
    """Where the specs are: NNPEDIA_FAMILIES, else `families/` of the checkout, else the wheel's own."""
    if os.environ.get("NNPEDIA_FAMILIES"):
        folder = Path(os.environ["NNPEDIA_FAMILIES"]).expanduser().absolute()
        if not folder.is_dir():
            raise NnpediaError("there is no such folder of families", where=str(folder))
        if not (folder / "vocabulary.yml").is_file():
            raise NnpediaError(
                "this is no folder of families: it has no vocabulary.yml; copy the encyclopedia's there, and beside it "
                "the folder of each family that another extends",
                where=str(folder),
            )
        return folder
    return _shipped("families")


def templates_folder() -> Path:
    """Where the Jinja2 templates are: `templates/` of the checkout, else the wheel's own."""
    return _shipped("templates")


def _shipped(name: str) -> Path:
    root = checkout()
    folder = root / name if root is not None else PACKAGE / name
    if not folder.is_dir():
        raise NnpediaError(f"the {name} are neither in a checkout nor in the installed package", where=str(folder))
    return folder


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write `path` so that a reader, or a crash, sees the old content or the new and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = data.encode() if isinstance(data, str) else data
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
