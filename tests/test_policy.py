"""The content security policy: on every page, kept by every page, and nothing broken by it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from browsing import ROOT, Visiting, pages_of

from nnpedia.policy import broken_policy

CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader=yaml.BaseLoader)
POLICY = CONFIG["extra"]["policy"]
HEAD = f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{POLICY}">'


def test_the_policy_lets_no_inline_script_run_and_nothing_come_from_elsewhere() -> None:
    given = dict(each.split(None, 1) for each in POLICY.split(";"))
    assert given["default-src"] == given["script-src"] == given["style-src"] == "'self'"
    assert given["object-src"] == given["base-uri"] == "'none'"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


@pytest.mark.parametrize(
    ("markup", "complaint"),
    [
        ("<script>go()</script>", "page.html:2: a script stands in the page"),
        ('<script type="module">go()</script>', "page.html:2: a script stands in the page"),
        ("<p onclick=go()>go</p>", "page.html:2: a script stands in the page, in onclick of <p>"),
        ("<a href=' JavaScript:go()'>go</a>", "page.html:2: a script stands in the page, in href of <a>"),
        ("<p style='color: red'>red</p>", "page.html:2: a style stands in the page, at <p>"),
        ("<style>p { color: red }</style>", "page.html:2: a style stands in the page, at <style>"),
    ],
)
def test_a_page_that_breaks_the_policy_is_told_of_at_its_line(tmp_path: Path, markup: str, complaint: str) -> None:
    (tmp_path / "page.html").write_text(f"{HEAD}\n{markup}\n")
    assert broken_policy(tmp_path, POLICY) == [complaint]


def test_data_and_scripts_in_files_are_no_fault_and_a_page_without_the_policy_is(tmp_path: Path) -> None:
    fine = '<script type="application/json">{"a": 1}</script><script src="js/a.js"></script>'
    (tmp_path / "page.html").write_text(f"{HEAD}\n{fine}\n")
    assert broken_policy(tmp_path, POLICY) == []
    (tmp_path / "page.html").write_text(f'<script src="js/a.js"></script>{HEAD}\n')
    assert broken_policy(tmp_path, POLICY) == ["page.html:1: <script> stands before the content security policy"]
    (tmp_path / "page.html").write_text(fine)
    assert broken_policy(tmp_path, POLICY) == [
        "page.html: the page does not state the content security policy of mkdocs.yml"
    ]


def test_every_built_page_keeps_it(public: Path) -> None:
    assert broken_policy(public, POLICY) == []
    assert len(pages_of(public)) > 40


@pytest.mark.browser
def test_chromium_refuses_an_inline_script_and_says_so(visiting: Visiting) -> None:
    visit = visiting()
    page = visit.open("getting-started")
    page.evaluate(
        "() => { const made = document.createElement('script'); made.textContent = 'window.ran = true';"
        " document.body.append(made); }"
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in each for each in visit.problems())


@pytest.mark.browser
def test_search_answers_under_the_policy(visiting: Visiting) -> None:
    page = visiting().open()
    page.click(".nn-search-open")
    page.keyboard.type("router_logits")
    page.wait_for_selector(".nn-search a[href*='mlp.router_logits']")


@pytest.mark.browser
def test_the_colours_are_chosen_and_stay_chosen_before_the_first_paint(visiting: Visiting) -> None:
    visit = visiting()
    page = visit.open()
    scheme = "document.body.dataset.mdColorScheme"
    assert page.evaluate(scheme) == "default"
    page.click("label[title='Dark colours']")
    assert page.evaluate(scheme) == "slate"
    # the bundle that would set it after the load is kept away: the script in the page's head has to
    page.route("**/bundle.*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    visit.open("families/phimoe")
    assert page.evaluate(scheme) == "slate"


@pytest.mark.browser
def test_a_missing_page_is_told_of_in_the_site_s_own_look(visiting: Visiting) -> None:
    visit = visiting()
    page = visit.page
    page.goto(f"{visit.site}families/nothing/")
    assert "404" in page.inner_text("h1")
    assert "Plex" in page.evaluate("getComputedStyle(document.body).fontFamily")
    told = visit.problems()  # its own status; and its styles, since this site thinks that it is at a host's root
    assert [each for each in told if "elsewhere" not in each and "404" not in each] == []
