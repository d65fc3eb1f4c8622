"""Keys: the digest of all that a unit's record is made from, and so when it has to be made again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from nnpedia.cache import PACKAGE
from nnpedia.checkpoints import runnable_names
from nnpedia.dependence import modules, without_readers
from nnpedia.documents import Read, name_of
from nnpedia.errors import NnpediaError
from nnpedia.family import Family, family_folders
from nnpedia.fences import Fence
from nnpedia.pagecode import running, said
from nnpedia.records import PAGES, Unit

# Of what the records' own code imports: these say where things are kept and run the units, and find no fact.
RUNNING = frozenset({"nnpedia.cache", "nnpedia.pool", "nnpedia.warm"})
READERS = "nnpedia.readers"
COMPUTING = ("torch", "transformers", "nnsight", "einops", "tokenizers", "safetensors", "numpy")


def key_of(unit: Unit, family: Family, device: str = "cpu", fences: Sequence[Fence] = ()) -> str:
    """The key of a reference or a run: spec and bases, vocabulary, code, versions; for a run device and fences too.

    `fences` are those of the notes that run in it: the prose around them changes nothing that they give.
    """
    texts = [family.folder / "family.yml", *family.bases, family.folder.parent / "vocabulary.yml"]
    more = [said(fences), *([device] if device != "cpu" else [])] if unit.kind == "run" else []
    return _key(unit, texts, *readers_of(family), *more)


def keys_of(
    families: Mapping[str, Family], units: Callable[[Family], list[Unit]], read: Read, device: str
) -> dict[Unit, str]:
    """The keys of the families' units of some kind, with their notes as `read` reads them."""
    keys: dict[Unit, str] = {}
    for family in families.values():
        found, names = read(name_of(family.notes)).fences, runnable_names(family)
        keys |= {unit: key_of(unit, family, device, running(found, unit.name, names)) for unit in units(family)}
    return keys


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


def page_keys(folder: Path, read: Read) -> dict[Unit, str]:
    """The hand-written pages of the checkout that `folder` lies in, and their keys; none elsewhere.

    A page may load any family, so every spec counts, and every reader.
    """
    root = folder.parent
    if not (root / "mkdocs.yml").is_file():
        return {}
    specs = [folder / "vocabulary.yml", *(path / "family.yml" for path in family_folders(folder).values())]
    pages = [path for path in (root / "README.md", *sorted((root / "site").rglob("*.md"))) if "```" in _text(path)]
    units = [Unit(PAGES, "page", 0, path.relative_to(root).as_posix()) for path in pages]
    return {unit: _key(unit, specs, said(running(read(unit.name).fences)), *_readers().values()) for unit in units}


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
