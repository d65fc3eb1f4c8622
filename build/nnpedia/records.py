"""Records on disk: `records/<family>/<kind>-<position>-<name>.json`, each with its key beside it.

The `.key` file says what the record was made from, and the digest of the record's own bytes; so a
record that was cut short, edited or left by another version is told from a good one without
parsing it. Writes are atomic, the record first and its key after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote

from pydantic import Field, TypeAdapter, ValidationError

from nnpedia.cache import write_atomically
from nnpedia.errors import NnpediaError
from nnpedia.record import Page, Problem, Reference, Run, SnippetFact

AnyRecord = Reference | Run
_ADAPTER: TypeAdapter[Reference | Run | Page] = TypeAdapter(
    Annotated[Reference | Run | Page, Field(discriminator="kind")]
)
PAGES = "_pages"  # where a family's name would stand; no family can be called so


@dataclass(frozen=True, order=True)
class Unit:
    """One piece of work and the record it makes: a public checkpoint's reference, a run, or a page's snippets.

    `position` is the checkpoint's place in its list in the spec; records are read in that order.
    A page has no family: `family` is `PAGES`, and `name` its path from the checkout's root.
    """

    family: str
    kind: Literal["reference", "run", "page"]
    position: int
    name: str

    def __str__(self) -> str:
        if self.kind == "page":
            return self.name
        return f"{self.family}: {self.name}" + (" at full size" if self.kind == "reference" else "")

    @property
    def file(self) -> str:
        # quoted, so that a name can neither leave its folder nor collide with another's
        return f"{quote(self.family, safe='')}/{self.kind}-{self.position:02d}-{quote(self.name, safe='')}.json"


def records_folder(home: Path) -> Path:
    return home / "records"


def path_of(home: Path, unit: Unit) -> Path:
    return records_folder(home) / unit.file


def store(home: Path, unit: Unit, key: str, text: str) -> None:
    """Write a record and then its key; a crash between the two leaves a unit that is done again.

    Raises `NnpediaError` when it cannot be written, as on a full disk.
    """
    path = path_of(home, unit)
    try:
        write_atomically(path, text)
        write_atomically(path.with_suffix(".key"), f"{key} {_digest(text.encode())}\n")
    except OSError as error:
        raise NnpediaError(
            f"a record cannot be written ({error.strerror or error}); what was finished before it is kept",
            where=str(records_folder(home)),
        ) from None


def is_fresh(home: Path, unit: Unit, key: str) -> bool:
    """Whether the unit's record is whole and was made from what `key` stands for."""
    path = path_of(home, unit)
    try:
        said = path.with_suffix(".key").read_text().split()
        return said == [key, _digest(path.read_bytes())]
    except (OSError, UnicodeDecodeError):
        return False


def told_of(home: Path, unit: Unit) -> tuple[list[Problem], list[SnippetFact]]:
    """What the unit's record says is wrong, and what it says of snippets."""
    content = json.loads(path_of(home, unit).read_bytes())
    problems = [Problem(**problem) for problem in content.get("problems", [])]
    return problems, [SnippetFact(**fact) for fact in content.get("snippets", [])]


def parameters_of(home: Path, reference: Unit) -> int:
    """How many parameters a public checkpoint has, by its reference; 0 where there is none."""
    try:
        return int(json.loads(path_of(home, reference).read_bytes())["parameters"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return 0


def drop(home: Path, unit: Unit) -> None:
    """Forget the unit's record, so that nothing is published from what no longer holds."""
    path = path_of(home, unit)
    path.with_suffix(".key").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def prune(home: Path, keep: Iterable[Unit], spare: Collection[str] = ()) -> list[str]:
    """Delete every record but those of `keep` and of the families of `spare`; the names of the files deleted."""
    wanted = {path_of(home, unit) for unit in keep}
    gone = []
    for path in sorted(records_folder(home).glob("*/*")):
        if path.parent.name in spare:
            continue
        # a hidden file is a temporary one: whoever writes it holds the lock, so one found here was left by a crash
        if path.with_suffix(".json") not in wanted or path.name.startswith("."):
            path.unlink(missing_ok=True)
            if path.suffix == ".json":
                gone.append(f"{path.parent.name}/{path.name}")
    for folder in records_folder(home).glob("*/"):
        with contextlib.suppress(OSError):  # not empty: kept
            folder.rmdir()
    return gone


def load_all(home: Path, say: Callable[[str], None] = lambda line: None) -> dict[str, list[AnyRecord]]:
    """The families' records, by family: references and then runs, each in the spec's order.

    A record that cannot be read is treated as missing; `say` gets a line about it.
    """
    found: dict[str, list[AnyRecord]] = {}
    for path, content in _written(home, "*/*.json", say):
        record = _parsed(path, content, say)
        if record is not None and not isinstance(record, Page):
            found.setdefault(record.family, []).append(record)
    return found


def contents(home: Path, say: Callable[[str], None] = lambda line: None) -> dict[str, dict[Path, bytes]]:
    """The families' records as they are written, by family and path; `read_as` makes records of them."""
    found: dict[str, dict[Path, bytes]] = {}
    for path, content in _written(home, "*/*.json", say):
        found.setdefault(unquote(path.parent.name), {})[path] = content
    return found


def read_as(family: str, written: Mapping[Path, bytes], say: Callable[[str], None]) -> list[AnyRecord]:
    """The records of one family from what `contents` gives of it; otherwise as `load_all`."""
    records = (_parsed(path, content, say) for path, content in written.items())
    return [each for each in records if each is not None and not isinstance(each, Page) and each.family == family]


def load_pages(home: Path, say: Callable[[str], None] = lambda line: None) -> dict[str, Page]:
    """The hand-written pages' records, by the page's path; as `load_all` otherwise."""
    pages = (_parsed(path, content, say) for path, content in _written(home, f"{PAGES}/*.json", say))
    return {page.file: page for page in pages if isinstance(page, Page)}


def _written(home: Path, pattern: str, say: Callable[[str], None]) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(records_folder(home).glob(pattern)):
        if path.name.startswith("."):
            continue
        try:
            yield path, path.read_bytes()
        except OSError as error:
            say(_left_out(path, str(error)))


def _parsed(path: Path, content: bytes, say: Callable[[str], None]) -> Reference | Run | Page | None:
    try:
        return _ADAPTER.validate_json(content)
    except ValidationError as error:
        say(_left_out(path, str(error.errors()[0]["msg"])))
        return None


def _left_out(path: Path, reason: str) -> str:
    return f"{path}: this record cannot be read and is left out ({reason}); the next build makes it again"


@contextlib.contextmanager
def locked(home: Path, say: Callable[[str], None] = lambda line: None, seconds: float = 3600.0) -> Iterator[None]:
    """Hold the records' lock; a second build waits here until the first has ended, however it ends."""
    from filelock import FileLock, Timeout

    folder = records_folder(home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say("another build is at work on these records: waiting for it")
            lock.acquire(timeout=seconds)
    except Timeout:
        raise NnpediaError(f"another build has held the records for {seconds:g} s", where=str(folder)) from None
    except OSError as error:
        raise NnpediaError(
            f"the records cannot be written ({error.strerror}); set NNPEDIA_HOME to a folder that can",
            where=str(folder),
        ) from None
    try:
        yield
    finally:
        lock.release()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
