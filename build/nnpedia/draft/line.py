"""The command line of `nnpedia draft`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnpedia.errors import NnpediaError
from nnpedia.options import CORES, Folder, Json, Workers, chosen_folder, quiet, use


def draft(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL_TYPE|CHECKPOINT|FOLDER", help="What to draft a family of; model types, to measure."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write it; the families folder by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a family that is there.")] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Draft the types named, or all there are, and write their rows of coverage.json."
        ),
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Measure rows that are up to date as well.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Measure, and say which rows are otherwise; nothing is written.")
    ] = False,
    workers: Workers = CORES,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Write a family by looking at a live model; what cannot be proven is left as a todo."""
    from nnpedia.draft import command

    use(folder)
    chosen = chosen_folder()
    with quiet():
        if compare:
            lines = command.compare(chosen, workers, names or [])
            print("\n".join(lines) or "every row measured is as the table has it")
            raise typer.Exit(int(bool(lines)))
        if measure:
            print(command.measure(chosen, out or chosen, workers, names or [], again))
            return
        if len(names or []) != 1:
            raise NnpediaError("name one model type, checkpoint or folder to draft, or measure with --measure")
        told = command.run((names or [""])[0], chosen, out or chosen, force)
    print(told.as_json() if as_json else "\n".join(told.lines()))
    raise typer.Exit(told.exit_code)
