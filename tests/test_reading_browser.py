"""Whether everybody can read the pages: what axe finds, paper, less motion, the keyboard, no JavaScript."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browsing import Visiting

pytestmark = pytest.mark.browser

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
#: Pages of each kind: a path, or the folder whose first page stands for the others.
PAGES = (".", "families/gpt2", "families/phimoe", "families/qwen3_next", "matrix", "values/*", "compare")
PLAIN = (
    "families", "values", "laws", "laws/*", "readers", "badges", "badges/*", "library", "reuse", "getting-started",
    "add-a-family", "guarantees", "versions", "coverage", "translate", "cluster",
)  # fmt: skip


def one_of(public: Path, path: str) -> str | None:
    """The page a path stands for; None where the site has none."""
    folder, star, _ = path.partition("/*")
    if star:
        inside = sorted(each.parent.name for each in (public / folder).glob("*/index.html"))
        return f"{folder}/{inside[len(inside) // 2]}" if inside else None
    return path if (public / path.partition("?")[0] / "index.html").is_file() else None


def found(page: Any) -> list[str]:
    """What axe finds, a line for each place."""
    page.evaluate(AXE)
    told = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [f"{each['impact']} {each['id']}: {node['html'][:200]}" for each in told for node in each["nodes"]]


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_in_either_scheme(visiting: Visiting, public: Path, path: str) -> None:
    where = one_of(public, path)
    assert where, f"there is no page {path}"
    for scheme in ("light", "dark"):
        page = visiting(scheme=scheme).open(where)
        shown = page.evaluate("document.body.dataset.mdColorScheme")
        assert (scheme, shown) in {("light", "default"), ("dark", "slate")}
        assert found(page) == [], scheme


@pytest.mark.parametrize("path", PLAIN)
def test_axe_finds_nothing_on_the_other_pages(visiting: Visiting, public: Path, path: str) -> None:
    where = one_of(public, path)
    assert where, f"there is no page {path}"
    assert found(visiting(size="phone").open(where)) == []


@pytest.mark.parametrize("path", ["families/phimoe", "families/qwen3_next"])
def test_a_family_prints_light_whole_and_without_the_screen_s_parts(visiting: Visiting, path: str) -> None:
    page = visiting(scheme="dark").open(path)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 252, 250)"
    for part in (".md-header", ".md-tabs", ".md-sidebar", ".md-footer", ".headerlink"):
        assert not page.locator(part).first.is_visible(), part
    folded = page.locator("details:not([open]) :is(td, code)").first
    assert folded.bounding_box(), "what is folded away is not on paper"
    page.set_viewport_size({"width": 690, "height": 1000})  # the measure of A4 inside its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 690
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert 5 <= sheets <= 60


def test_less_motion_is_honoured(visiting: Visiting) -> None:
    page = visiting(reduced_motion="reduce").open("families/phimoe")
    moving = """() => [...document.querySelectorAll('*')].filter(node => { const style = getComputedStyle(node);
      return style.animationName !== 'none' || style.transitionDuration.split(', ').some(each => parseFloat(each) > 0)
        && style.transitionProperty !== 'none'; }).map(node => node.className)"""
    assert page.evaluate(moving) == []


def test_the_keyboard_starts_at_a_skip_link_and_every_stop_shows_where_it_is(visiting: Visiting) -> None:
    page = visiting().open("families/phimoe")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.classList.contains('md-skip')")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#block"
    bare = []
    for _ in range(25):
        page.keyboard.press("Tab")
        told = page.evaluate("""() => { const node = document.activeElement, style = getComputedStyle(node);
          const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
          const drawn = node.closest('svg') && node.querySelector('rect, circle:not(.nn-hit)');
          const bold = drawn && parseFloat(getComputedStyle(drawn).strokeWidth) >= 1.6;
          return ring || bold ? '' : `${node.tagName}.${node.className.baseVal ?? node.className}`; }""")
        bare += [told] if told else []
    assert bare == []


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_headings_are_in_order_on_every_kind_of_page(visiting: Visiting, public: Path, size: str) -> None:
    visit = visiting(size)
    for path in (*PAGES, *PLAIN):
        page = visit.open(one_of(public, path) or ".")
        levels = [
            int(each) for each in page.evaluate("[...document.querySelectorAll('.md-content :is(h1,h2,h3,h4,h5)')]"
            ".filter(each => each.checkVisibility()).map(each => each.tagName[1])")
        ]  # fmt: skip
        assert levels.count(1) == 1, path
        assert all(after <= before + 1 for before, after in pairwise(levels)), path


def test_everything_is_there_without_javascript(visiting: Visiting) -> None:
    page = visiting(javascript=False).open("families/phimoe")
    assert page.locator(".nn-chip").count() >= 20
    assert page.locator(".nn-values tr[id]").first.is_visible()
    assert page.locator("nav.md-tabs").is_visible()
