"""What a reader who takes a notebook home would be wronged by: a cell that fails, or gives what the page does not say.

Every family's notebook is executed by nbclient. They share one kernel, whose names are cleared in between: most of a
kernel's time goes to imports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import sample_records as samples
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode, v4

from nnpedia.cache import families_folder
from nnpedia.entry import Entry, load_entries
from nnpedia.family import family_folders
from nnpedia.fences import read_document
from nnpedia.record import SnippetFact
from nnpedia.reuse.notebook import notebook

pytestmark = pytest.mark.slow
FAMILIES = samples.FAMILIES


@pytest.fixture(scope="module")
def entries(home: Path) -> dict[str, Entry]:
    return load_entries(families_folder(), home)


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookClient]:
    """A client whose kernel runs."""
    client = NotebookClient(v4.new_notebook(), timeout=300, km=KernelManager(kernel_name="python3"))
    client.start_new_kernel()
    client.start_new_kernel_client()
    yield client
    client.kc.stop_channels()
    client.km.shutdown_kernel(now=True)


def outputs(cell: NotebookNode) -> list[str]:
    """The words a cell printed or ended in; IPython breaks long lists into lines."""
    given = cell.get("outputs", [])
    printed = [each.text for each in given if each.output_type == "stream" and each.name == "stdout"]
    ended = [each.data["text/plain"] for each in given if each.output_type == "execute_result"]
    return "".join([*printed, *ended]).split()


@pytest.mark.parametrize("family", sorted(family_folders(FAMILIES)))
def test_the_notebook_runs_and_gives_what_the_page_says(
    family: str, entries: dict[str, Entry], kernel: NotebookClient
) -> None:
    if not entries[family].built:
        pytest.skip("no records of this family: `nnpedia build` makes them")
    made = nbformat.reads(notebook(entries[family]), 4)
    recorded = [outputs(cell) for cell in made.cells if cell.cell_type == "code"]
    kernel.nb = v4.new_notebook(cells=[v4.new_code_cell("%reset -f"), *made.cells])
    for index, cell in enumerate(kernel.nb.cells):
        kernel.execute_cell(cell, index)
    ran = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [outputs(cell) for cell in ran] == recorded
    assert sum(snippet.ran for snippet in entries[family].snippets) == len(ran) - 2  # all but install and import


def with_notes(notes: str) -> Entry:
    """phimoe as if built with other notes."""
    entry = samples.entry(FAMILIES / "phimoe")
    facts = [
        SnippetFact(file="notes.md", line=fence.line, section=fence.section, code=fence.code, ran=fence.runs,
                    reason=fence.reason, on="forge", load=fence.load)
        for fence in read_document("notes.md", notes).fences
    ]  # fmt: skip
    runs = [entry.runs[0].model_copy(update={"snippets": facts})]
    return replace(entry, notes=notes, notes_file="notes.md", runs=runs)


def code_of(entry: Entry) -> list[str]:
    return [cell.source for cell in nbformat.reads(notebook(entry), 4).cells if cell.cell_type == "code"]


def test_each_cell_starts_with_the_model_its_snippet_had() -> None:
    notes = (
        "## One\n\n```python\nprint(1)\n```\n\nwords\n\n```python attn_implementation=eager\nmodel = None\n```\n\n"
        "```python continues\nprint(model)\n```\n\n```python\nprompt = ''\n```\n\n```python\nassert prompt\n```\n"
    )
    entry = with_notes(notes)
    first, *cells = code_of(entry)[1:]
    plain = 'model = StandardizedTransformer("phimoe:forge")\nmodel.dispatch()\n'
    eager = 'model = StandardizedTransformer("phimoe:forge", attn_implementation="eager")\nmodel.dispatch()\n'
    prompt = f"prompt = {entry.runs[0].prompt!r}\n"
    assert first.endswith(f"{plain}{prompt}".rstrip())
    assert cells[0] == "print(1)"
    assert cells[1] == f"{eager}\nmodel = None"
    assert cells[2] == "print(model)"
    assert cells[3] == f"{plain}\nprompt = ''"
    assert cells[4] == f"{prompt}\nassert prompt"


def test_pseudo_code_and_what_is_marked_as_not_run_are_no_code_cells() -> None:
    notes = '## One\n\n```\na = b\n```\n\n```python norun="it takes a week"\nslow()\n```\n\n```python\nprint(1)\n```\n'
    entry = with_notes(notes)
    assert code_of(entry)[2:] == ["print(1)"]
    prose = [cell.source for cell in nbformat.reads(notebook(entry), 4).cells if cell.cell_type == "markdown"]
    assert any("slow()" in text and "it takes a week" in text for text in prose)
    assert any("a = b" in text for text in prose)


def test_a_notebook_is_the_same_every_time() -> None:
    entry = samples.entry(FAMILIES / "phimoe")
    assert notebook(entry) == notebook(entry)
    assert len({cell["id"] for cell in json.loads(notebook(entry))["cells"]}) > 3
