"""Publishing: records, templates and hand-written pages into `public/`, all of it or nothing.

MkDocs builds into a folder beside the old site, in strict mode, and the two change places only
when that went well. A site whose inputs are those it was made from is left alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from nnpedia.cache import families_folder, home, templates_folder
from nnpedia.errors import BuildFailure
from nnpedia.family import load_families
from nnpedia.versions import installed

MARK = ".inputs"
_PACKAGES = (
    "mkdocs",
    "mkdocs-material",
    "pymdown-extensions",
    "markdown",
    "pygments",
    "jinja2",
    "nbformat",
    "sphobjinv",
)


def publish(root: Path, out: Path) -> None:
    """Build the site of the checkout `root` into `out`, unless it is there already.

    Raises `BuildFailure` when a family has no records or MkDocs finds something wrong; `out`
    is then what it was.
    """
    root, out = root.resolve(), out.resolve()
    with FileLock(home() / ".publish.lock"):  # of two builds at once the second finds the first one's site
        recover(out)
        key = inputs_key(root)
        if read_mark(out) == key:
            return
        check_recorded(root)
        fresh = out.with_name(f"{out.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            run_mkdocs(root, fresh)
            (fresh / MARK).write_text(key, encoding="utf-8")
            swap(fresh, out)
        except OSError as error:
            raise BuildFailure(f"the site cannot be written ({error.strerror or error})", where=str(out)) from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def check_recorded(root: Path) -> None:
    """Raises `BuildFailure` for a family, or a hand-written page with Python on it, that no record speaks of."""
    from nnpedia.fences import fences
    from nnpedia.records import load_pages

    unbuilt = families_without_records()
    if unbuilt:
        names = " ".join(unbuilt)
        raise BuildFailure(f"no records yet of {names}; run `nnpedia build {names}`", where=str(home() / "records"))
    pages = load_pages(home())
    for path in sorted((root / "site").rglob("*.md")):
        name = path.relative_to(root).as_posix()
        if name not in pages and fences(path):
            raise BuildFailure("nothing says what the Python on this page gives; run `nnpedia build`", where=name)


def families_without_records() -> list[str]:
    """The families that a build would have made records of; not those that need a newer transformers."""
    names = [name for name, family in load_families(families_folder()).items() if not family.too_new]
    return [name for name in names if not any((home() / "records" / name).glob("*.json"))]


def inputs_key(root: Path) -> str:
    """A hash of everything the site is made from."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        digest.update(f"{package} {installed(package)}\0".encode())
    families, code = families_folder(), Path(__file__).parent
    folders = [
        ("site", root / "site", "*"),
        ("families", families, "*"),
        ("templates", templates_folder(), "*"),
        ("code", code, "*.py"),
        ("records", home() / "records", "*.json"),
        ("rosetta", home() / "rosetta", "*.json"),
    ]
    digest.update((root / "mkdocs.yml").read_bytes())
    for path in (root / "CHANGELOG.md", home() / "bench" / "bench.json"):
        if path.exists():
            digest.update(path.read_bytes())
    digest.update(os.environ.get("NNPEDIA_SITE_URL", "").encode())
    for label, folder, pattern in folders:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{label}/{path.relative_to(folder).as_posix()} {content}\0".encode())
    return digest.hexdigest()


def read_mark(out: Path) -> str | None:
    try:
        return (out / MARK).read_text(encoding="utf-8")
    except OSError:
        return None


def run_mkdocs(root: Path, target: Path) -> None:
    # Neither -q nor -v: the first stops strict mode from counting, the second from checking anchors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(root / "mkdocs.yml"), "-d", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailure(complaint(done.stdout + done.stderr))


def complaint(output: str) -> str:
    """The warnings and errors of a MkDocs run, in one line; its last line when there are none."""
    lines = re.findall(r"^(?:WARNING|ERROR)\s+-\s+(.*)$", output, re.MULTILINE)
    return "; ".join(lines[:20]) or next(iter(reversed(output.strip().splitlines())), "mkdocs ended without a word")


def swap(fresh: Path, out: Path) -> None:
    """Put `fresh` where `out` is. A crash between the two renames leaves the old site for `recover`."""
    old = kept(out)
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    fresh.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def recover(out: Path) -> None:
    """Bring back a site that a crash left under its other name."""
    if kept(out).exists() and not out.exists():
        kept(out).rename(out)


def kept(out: Path) -> Path:
    return out.with_name(f"{out.name}.old")
