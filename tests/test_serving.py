"""Whoever writes notes beside `make serve` sees what was saved, soon, and no result of code that is no longer there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sample_records as samples

from nnpedia.entry import load_entry
from nnpedia.family import load_family
from nnpedia.serving import Shown

NOTES = """## One

```python
assert 1
```

```python continues
assert 2
```

## Two

```python attn_implementation=eager
print(3)
```
"""


def told(folder: Path, before: str, after: str) -> list[tuple[int, str, bool]]:
    """Line, section and verdict of each fence, for notes that were run and then edited."""
    notes = folder / "notes.md"
    notes.write_text(before)
    runs = samples.entry(folder).runs
    notes.write_text(after)
    edited = load_entry(load_family(folder), runs, stale=True)
    return [(fact.line, fact.section, fact.ran) for fact in edited.snippets]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(Path(__file__).parent.parent / "families", tmp_path / "families")
    return tmp_path / "families/llama"


def test_a_fence_that_moves_keeps_what_its_run_gave(folder: Path) -> None:
    assert told(folder, NOTES, NOTES) == [(4, "One", True), (8, "One", True), (14, "Two", True)]
    moved = NOTES.replace("## One", "A sentence.\n\n## Now one")
    assert told(folder, NOTES, moved) == [(6, "Now one", True), (10, "Now one", True), (16, "Two", True)]
    gone = NOTES.partition("## Two")[2]
    assert told(folder, NOTES, "## Two" + gone) == [(4, "Two", True)]


@pytest.mark.parametrize(
    ("edit", "ran"),
    [
        (("assert 1", "assert 7"), [False, False, True]),  # the second stands on the first
        (("assert 2", "assert 7"), [True, False, True]),
        (("=eager", "=sdpa"), [True, True, False]),
        (("## Two", "```python\nassert 4\n```\n\n## Two"), [True, True, False, True]),
    ],
)
def test_a_fence_that_changed_is_told_as_not_run(folder: Path, edit: tuple[str, str], ran: list[bool]) -> None:
    assert [each for _, _, each in told(folder, NOTES, NOTES.replace(*edit))] == ran


def test_a_page_is_left_only_when_what_stands_on_disk_says_the_same(tmp_path: Path) -> None:
    shown = Shown()
    page: Any = SimpleNamespace(src_uri="a.md", abs_dest_path=str(tmp_path / "a.html"))

    def modified(said: str) -> bool:
        shown.leave([page], lambda _: said)
        return bool(page.is_modified())

    assert modified("x")
    Path(page.abs_dest_path).write_text("x")
    assert modified("x")  # the build that would have written it never came to its end
    shown.done()
    assert not modified("x")
    assert modified("y")
    shown.done()
    os.remove(page.abs_dest_path)
    assert modified("y")


SERVED = """
import sys
from pathlib import Path
from mkdocs.commands.build import build
from mkdocs.config import load_config

site, notes = Path(sys.argv[1]), Path("families/llama/notes.md")
page = site / "families/llama/index.html"

def again():
    before = {path: path.stat().st_mtime_ns for path in site.rglob("index.html")}
    config = load_config("mkdocs.yml", site_dir=str(site), strict=False)
    if not before:
        config.plugins.on_startup(command="serve", dirty=True)
    build(config, serve_url="http://127.0.0.1/", dirty=True)
    return {path.relative_to(site).as_posix() for path, when in before.items() if path.stat().st_mtime_ns != when}

again()
words = notes.read_text()
assert "class=\\"nn-result nn-result--unrun" not in page.read_text()
notes.write_text("A sentence more.\\n\\n" + words)
made = again()
assert made == {"families/llama/index.html"}, made
assert "A sentence more." in page.read_text() and "nn-result--unrun" not in page.read_text()
notes.write_text(words.replace("assert torch.equal", "assert not torch.equal", 1))
made = again()
assert made == {"families/llama/index.html", "index.html", "families/index.html"}, "cards count the snippets that ran"
assert page.read_text().count("since it changed") >= 1
spec = notes.with_name("family.yml")
spec.write_text(spec.read_text().replace("title: ", "title: Renamed ", 1))
assert {"index.html", "families/phimoe/index.html"} <= again(), "what names the family says its new name"
assert "Renamed" in (site / "index.html").read_text()
notes.write_text("A last sentence.\\n\\n" + words.replace("## ", "## Newly called ", 1))
assert again() >= {"index.html"}, "every snippet has run again"
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_server_makes_again_what_changed_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVED, str(tmp_path / "served")],
        cwd=checkout, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "'dirty' build" not in done.stderr
    shutil.rmtree(tmp_path / "home" / "kept")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "cold")],
        cwd=checkout, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    served, made = contents(tmp_path / "served"), contents(tmp_path / "cold")
    assert b"Newly called" in made["families/llama/index.html"]
    assert served.keys() == made.keys()
    assert [name for name in made if served[name] != made[name]] == []
