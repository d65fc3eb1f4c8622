"""Keys: the digest of all that a unit's record is made from, and so when it has to be made again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from nnpedia.cache import PACKAGE
from nnpedia.dependence import modules, without_readers
from nnpedia.errors import NnpediaError
from nnpedia.family import Family, family_folders
from nnpedia.records import PAGES, Unit

# Of what the records' own code imports: these say where things are kept and run the units, and find no fact.
RUNNING = frozenset({"nnpedia.cache", "nnpedia.pool", "nnpedia.warm"})
READERS = "nnpedia.readers"
COMPUTING = ("torch", "transformers", "nnsight", "einops", "tokenizers", "safetensors", "numpy")


def key_of(unit: Unit, family: Family, device: str = "cpu") -> str:
    """The key of a reference or a run: spec and bases, vocabulary, code, versions; for a run the notes and device."""
    texts = [family.folder / "family.yml", *family.bases, family.folder.parent / "vocabulary.yml"]
    if unit.kind == "run":
        texts.append(family.notes)
    return _key(unit, texts, *readers_of(family), *([device] if unit.kind == "run" and device != "cpu" else []))


def readers_of(family: Family) -> list[str]:
    """The source of the readers that a family's values are read through, its variants' and its bases' among them."""
    named = {
        each.reader
        for table in family.values.values()
        for spec in table.values()
        for each in (spec, spec.decode)
        if each
    }
    specs = " ".join(_text(path) for path in (family.folder / "family.yml", *family.bases))
    return [source for name, source in sorted(_readers().items()) if name in named or name in specs]


def page_keys(folder: Path) -> dict[Unit, str]:
    """The hand-written pages of the checkout that `folder` lies in, and their keys; none elsewhere.

    A page may load any family, so every spec counts, and every reader.
    """
    root = folder.parent
    if not (root / "mkdocs.yml").is_file():
        return {}
    specs = [folder / "vocabulary.yml", *(path / "family.yml" for path in family_folders(folder).values())]
    pages = [path for path in (root / "README.md", *sorted((root / "site").rglob("*.md"))) if "```" in _text(path)]
    units = {Unit(PAGES, "page", 0, path.relative_to(root).as_posix()): path for path in pages}
    return {unit: _key(unit, [path, *specs], *_readers().values()) for unit, path in units.items()}


def _key(unit: Unit, texts: Iterable[Path], *more: str) -> str:
    digest = hashlib.sha256()
    for part in (unit.file, code_digest(), *versions(), *(_text(path) for path in texts), *more):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """The digest of this package's sources that facts depend on, but for the readers themselves."""
    digest = hashlib.sha256()
    for name, path in modules(PACKAGE).items():
        if name not in RUNNING:
            source = without_readers(_text(path))[0] if name == READERS else _text(path)
            digest.update(f"{name} {hashlib.sha256(source.encode()).hexdigest()}\n".encode())
    return digest.hexdigest()


@cache
def _readers() -> dict[str, str]:
    return without_readers(_text(modules(PACKAGE)[READERS]))[1]


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
