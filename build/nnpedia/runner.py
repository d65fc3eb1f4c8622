"""Running from the command line: units or snippets, what is told of them, and the exit code that sums it up."""

from __future__ import annotations

import os
import time

import typer

from nnpedia.errors import NnpediaError
from nnpedia.options import chosen_folder, debugging


def list_units(names: list[str] | None, device: str, hub: bool, as_json: bool) -> None:
    """Print what a build would look at."""
    from nnpedia import reporting, work

    planned = work.plan(names, device, hub)
    if as_json:
        reporting.print_json([reporting.plan_as_data(each) for each in planned])
        return
    for each in planned:
        print(f"{'done' if each.fresh else 'due':4}  {each.needs!s:>8}  {each.unit}")


def run_units(
    names: list[str] | None,
    workers: int,
    force: bool,
    hub: bool,
    as_json: bool,
    device: str = "cpu",
    scheduler: str | None = None,
) -> int:
    """Run the build's units and tell of them; the exit code."""
    from nnpedia import reporting, work

    if hub:
        os.environ["HF_HUB_OFFLINE"] = "0"
    started = time.monotonic()
    try:
        with reporting.telling() as tell:
            outcomes = work.build(
                names, workers=workers, force=force, hub=hub, device=device, scheduler=scheduler, on_event=tell
            )
    except KeyboardInterrupt:
        reporting.complain("interrupted; what was finished is kept")
        raise typer.Exit(130) from None
    reporting.complain_of(outcomes, chosen_folder().parent, debugging())
    if as_json:
        reporting.print_json(reporting.as_data(outcomes))
    else:
        print(reporting.summary(outcomes, time.monotonic() - started))
    return reporting.exit_code(outcomes)


def run_snippets(names: list[str] | None, expression: str) -> int:
    """Run the matching snippets through pytest, which knows such expressions; the exit code."""
    from importlib.util import find_spec

    from nnpedia.family import choose, family_folders

    if find_spec("pytest") is None:
        raise NnpediaError("-k selects through pytest, which is not installed: pip install 'nnpedia[test]'")
    import pytest

    known = family_folders(chosen_folder())
    notes = [str(known[name] / "notes.md") for name in choose(names, known)]
    known_already = "ignore::pytest.PytestAssertRewriteWarning"  # this package is imported before pytest is: no news
    code = int(pytest.main(["-q", "-W", known_already, "-k", expression, *notes]))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise NnpediaError(f"no snippet matches {expression!r}")
    return code if code in (0, 1) else 2
