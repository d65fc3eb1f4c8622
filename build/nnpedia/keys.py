"""Keys: the digest of all that a unit's record is made from, and so when it has to be made again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from nnpedia.cache import PACKAGE
from nnpedia.errors import NnpediaError
from nnpedia.family import Family, family_folders
from nnpedia.records import PAGES, Unit

# What no fact depends on: these arrange and show facts, or run the units that find them.
# A module that is not named here counts, so that a new one can make work but never hide a change.
PRESENTATION = frozenset(
    {
        "badges",
        "cache",
        "checking",
        "cli",
        "copying",
        "cluster",
        "diagram",
        "draft",
        "entry",
        "finding",
        "explore",
        "hook",
        "keys",
        "lawrows",
        "links",
        "operators",
        "lineages",
        "moves",
        "needs",
        "options",
        "overview",
        "pages",
        "pen",
        "policy",
        "pool",
        "prose",
        "publish",
        "pytest_plugin",
        "records",
        "reporting",
        "reuse",
        "rosetta",
        "styles",
        "shapes",
        "translation",
        "views",
        "warm",
        "wording",
        "work",
    }
)
COMPUTING = ("torch", "transformers", "nnsight", "einops", "tokenizers", "safetensors", "numpy")


def key_of(unit: Unit, family: Family, device: str = "cpu") -> str:
    """The key of a reference or a run: spec and bases, vocabulary, code, versions; for a run the notes and device."""
    texts = [family.folder / "family.yml", *family.bases, family.folder.parent / "vocabulary.yml"]
    if unit.kind == "run":
        texts.append(family.notes)
    return _key(unit, texts, *([device] if unit.kind == "run" and device != "cpu" else []))


def page_keys(folder: Path) -> dict[Unit, str]:
    """The hand-written pages of the checkout that `folder` lies in, and their keys; none elsewhere.

    A page may load any family, so every spec counts.
    """
    root = folder.parent
    if not (root / "mkdocs.yml").is_file():
        return {}
    specs = [folder / "vocabulary.yml", *(path / "family.yml" for path in family_folders(folder).values())]
    pages = [path for path in (root / "README.md", *sorted((root / "site").rglob("*.md"))) if "```" in _text(path)]
    units = {Unit(PAGES, "page", 0, path.relative_to(root).as_posix()): path for path in pages}
    return {unit: _key(unit, [path, *specs]) for unit, path in units.items()}


def _key(unit: Unit, texts: Iterable[Path], *more: str) -> str:
    digest = hashlib.sha256()
    for part in (unit.file, code_digest(), *versions(), *(_text(path) for path in texts), *more):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """The digest of this package's sources that facts depend on."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.with_suffix("").parts[0] not in PRESENTATION:
            digest.update(f"{name.as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@cache
def versions() -> tuple[str, ...]:
    """The versions of what computes, without importing it."""
    installed = [f"python {platform.python_version()}"]
    for name in COMPUTING:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            installed.append(f"{name} missing")
    return tuple(installed)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise NnpediaError(f"cannot be read as text ({error})", where=str(path)) from None
