"""The site in a real Chromium: no console error, no failed or foreign request, nothing wider than a phone.

Opens the published `public/` of the checkout, which `make site` makes; where there is none, a site
built from sample records.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sample_records as samples

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent
CHROMIUM = os.environ.get("NNPEDIA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SIZES = {"desk": (1400, 900), "phone": (390, 844)}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = ROOT / "public"
    if (built / "index.html").exists():
        return built
    from nnpedia.publish import publish

    home = tmp_path_factory.mktemp("home")
    samples.write_built(home, ROOT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNPEDIA_HOME", str(home))
        publish(ROOT, home / "public")
    return home / "public"


@pytest.fixture(scope="module")
def site(public: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site's address, below a sub-path as a project page has it."""
    root = tmp_path_factory.mktemp("served")
    (root / "below").symlink_to(public, target_is_directory=True)
    handler = functools.partial(Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/below/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Chromium; a missing one skips the tests, and fails them where CI is set."""
    if not CHROMIUM:
        message = "no Chromium: install the system's package `chromium`, or name one in NNPEDIA_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


def pages_of(public: Path) -> list[str]:
    return sorted(path.parent.relative_to(public).as_posix() for path in public.rglob("index.html"))


class Visit:
    """A page opened, and what went wrong while it was."""

    def __init__(self, browser: object, size: str, scheme: str, site: str) -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(  # type: ignore[attr-defined]
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.site, self.wrong = site, list[str]()
        self.page.on("console", lambda each: self.note(each.type in ("error", "warning"), f"console: {each.text}"))
        self.page.on("pageerror", lambda each: self.note(True, f"script: {each}"))
        # what is under way when the next page is opened ends as aborted, which is no page's fault
        self.page.on(
            "requestfailed", lambda each: self.note("ERR_ABORTED" not in (each.failure or ""), f"failed: {each.url}")
        )
        self.page.on(
            "request", lambda each: self.note(not each.url.startswith((site, "data:")), f"elsewhere: {each.url}")
        )
        self.page.on("response", lambda each: self.note(each.status >= 400, f"{each.status}: {each.url}"))

    def note(self, bad: bool, what: str) -> None:
        if bad:
            self.wrong.append(what)

    def open(self, path: str) -> None:
        self.wrong.clear()
        self.page.goto(self.site + path.removesuffix(".").strip("/") + ("/" if path != "." else ""), wait_until="load")
        self.page.evaluate("document.fonts.ready")


@pytest.fixture(params=[("desk", "light"), ("desk", "dark"), ("phone", "light"), ("phone", "dark")], ids="-".join)
def visit(request: pytest.FixtureRequest, browser: object, site: str) -> Iterator[Visit]:
    made = Visit(browser, *request.param, site)
    yield made
    made.context.close()


def test_every_page_opens_cleanly_fits_and_can_be_read(visit: Visit, public: Path) -> None:
    for path in pages_of(public):
        visit.open(path)
        assert visit.wrong == [], path
        width = visit.page.viewport_size["width"]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the screen"
        assert visit.page.evaluate(FAINT) == [], path


def test_every_value_row_is_reached_by_its_own_link(browser: object, site: str, public: Path) -> None:
    visit = Visit(browser, "desk", "light", site)
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
    visit.context.close()


def test_a_link_to_a_value_of_an_absent_host_unfolds_it(browser: object, site: str) -> None:
    visit = Visit(browser, "desk", "light", site)
    visit.page.goto(f"{site}families/phimoe/#value-linear_attn-keys")
    assert visit.page.locator("[id='value-linear_attn-keys']").is_visible()
    visit.context.close()


def test_a_cell_tells_its_reason_on_hover_and_on_focus_and_leads_to_its_row(browser: object, site: str) -> None:
    visit = Visit(browser, "desk", "light", site)
    visit.open("values")
    cell = visit.page.locator("[id='value-self_attn-attention_scores'] a[href*='/phimoe/']")
    told = cell.locator(".nn-say")
    wide = "node => node.getBoundingClientRect().width > 100"
    assert 'needs attn_implementation="eager"' in (told.text_content() or "")
    assert not told.evaluate(wide)
    cell.hover()
    assert told.evaluate(wide)
    visit.page.mouse.move(0, 0)
    cell.focus()
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Shift+Tab")
    assert told.evaluate(wide)
    box = told.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["y"] + box["height"] <= 900
    cell.click()
    visit.page.wait_for_url("**/families/phimoe/#value-self_attn-attention_scores")
    visit.context.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_table_of_values_scrolls_in_its_box_under_standing_heads(browser: object, site: str, size: str) -> None:
    visit = Visit(browser, size, "light", site)
    visit.open("values")
    places = "[...document.querySelectorAll('.nn-overview thead th a, .nn-overview tbody tr[id] th')]"
    measure = f"() => {places}.map(node => [node.getBoundingClientRect().x, node.getBoundingClientRect().y])"
    families = visit.page.locator(".nn-overview thead th a").count()
    before = visit.page.evaluate(measure)
    visit.page.evaluate("document.querySelector('.nn-overview-box').scrollTo(60, 300)")
    after = visit.page.evaluate(measure)
    scrolled = visit.page.evaluate("document.querySelector('.nn-overview-box').scrollTop")
    assert scrolled > 100
    assert [y for _, y in before[:families]] == [y for _, y in after[:families]]  # heads stand
    assert [x for x, _ in before[families:]] == [x for x, _ in after[families:]]  # names stand
    visit.context.close()


def test_a_condition_opens_on_hover_and_on_focus(browser: object, site: str) -> None:
    visit = Visit(browser, "desk", "light", site)
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
    visit.context.close()


def test_search_finds_a_value(browser: object, site: str) -> None:
    visit = Visit(browser, "desk", "light", site)
    visit.open(".")
    visit.page.click(".md-search__input")
    visit.page.keyboard.type("router_logits", delay=10)
    visit.page.wait_for_selector(".md-search-result__link", timeout=15000)
    assert visit.wrong == []
    visit.context.close()


def test_the_scheme_can_be_changed(browser: object, site: str) -> None:
    visit = Visit(browser, "desk", "light", site)
    visit.open(".")
    assert visit.page.evaluate("document.body.dataset.mdColorScheme") == "default"
    visit.page.click("label[title='Dark colours']")
    assert visit.page.evaluate("document.body.dataset.mdColorScheme") == "slate"
    visit.context.close()


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
