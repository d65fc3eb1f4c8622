"""The command line. Exit codes: 0 all is well, 1 something documented is wrong, 2 bad input.

Commands import what they need when they run, so that `--help`, `check` and `families` are quick.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from contextlib import nullcontext
from typing import Annotated, Any, NoReturn

import typer

from nnpedia.draft.line import draft
from nnpedia.errors import NnpediaError, one_line
from nnpedia.options import (
    CORES,
    Attention,
    Checkpoint,
    Device,
    Experts,
    Folder,
    Json,
    Names,
    Scheduler,
    Workers,
    chosen_folder,
    debugging,
    quiet,
    use,
)

app = typer.Typer(
    name="nnpedia",
    help="An encyclopedia of transformer families, built from specs and checked on live models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> NoReturn:
    """Run the command line; an error a user can mend is one line and its exit code, never a traceback."""
    try:
        app()
    except NnpediaError as error:
        _end(error, f"nnpedia: {error}", error.exit_code)
    except BrokenPipeError:  # the reader of our output has gone (`nnpedia families | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
    except Exception as error:
        _end(error, f"nnpedia: unexpected {one_line(error)} (nnpedia --debug shows where)", 1)
    sys.exit(0)


def _end(error: Exception, line: str, code: int) -> NoReturn:
    if debugging():
        raise error
    print(line, file=sys.stderr)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks, and what failed units printed.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"nnpedia {installed('nnpedia')}")
        raise typer.Exit
    if debug:
        os.environ["NNPEDIA_DEBUG"] = "1"


@app.command()
def build(
    names: Names = None,
    folder: Folder = None,
    workers: Workers = CORES,
    force: Annotated[bool, typer.Option("--force", help="Redo units whose inputs did not change.")] = False,
    site: Annotated[
        bool | None,
        typer.Option("--site/--no-site", help="Render the pages; by default in a checkout, when no family is named."),
    ] = None,
    hub: Annotated[bool, typer.Option("--hub", help="Run the public checkpoints of the Hub too.")] = False,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    listing: Annotated[bool, typer.Option("--list", help="Only say what there is to do, and what it needs.")] = False,
    as_json: Json = False,
) -> None:
    """Bring the records up to date, then the site."""
    from nnpedia.cache import checkout
    from nnpedia.runner import list_units, run_units

    use(folder)
    if listing:
        list_units(names, device, hub, as_json)
        return
    root = checkout()
    wanted = site if site is not None else root is not None and not names and folder is None
    if wanted and root is None:
        raise NnpediaError("the site is rendered in a checkout (a folder with mkdocs.yml); use --no-site here")
    code = run_units(names, workers, force, hub, as_json, device, scheduler)
    if wanted and root is not None:
        if code:
            print(
                f"public/ is left as it was{'' if (root / 'public').exists() else ': there is none yet'}",
                file=sys.stderr,
            )
        else:
            from nnpedia.cache import home
            from nnpedia.publish import publish
            from nnpedia.records import locked

            with locked(home()):  # pages are rendered from records that stay as they are
                publish(root, root / "public")
            print("the site is in public/", file=sys.stderr)
    raise typer.Exit(code)


@app.command()
def rosetta(
    names: Names = None,
    folder: Folder = None,
    force: Annotated[bool, typer.Option("--force", help="Compare again what was compared with this release.")] = False,
) -> None:
    """Compare the standard values with TransformerLens's hooks, on the same weights, where it is installed."""
    use(folder)
    with nullcontext() if sys.stderr.isatty() else quiet():
        from nnpedia.cache import families_folder, home
        from nnpedia.family import choose, family_folders, load_family
        from nnpedia.rosetta import check, record

        version = check.installed()
        known = family_folders(families_folder())
        for name in choose(names, known):
            family = load_family(known[name])
            found = record.load(home(), family, check.LIBRARY)
            if force or found is None or found.version != version:
                found = check.check(family, version)
                record.store(home(), found)
            alike = sum(row.verdict in ("equal", "arranged") for row in found.rows)
            print(f"{family.family}: {found.reason or f'{alike} of {len(found.rows)} places hold the value'}")


@app.command("test")
def run_checks(
    names: Names = None,
    folder: Folder = None,
    expression: Annotated[
        str | None,
        typer.Option("-k", metavar="EXPR", help="Only the snippets that match, as in pytest."),
    ] = None,
    workers: Workers = CORES,
    hub: Annotated[bool, typer.Option("--hub", help="Test the public checkpoints of the Hub too.")] = False,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Do every check again; with -k, only some snippets.

    What is checked: shapes, probes, laws, writes and snippets.
    """
    from nnpedia.runner import run_snippets, run_units

    use(folder)
    if expression is None:
        raise typer.Exit(run_units(names, workers, True, hub, as_json, device, scheduler))
    if device != "cpu" or scheduler is not None:
        raise NnpediaError("-k runs snippets here, through pytest: it takes no --device and no --scheduler")
    if as_json or hub:
        raise NnpediaError(f"-k runs snippets through pytest, which takes no {'--json' if as_json else '--hub'}")
    raise typer.Exit(run_snippets(names, expression))


@app.command()
def check(names: Names = None, folder: Folder = None, as_json: Json = False) -> None:
    """Validate specs and notes without loading a model."""
    use(folder)
    with quiet():
        from nnpedia.checking import check_families, unfinished
        from nnpedia.reporting import complain, print_json

        found = check_families(chosen_folder(), names)
    if as_json:
        print_json({name: [str(error) for error in errors] for name, errors in found.items()})
    else:
        for errors in found.values():
            for error in errors:
                complain(str(error))
        for line in unfinished(chosen_folder(), [name for name, errors in found.items() if not errors]):
            complain(line)
        wrong = sum(bool(errors) for errors in found.values())
        print(f"{len(found)} famil{'y' if len(found) == 1 else 'ies'} checked, {wrong} wrong")
    raise typer.Exit(max((error.exit_code for errors in found.values() for error in errors), default=0))


app.command()(draft)


@app.command()
def families(folder: Folder = None, as_json: Json = False) -> None:
    """List the families."""
    from nnpedia.family import load_families
    from nnpedia.reporting import print_json

    use(folder)
    known = load_families(chosen_folder())
    if as_json:
        print_json(
            [
                {
                    "family": name,
                    "title": family.title,
                    "extends": family.extends,
                    "since": family.since,
                    "badges": list(family.badges),
                    "checkpoints": [checkpoint.id for checkpoint in family.checkpoints],
                }
                for name, family in known.items()
            ]
        )
        return
    width = max((len(name) for name in known), default=0)
    for name, family in known.items():
        print(f"{name:{width}}  {family.title}" + (f" ({family.too_new})" if family.too_new else ""))


@app.command()
def support(
    checkpoint: Checkpoint,
    attn: Attention = None,
    experts: Experts = None,
    device: Device = "cpu",
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Say which values a load has, and why not the others."""
    from nnpedia.holding import listed
    from nnpedia.reporting import print_json

    use(folder)
    with quiet():
        model = _load(checkpoint, attn, experts, device)
        rows = model.support()
    if as_json:
        print_json([dataclasses.asdict(row) | {"load": dict(row.load)} for row in rows])
        return
    width = max((len(f"{row.host}.{row.name}") for row in rows), default=0)
    for row in rows:
        advice = " ".join(f"--{key.removesuffix('_implementation')} {choice}" for key, choice in row.load)
        some = f", on {listed(row.layers)}" if 0 < len(row.layers) < model.num_layers else ""
        says = f"yes{some}" if row.available else f"no: {row.reason}" + (f" (load with {advice})" if advice else "")
        print(f"{row.host}.{row.name}".ljust(width), "", says)


@app.command("print")
def print_model(
    checkpoint: Checkpoint,
    attn: Attention = None,
    experts: Experts = None,
    device: Device = "cpu",
    folder: Folder = None,
) -> None:
    """Print the tree under the standard names."""
    use(folder)
    with quiet():
        text = str(_load(checkpoint, attn, experts, device))
    print(text)


def _load(checkpoint: str, attn: str | None, experts: str | None, device: str) -> Any:
    """The checkpoint as a `StandardizedTransformer`."""
    from nnpedia import StandardizedTransformer

    return StandardizedTransformer(checkpoint, attn_implementation=attn, experts_implementation=experts, device=device)


if __name__ == "__main__":
    main()
