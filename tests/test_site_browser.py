"""The site in a real Chromium: no console error, no failed or foreign request, nothing wider than the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import SCHEMES, SIZES, Visiting, pages_of, telling_pages

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_every_page_opens_cleanly_fits_and_can_be_read(
    visiting: Visiting, public: Path, size: str, scheme: str
) -> None:
    visit = visiting(size, scheme)
    for path in telling_pages(public):
        page = visit.open(path)
        assert visit.problems() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0], f"{path} is wider"
        assert page.evaluate(FAINT) == [], path


def test_every_value_row_is_reached_by_its_own_link(visiting: Visiting, public: Path) -> None:
    visit = visiting()
    for path in [path for path in pages_of(public) if path.startswith("families/")]:
        visit.open(path)
        names = visit.page.evaluate(
            "[...document.querySelectorAll('.nn-values .nn-name')].map(a => a.getAttribute('href'))"
        )
        assert len(names) >= 25
        shown = visit.page.evaluate(
            "[...document.querySelectorAll('.nn-values .nn-name')].filter(a => !a.closest('details')).map(a => a.hash)"
        )
        for name in shown[:: max(1, len(shown) // 6)]:
            visit.page.click(f'.nn-values .nn-name[href="{name}"]')
            assert visit.page.evaluate("location.hash") == name
            assert visit.page.evaluate("document.querySelector(':target').getBoundingClientRect().top") < 900
        chips = visit.page.evaluate("[...document.querySelectorAll('.nn-chip')].map(a => a.getAttribute('href'))")
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


# Text of less than 4.5 to 1 against the nearest solid ground behind it, as WCAG reckons it.
FAINT = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = node => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set(), SEEN = {opacityProperty: true, visibilityProperty: true};
  for (const node of document.querySelectorAll('.md-content *, .md-tabs *, .md-nav *')) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!own || node.closest('svg, .headerlink, .md-clipboard, [hidden]') || !node.checkVisibility(SEEN)) continue;
    const style = getComputedStyle(node), color = parse(style.color);
    if (color.length === 4 && color[3] < 1) { found.add(`${node.className} is see-through`); continue; }
    for (let at = node; at; at = at.parentElement)
      if (getComputedStyle(at).opacity < 1) found.add(`${node.tagName}.${node.className} is faded`);
    const pair = [light(color), light(ground(node))].sort((a, b) => b - a);
    const ratio = (pair[0] + .05) / (pair[1] + .05);
    if (ratio < 4.5) found.add(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${style.color}`);
  }
  return [...found];
}"""
