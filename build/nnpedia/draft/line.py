"""The command line of `nnpedia draft`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnpedia.errors import NnpediaError
from nnpedia.options import CORES, Folder, Json, Workers, chosen_folder, quiet, use


def draft(
    name: Annotated[
        str | None, typer.Argument(metavar="MODEL_TYPE|CHECKPOINT|FOLDER", help="What to draft a family of.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write it; the families folder by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a family that is there.")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Draft every model there is and write the coverage table.")
    ] = False,
    workers: Workers = CORES,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Write a family by looking at a live model; what cannot be proven is left as a todo."""
    from nnpedia.cache import home
    from nnpedia.draft import command

    use(folder)
    if (name is None) != measure:
        raise NnpediaError("name a model type, a checkpoint or a folder to draft, or measure with --measure; not both")
    with quiet():
        if name is None:
            print(command.measure(chosen_folder(), out or chosen_folder(), home(), workers))
            return
        told = command.run(name, chosen_folder(), out or chosen_folder(), force)
    print(told.as_json() if as_json else "\n".join(told.lines()))
    raise typer.Exit(told.exit_code)
