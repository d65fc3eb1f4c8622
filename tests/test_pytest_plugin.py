"""`pytest families/…/notes.md` makes each snippet a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

NOTES = """\
# Tiny

## The first section

```python
with model.trace(prompt):
    h = model.lm_head.output.save()
assert h.shape[0] == 1
```

```python continues
print("seen", tuple(h.shape))
```

## The second

```python
with model.trace(prompt):
    h = model.lm_head.output.save()
    h.nope
print(h)
```

```python norun="slow"
never
```

```py
misspelt
```
"""

CONFTEST = """\
from tiny_gpt2 import tiny_gpt2

def load(options, on):
    print("LOADED", options, on)
    return tiny_gpt2()

def pytest_nnpedia_loader(path, config):
    return load, "The Eiffel Tower"
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    folder = tmp_path / "families" / "tiny"
    folder.mkdir(parents=True)
    (folder / "family.yml").write_text("family: tiny\n")
    (folder / "notes.md").write_text(NOTES)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run_pytest(folder: Path, *arguments: str) -> str:
    paths = [str(HERE), str(HERE.parent / "build"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    # Where the package is not installed its entry point is not there either.
    plugin = [] if _installed() else ["-p", "nnpedia.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == "nnpedia.pytest_plugin" for entry in entry_points(group="pytest11"))


def test_each_snippet_is_an_item(family: Path) -> None:
    told = run_pytest(family, "--collect-only", "-q", "families")
    assert [line for line in told.splitlines() if "::" in line] == [
        "families/tiny/notes.md::the-first-section:6",
        "families/tiny/notes.md::the-first-section:12",
        "families/tiny/notes.md::the-second:18",
        "families/tiny/notes.md::the-second:29",
    ]


def test_failures_show_the_line_and_the_snippet_alone_and_lf_repeats_them(family: Path) -> None:
    told = run_pytest(family, "families/tiny/notes.md", "-v", "-s")
    assert re.search(r"2 failed, 2 passed", told)
    assert told.count("LOADED") == 1
    assert "families/tiny/notes.md:20: AttributeError: 'Tensor' object has no attribute 'nope'" in told
    assert ">   20 |     h.nope" in told
    assert "   18 | with model.trace(prompt):" in told
    assert "site-packages" not in told.partition("FAILURES")[2]
    assert "notes.md:29: renders as Python and is not run: write ```python, not ```py" in told
    again = run_pytest(family, "families/tiny/notes.md", "--lf")
    assert "2 failed" in again
    assert "passed" not in again


def test_a_fence_that_continues_runs_alone(family: Path) -> None:
    told = run_pytest(family, "families/tiny/notes.md", "-k", "12", "-rP")
    assert "1 passed, 3 deselected" in told
    assert "seen (1, 16, 257)" in told


def test_a_page_named_on_the_command_line_is_collected_and_no_other(family: Path) -> None:
    (family / "README.md").write_text("# R\n\n```python\nassert True\n```\n\n- ```python\n  x\n  ```\n")
    assert "page:7" in run_pytest(family, "README.md", "--collect-only", "-q")
    assert "README" not in run_pytest(family, ".", "--collect-only", "-q")
