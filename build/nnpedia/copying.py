"""What a snippet needs before it where it runs alone: imports, its model, the prompt, and what it continues."""

from __future__ import annotations

from nnpedia.entry import Entry
from nnpedia.fences import chain, read_document
from nnpedia.record import Run

IMPORTS = ("import torch", "from nnpedia import StandardizedTransformer")


def load_line(family: str, run: Run, load: dict[str, str]) -> str:
    """What loads a run's checkpoint: `model = StandardizedTransformer("phimoe:forge", …)`, and its weights at once.

    The build's snippets get a model whose weights are there; left alone they come with the first trace.
    """
    checkpoint = run.origin.id if run.origin.source == "hub" else f"{family}:{run.origin.name}"
    options = "".join(f', {key}="{choice}"' for key, choice in load.items())
    return f'model = StandardizedTransformer("{checkpoint}"{options})\nmodel.dispatch()'


def setups(entry: Entry) -> dict[int, str]:
    """By the line of a snippet that ran, the code that has to run before it in a fresh interpreter."""
    runs = {run.origin.name: run for run in entry.runs}
    fences = list(read_document(entry.notes_file, entry.notes).fences)
    by_line = {fence.line: fence for fence in fences}
    found = {}
    for fact in entry.snippets:
        if fact.ran and fact.on in runs and fact.line in by_line:
            run = runs[fact.on]
            before = [fence.code for fence in chain(fences, by_line[fact.line])[:-1]]
            opening = "\n".join([*IMPORTS, "", load_line(entry.name, run, fact.load), f"prompt = {run.prompt!r}"])
            found[fact.line] = "\n\n".join([opening, *before]) + "\n"
    return found
