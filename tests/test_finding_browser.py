"""What a reader who looks for something would be wronged by in the browser: by mouse, by keyboard and by touch."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browsing import Visiting

pytestmark = pytest.mark.browser

SHOWN = "[...document.querySelectorAll('.nn-card[data-family]')].filter(card => card.checkVisibility()).length"


def asked(page: Any) -> str:
    return str(page.evaluate("location.search"))


# Cards.


@pytest.mark.parametrize("path", [".", "families"])
def test_cards_are_narrowed_down_by_all_that_is_chosen(visiting: Visiting, path: str) -> None:
    page = visiting().open(path)
    everyone = page.evaluate(SHOWN)
    page.click(".nn-facet summary:has-text('Badge')")
    page.check("input[value='mixture-of-experts']")
    mixtures = page.evaluate(SHOWN)
    assert 0 < mixtures < everyone
    assert page.inner_text(".nn-filter output") == f"{mixtures} of {everyone} families"
    page.click(".nn-facet summary:has-text('Value')")
    page.check("input[value='mlp.shared_expert_output']")
    both = page.evaluate(SHOWN)
    assert 0 < both < mixtures
    assert asked(page) == "?badge=mixture-of-experts&value=mlp.shared_expert_output"
    page.reload()
    assert page.evaluate(SHOWN) == both
    page.click(".nn-filter button[type=reset]")
    assert page.evaluate(SHOWN) == everyone
    assert asked(page) == ""


def test_what_no_family_has_beside_the_chosen_cannot_be_chosen(visiting: Visiting) -> None:
    page = visiting().open("families?host=linear_attn&badge=state-space-recurrence")
    assert page.evaluate(SHOWN) > 0
    numbers = page.eval_on_selector_all(
        ".nn-filter label", "all => all.map(each => [each.querySelector('small').textContent, each.control.disabled])"
    )
    assert ["0", True] in numbers
    assert ["0", False] not in numbers
    rows = "[...document.querySelectorAll('tr[data-family]')].filter(row => row.checkVisibility()).length"
    assert page.evaluate(rows) == page.evaluate(SHOWN)  # the table follows the cards


def test_an_address_that_asks_for_what_no_family_has_is_told_so(visiting: Visiting) -> None:
    page = visiting().open("families?badge=mixture-of-experts,alibi")
    assert page.evaluate(SHOWN) == 0
    assert page.locator(".nn-none").is_visible()
    page.click(".nn-filter button[type=reset]")
    assert page.locator(".nn-none").is_hidden()


def test_the_filters_answer_to_the_keyboard(visiting: Visiting) -> None:
    page = visiting().open("families")
    page.focus(".nn-facet summary:has-text('Host')")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    focused = "document.activeElement.value ?? document.activeElement.textContent.trim()"
    assert page.evaluate(focused) == "model"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert asked(page) == "?host=layers"
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "Host (1)"
    assert not page.locator(".nn-facet fieldset").first.is_visible()
    page.focus(".nn-picked button")
    page.keyboard.press("Enter")
    assert asked(page) == ""


def test_the_filters_answer_to_a_finger(visiting: Visiting) -> None:
    page = visiting("phone", touch=True).open("families")
    page.tap(".nn-facet summary:has-text('Host')")
    page.tap("label:has(> input[value='linear_attn'])")
    assert asked(page) == "?host=linear_attn"
    page.tap("h1")
    assert not page.locator("label:has(> input[value='linear_attn'])").is_visible()


def test_without_scripts_every_card_shows_and_no_filter(visiting: Visiting) -> None:
    page = visiting(javascript=False).open("families?host=linear_attn")
    assert page.locator(".nn-card:visible").count() == page.locator(".nn-card").count() > 1
    assert not page.locator(".nn-filter").is_visible()


# The matrix.

CELL = "[id='value-self_attn-attention_scores'] a[href*='/phimoe/']"
NEEDS = 'phimoe · attention_scores under some loads: needs attn_implementation="eager"'


def told(page: Any) -> str:
    return " ".join(page.inner_text(".nn-tell").split()) if page.locator(".nn-tell").is_visible() else ""


def test_a_cell_tells_what_stands_behind_it_and_leads_to_its_row(visiting: Visiting) -> None:
    page = visiting().open("matrix")
    page.hover(CELL)
    assert told(page) == NEEDS
    box = page.locator(".nn-tell").bounding_box()
    assert box["x"] >= 0
    assert box["y"] + box["height"] <= 900
    page.mouse.move(0, 0)
    assert told(page) == ""
    page.click(CELL)
    page.wait_for_url("**/families/phimoe/#value-self_attn-attention_scores")


def test_arrow_keys_move_through_the_matrix(visiting: Visiting) -> None:
    page = visiting().open("matrix")
    assert page.locator(".nn-overview td > a[tabindex='0']").count() == 1
    page.focus(CELL)
    assert told(page) == NEEDS
    page.keyboard.press("ArrowDown")
    assert told(page).startswith("phimoe · attention_probabilities")
    page.keyboard.press("End")
    last = page.inner_text(".nn-overview thead th:last-child")
    assert told(page).startswith(f"{last} · attention_probabilities")
    page.keyboard.press("ArrowLeft")
    assert not told(page).startswith(f"{last} ·")
    at = page.evaluate("document.activeElement.href")
    page.keyboard.press("Enter")
    page.wait_for_url(at)


def test_a_tap_tells_and_offers_where_to_read_on(visiting: Visiting) -> None:
    page = visiting("phone", touch=True).open("matrix")
    page.locator(CELL).scroll_into_view_if_needed()
    page.tap(CELL)
    assert told(page).startswith(NEEDS)
    assert page.url.endswith("/matrix/")
    box = page.locator(".nn-tell").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.tap(".nn-tell a >> text=All of attention_scores")
    page.wait_for_url("**/values/self_attn.attention_scores/")


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_the_matrix_scrolls_in_its_box_under_standing_heads(visiting: Visiting, size: str) -> None:
    page = visiting(size).open("matrix")
    places = "[...document.querySelectorAll('.nn-overview thead th a, .nn-overview tbody tr[id] th')]"
    measure = f"() => {places}.map(node => [node.getBoundingClientRect().x, node.getBoundingClientRect().y])"
    families = page.locator(".nn-overview thead th a").count()
    before = page.evaluate(measure)
    page.evaluate("document.querySelector('.nn-overview-box').scrollTo(60, 300)")
    after = page.evaluate(measure)
    assert page.evaluate("document.querySelector('.nn-overview-box').scrollTop") > 100
    assert [y for _, y in before[:families]] == [y for _, y in after[:families]]  # heads stand
    assert [x for x, _ in before[families:]] == [x for x, _ in after[families:]]  # names stand


# The search.


def first(page: Any, query: str) -> str:
    """The path that the first result leads to."""
    page.fill(".nn-search input", query)
    page.wait_for_function("document.querySelector('.nn-search [role=status]').textContent.match(/result|Nothing/)")
    page.wait_for_timeout(50)
    return re.sub(r"^.*/below/", "", page.locator(".nn-search li a").first.get_attribute("href"))


def test_whatever_name_is_typed_the_search_leads_to_the_thing(visiting: Visiting) -> None:
    visit = visiting()
    page = visit.open("families/phimoe")
    asked_for: list[str] = []
    page.on("request", lambda each: asked_for.append(each.url))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    pattern = "values/self_attn.attention_probabilities/"
    assert first(page, "attention_probabilities") == pattern
    assert first(page, "hook_pattern") == pattern
    assert first(page, "blocks.11.attn.hook_pattern") == pattern
    assert first(page, "model.layers[i].self_attn.attention_probabilities") == pattern
    assert first(page, "hook_resid_post") == "values/layers.layer_output/"
    assert first(page, "meta-llama/Llama-3.2-1B") == "families/llama/"
    assert first(page, "GPT2LMHeadModel") == "families/gpt2/"
    assert first(page, "residual_sum") == "laws/layers.residual_sum/"
    assert first(page, "logits") == "values/model.logits/"
    page.fill(".nn-search input", "PhimoeSparseMoeBlock")
    page.wait_for_selector(".nn-search a[href$='families/phimoe/']")
    page.fill(".nn-search input", "zzzz")
    page.wait_for_selector("text=Nothing has this name.")
    for slip, meant in [("atention_probabilites", pattern), ("pihmoe", "families/phimoe/")]:
        assert first(page, slip) == meant
        assert page.inner_text(".nn-search [role=status]") == "Nothing has this name; close to it."
    assert [url for url in asked_for if "names.json" in url]


def test_the_names_are_not_fetched_before_they_are_wanted(visiting: Visiting) -> None:
    visit = visiting()
    asked_for: list[str] = []
    visit.page.on("request", lambda each: asked_for.append(each.url))
    visit.open("families/phimoe")
    visit.page.wait_for_load_state("networkidle")
    assert not [url for url in asked_for if "names.json" in url or "search_index" in url]


def test_the_search_answers_to_the_keyboard(visiting: Visiting) -> None:
    page = visiting().open()
    page.keyboard.press("Control+k")
    page.keyboard.type("router_logits")
    page.wait_for_selector(".nn-search li a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('li').previousElementSibling !== null")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    assert not page.locator(".nn-search").is_visible()
    page.keyboard.press("/")
    page.fill(".nn-search input", "router_logits")
    page.keyboard.press("Enter")
    page.wait_for_url("**/values/mlp.router_logits/")


def test_the_search_answers_to_a_finger(visiting: Visiting) -> None:
    page = visiting("phone", touch=True).open("laws")
    page.tap(".nn-search-open")
    page.keyboard.type("hook_z")
    page.tap(".nn-search li a")
    page.wait_for_url("**/values/self_attn.attention_*/")


# The comparison.

APART = ".nn-compared > .nn-scroll"


def rows(page: Any, inside: str) -> list[str]:
    return list(page.locator(f"{inside} tr > th[scope='row']").all_inner_texts())


def test_what_sets_two_families_apart_stands_apart(visiting: Visiting) -> None:
    page = visiting().open("compare?families=llama,phimoe")
    page.wait_for_selector(".nn-cmp")
    apart = rows(page, APART)
    page.click("#alike summary")
    alike = rows(page, "#alike")
    assert "router_logits" in apart
    assert "logits" in alike
    assert "LayerNorm" in apart
    assert "class" in apart
    assert page.inner_text(".nn-compare output") == f"{len(apart)} differences, {len(alike)} things alike"
    row = page.locator(f"{APART} tr", has=page.locator("th[scope='row'] >> text=/^router_logits$/"))
    assert "there is no router" in row.locator("td").first.inner_text()
    assert "router" in row.locator("td").last.inner_text()
    assert page.locator(f"{APART} thead a").all_inner_texts() == ["Llama", "Phi-3.5-MoE"]
    assert not page.locator(".nn-compare-badges").is_visible()  # where the rows take theirs from


def test_the_choice_is_made_by_keyboard_and_stands_in_the_address(visiting: Visiting) -> None:
    page = visiting().open("compare")
    assert page.inner_text(".nn-compare output") == "Choose two families."
    page.focus(".nn-compare select >> nth=0")
    page.keyboard.type("GPT-2")
    page.keyboard.press("Tab")
    page.keyboard.type("OPT")
    page.keyboard.press("Tab")
    page.wait_for_selector(".nn-cmp")
    page.keyboard.type("Phi-3.5")
    page.keyboard.press("Tab")
    page.wait_for_selector(".nn-cmp-3")
    assert asked(page) == "?families=gpt2,opt,phimoe"
    page.reload()
    page.wait_for_selector(".nn-cmp-3")
    assert page.locator(f"{APART} thead th").count() == 3


def test_an_unknown_family_and_one_named_twice_are_passed_over(visiting: Visiting) -> None:
    page = visiting("phone", touch=True).open("compare?families=nosuch,llama,llama,gpt2")
    page.wait_for_selector(".nn-cmp")
    chosen = page.eval_on_selector_all(".nn-compare select", "all => all.map(each => each.value)")
    assert chosen == ["llama", "gpt2", ""]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.tap("#alike summary")
    assert page.locator("#alike table").is_visible()


def test_one_family_twice_is_told_and_the_title_says_no_more_than_is_there(visiting: Visiting) -> None:
    page = visiting().open("compare")
    plain = page.title()
    for at in (0, 1):
        page.select_option(f".nn-compare select >> nth={at}", "llama")
    assert page.inner_text(".nn-compare output") == "That is one family twice: choose another."
    page.select_option(".nn-compare select >> nth=1", "gpt2")
    assert page.title() == "llama, gpt2 - compare - nnpedia"
    page.select_option(".nn-compare select >> nth=1", "llama")
    assert page.title() == plain


def test_without_scripts_the_comparison_says_where_to_look(visiting: Visiting) -> None:
    page = visiting(javascript=False).open("compare?families=llama,phimoe")
    assert "The matrix" in page.inner_text("noscript")
    assert not page.locator(".nn-compare").is_visible()


def test_a_family_a_value_and_a_law_lead_to_each_other(visiting: Visiting) -> None:
    page = visiting().open("families/phimoe")
    page.click("[id='value-mlp-router_logits'] .nn-every")
    page.wait_for_url("**/values/mlp.router_logits/")
    page.click(".nn-law-list a >> text=routing")
    page.wait_for_url("**/laws/mlp.routing/")
    page.click(".nn-errors a >> text=phimoe")
    page.wait_for_url("**/families/phimoe/#law-mlp-routing")
    page.click(".nn-eyebrow a >> text=compare")
    page.wait_for_selector(".nn-cmp")
    assert asked(page) == "?families=llama,phimoe"
