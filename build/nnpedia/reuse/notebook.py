"""Notebooks: a family's notes as one that runs where the package is installed.

A page's snippets each start from fresh names; the cells of a notebook share theirs. So a cell
begins with the lines that give it what its snippet had: the model, loaded as the snippet wants
it, and the prompt, each said again only where the cells before left something else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode, v4

from nnpedia.copying import IMPORTS, load_line
from nnpedia.entry import Entry
from nnpedia.record import Run, SnippetFact
from nnpedia.reuse.passages import Passage, from_notes, passages

INSTALL = "# where nnpedia is not installed yet, in a checkout of its repository:\n# %pip install '.[weights]'"


def notebook(entry: Entry) -> str:
    """The notebook of a built family, as it is written; its outputs are those the build recorded."""
    cells = [v4.new_markdown_cell(heading(entry)), v4.new_code_cell(INSTALL)]
    cells += Cells(entry.runs, entry.name).made(notes_passages(entry, "ipynb"))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # nbformat draws them at random
    made = v4.new_notebook(cells=cells)
    made.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "title": entry.family.title,
        }
    )
    nbformat.validate(made)
    return nbformat.writes(made, version=4) + "\n"


def notes_passages(entry: Entry, extension: str) -> list[Passage]:
    return passages(entry.notes, entry.notes_file, entry.snippets, from_notes(extension))


def heading(entry: Entry) -> str:
    versions = entry.runs[0].versions
    return (
        f"# {entry.family.title}\n\n{' '.join(entry.family.subtitle.split())}\n\n"
        f"The notes of [the family's page](./index.html). Outputs are those of nnpedia {versions.nnpedia}, torch "
        f"{versions.torch}, transformers {versions.transformers} and nnsight {versions.nnsight}."
    )


@dataclass
class Cells:
    """The cells of one notebook, and which lines the names of its kernel stand by at this point."""

    runs: Sequence[Run]
    family: str
    holds: dict[str, str] = field(default_factory=dict)

    def made(self, passages: Sequence[Passage]) -> Iterator[NotebookNode]:
        yield self.opening(next((passage.fact for passage in passages if passage.fact and passage.fact.ran), None))
        for passage in passages:
            if passage.fact is None:
                yield v4.new_markdown_cell(passage.text)
            elif not passage.fact.ran:
                reason = f"Not run: {passage.fact.reason}."
                yield v4.new_markdown_cell(f"```python\n{passage.fact.code}\n```\n\n{reason}")
            else:
                yield self.snippet(passage.fact, continues=passage.fence is not None and passage.fence.continues)

    def opening(self, first: SnippetFact | None) -> NotebookNode:
        lines = list(IMPORTS)
        if first is None:
            return v4.new_code_cell("\n".join(lines))
        needed = self.needed(first)
        self.holds = dict(needed)
        lines += ["", "torch.manual_seed(0)", *needed.values()]
        return v4.new_code_cell("\n".join(lines))

    def snippet(self, fact: SnippetFact, continues: bool) -> NotebookNode:
        needed = {} if continues else self.needed(fact)
        before = [line for name, line in needed.items() if self.holds.get(name) != line]
        self.holds |= needed
        for name in assigned(fact.code) & set(self.holds):
            del self.holds[name]
        code = "\n".join([*before, *([""] if before else []), fact.code])
        outputs = [v4.new_output("stream", name="stdout", text=fact.output)] if fact.output else []
        return v4.new_code_cell(code, outputs=outputs)

    def needed(self, fact: SnippetFact) -> dict[str, str]:
        """By name, the line that gives it the value that a snippet starts with."""
        run = next(run for run in self.runs if run.origin.name == fact.on)
        return {"model": load_line(self.family, run, fact.load), "prompt": f"prompt = {run.prompt!r}"}


def assigned(code: str) -> set[str]:
    """The names that code binds anywhere."""
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and not is_read(node)}


def is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)
