"""The Speed page, made of the bench's numbers; there is none where the bench has not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nnpedia import pages
from nnpedia.bench import results


def speed_pages(home: Path) -> list[pages.Page]:
    """The page, or no page. Raises `NnpediaError` for a file of numbers that is not the bench's own."""
    found = results.load(home)
    if found is None:
        return []
    build = found.get("build", {})
    html = pages.render(
        "speed.html",
        machine=found["machine"],
        rows=results.library_rows(found),
        repeats=found.get("library", {}).get("repeats", 0),
        loads=loads(found),
        skipped=[(who, said["skipped"]) for who, said in found.get("peers", {}).items() if skipped(said)],
        plot=results.plot(build.get("cold", [])),
        edits=build.get("edits"),
        served=build.get("served"),
        WIDTH=results.WIDTH, HEIGHT=results.HEIGHT, LEFT=results.LEFT, RIGHT=results.RIGHT, TOP=results.TOP,
        BOTTOM=results.BOTTOM,
    )  # fmt: skip
    return [
        pages.Page("speed.md", "Speed", html, description="What reading values and building pages cost.", wide=True)
    ]


def loads(found: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Who, the seconds of a load, and those of them that `from_pretrained` does not take."""
    measured = {"nnpedia": found.get("library", {}), **found.get("peers", {})}
    rows = [(who, said["load"]) for who, said in measured.items() if isinstance(said, dict) and "load" in said]
    return [(who, load["load"]["seconds"], load["load"]["seconds"] - load["bare"]["seconds"]) for who, load in rows]


def skipped(said: Any) -> bool:
    return isinstance(said, dict) and "skipped" in said
