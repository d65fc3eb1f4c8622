"""Options: what several commands of the command line take, and what each option does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

Names = Annotated[list[str] | None, typer.Argument(metavar="FAMILY", help="Which; all when none is named.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--families",
        metavar="DIR",
        help="A folder of families to use instead: a vocabulary.yml, and a folder for each family and each it extends.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Workers = Annotated[int, typer.Option(min=1, help="How many units run at once.")]
Checkpoint = Annotated[
    str,
    typer.Argument(metavar="CHECKPOINT", help="A Hub id, a folder, FAMILY:forge or FAMILY:NAME."),
]
Attention = Annotated[str | None, typer.Option("--attn", metavar="NAME", help="The attn_implementation to load with.")]
Experts = Annotated[
    str | None, typer.Option("--experts", metavar="NAME", help="The experts_implementation to load with.")
]
Device = Annotated[
    Literal["cpu", "cuda", "auto"],
    typer.Option(help="Where weights run; auto is an accelerator if there is one."),
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler (tcp://host:port) whose workers do the units.")
]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def debugging() -> bool:
    """Whether tracebacks are asked for, with `--debug` or NNPEDIA_DEBUG."""
    return os.environ.get("NNPEDIA_DEBUG", "") not in ("", "0")


def use(folder: Path | None) -> None:
    """Make `--families` hold for this process and for the workers it starts."""
    if folder is not None:
        os.environ["NNPEDIA_FAMILIES"] = str(folder.absolute())


def chosen_folder() -> Path:
    """The families folder in force."""
    from nnpedia.cache import families_folder

    return families_folder()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' progress bars and advice out of what is printed."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TQDM_DISABLE", "1")
    yield
