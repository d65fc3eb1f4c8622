"""What a page costs its reader: bytes as they go over the wire, and the time until something is painted."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from browsing import Visiting, packed

KB = 1024
ALL, MARKUP = 350 * KB, 60 * KB
PAINTED = 1000  # milliseconds


def family_pages(public: Path) -> list[Path]:
    return sorted((public / "families").glob("*/index.html"), key=lambda path: -len(packed(path)))


def test_no_family_s_markup_is_heavy(public: Path) -> None:
    sizes = {path.parent.name: len(packed(path)) for path in family_pages(public)}
    assert len(sizes) > 1
    assert {name: size for name, size in sizes.items() if size > MARKUP} == {}


def test_nothing_is_published_that_no_page_loads(public: Path) -> None:
    left = [path.relative_to(public).as_posix() for path in public.rglob("*") if path.suffix == ".map"]
    assert left == []
    for path in [*public.glob("assets/**/*.js"), *public.glob("assets/**/*.css")]:
        assert "sourceMappingURL" not in path.read_text(encoding="utf-8")[-400:], path
    assert [path.name for path in (public / "css").iterdir()] == ["nnpedia.css"]


@pytest.mark.browser
def test_the_heaviest_families_transfer_little_and_paint_soon(visiting: Visiting, public: Path) -> None:
    for path in family_pages(public)[:3]:
        visit = visiting()
        sizes, kinds = listening(visit)
        page = visit.open(f"families/{path.parent.name}")
        page.wait_for_load_state("networkidle")
        told = {url.rpartition("/below/")[2]: size for url, size in sizes.items()}
        assert sum(told.values()) <= ALL, told
        assert kinds["Document"] <= MARKUP
        assert kinds["Stylesheet"] > 5 * KB  # what is counted is what came
        assert kinds["Font"] > 5 * KB
        assert soonest(visit, f"families/{path.parent.name}") < PAINTED


def listening(visit: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Bytes over the wire, heads included, by address and by kind of resource; filled while pages load."""
    wire = visit.context.new_cdp_session(visit.page)
    wire.send("Network.enable")
    wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
    asked: dict[str, tuple[str, str]] = {}
    sizes: dict[str, float] = defaultdict(float)
    kinds: dict[str, float] = defaultdict(float)

    def received(event: Any) -> None:
        asked[event["requestId"]] = event["response"]["url"], event["type"]

    def finished(event: Any) -> None:
        url, kind = asked.get(event["requestId"], ("?", "?"))
        sizes[url] += event["encodedDataLength"]
        kinds[kind] += event["encodedDataLength"]

    wire.on("Network.responseReceived", received)
    wire.on("Network.loadingFinished", finished)
    return sizes, kinds


def soonest(visit: Any, path: str) -> float:
    """The time to the first contentful paint, the best of three loads: other work on the machine is no page's fault."""
    paints = []
    for _ in range(3):
        page = visit.open(path)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    return float(min(paints))
