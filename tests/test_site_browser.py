"""The site in a real Chromium: no console error, no failed or foreign request, nothing wider than the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Visiting, telling_pages

pytestmark = pytest.mark.browser


def test_every_kind_of_page_opens_cleanly_and_fits_every_width(visiting: Visiting, public: Path) -> None:
    visit = visiting()
    for path in telling_pages(public):
        page = visit.open(path)
        assert visit.problems() == []
        for width in (390, 768, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than {width}"


#: Names that stand on more than one line, in what is no preformatted text; a `<wbr>` ends a text.
CUT = """() => {
  const cut = [], range = document.createRange();
  const texts = document.createTreeWalker(document.querySelector(".md-content"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, box = text.parentElement;
    if (!box.checkVisibility() || box.closest("pre, svg, .nn-hidden")) continue;
    for (const word of text.data.matchAll(/\\w{2,}/g)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width);
      if (boxes.some(box => box.top > boxes[0].top + 4)) cut.push(word[0]);
    }
  }
  return cut;
}"""


@pytest.mark.parametrize("path", ["families/gpt2", "families/phimoe", "versions", "laws", "readers"])
def test_no_name_is_cut_where_its_column_ends(visiting: Visiting, path: str) -> None:
    page = visiting().open(path)
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate(CUT) == []


@pytest.mark.parametrize("path", ["values/self_attn.attention_probabilities", "laws/self_attn.scores"])
def test_what_is_said_of_a_value_or_a_law_stands_on_nothing_else(visiting: Visiting, path: str) -> None:
    for size in ("desk", "phone"):
        page = visiting(size=size).open(path)
        facts, below = page.locator("dl").first.bounding_box(), page.locator("h2").first.bounding_box()
        assert facts["y"] + facts["height"] <= below["y"], f"on a {size}"


@pytest.mark.parametrize("family", ["gpt2", "phimoe", "qwen3_next"])
def test_a_value_row_is_reached_by_its_own_link_and_by_its_chip(visiting: Visiting, family: str) -> None:
    page = visiting().open(f"families/{family}")
    rows = "[...document.querySelectorAll('.nn-values .nn-name')]"
    names = page.evaluate(f"{rows}.map(a => a.getAttribute('href'))")
    assert len(names) >= 25
    shown = page.evaluate(f"{rows}.filter(a => !a.closest('details')).map(a => a.hash)")
    for name in shown[:: len(shown) // 5]:
        page.click(f'.nn-values .nn-name[href="{name}"]')
        assert page.evaluate("location.hash") == name
        assert page.evaluate("document.querySelector(':target').getBoundingClientRect().top") < 900
    chips = page.evaluate("[...document.querySelectorAll('.nn-chip')].map(a => a.getAttribute('href'))")
    assert chips
    assert set(chips) <= set(names)


def test_a_link_to_a_value_of_an_absent_host_unfolds_it(visiting: Visiting) -> None:
    visit = visiting()
    visit.open("families/phimoe#value-linear_attn-keys")
    assert visit.page.locator("[id='value-linear_attn-keys']").is_visible()


def test_a_condition_opens_on_hover_and_on_focus(visiting: Visiting) -> None:
    visit = visiting()
    visit.open("families/phimoe")
    condition = visit.page.locator(".nn-condition:has(.nn-tip)").first
    assert "needs " in condition.inner_text()
    tip = condition.locator(".nn-tip")
    assert not tip.is_visible()
    condition.hover()
    assert tip.is_visible()
    visit.page.mouse.move(0, 0)
    condition.focus()
    assert tip.is_visible()


def test_the_scheme_can_be_changed(visiting: Visiting) -> None:
    visit = visiting()
    visit.open(".")
    assert visit.page.evaluate("document.body.dataset.mdColorScheme") == "default"
    visit.page.click("label[title='Dark colours']")
    assert visit.page.evaluate("document.body.dataset.mdColorScheme") == "slate"
