"""The explorer of a family page in Chromium: its blocks, its cards, its checkpoints, by mouse, keyboard and touch."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import Visiting, packed

pytestmark = pytest.mark.browser

SHOWN = ".nn-block:not([hidden])"
SCORES = f"{SHOWN} [data-value='self_attn.attention_scores']"


def record_of(public: Path, family: str, kind: str = "reference") -> dict[str, Any]:
    """The record of a family's first checkpoint of a kind, as the site offers it."""
    lines = json.loads((public / f"api/v1/families/{family}.json").read_text())["checkpoints"]
    slug = next(line["slug"] for line in lines if line["kind"] == kind)
    return json.loads((public / f"api/v1/families/{family}/{slug}.json").read_text())


@pytest.mark.parametrize("family", ["qwen3_next", "jamba", "phimoe"])
def test_a_block_shows_the_values_it_has_and_no_other(visiting: Visiting, public: Path, family: str) -> None:
    visit, record = visiting(), record_of(public, family)
    for kind in record["kinds"]:
        layer = kind["layers"][-1]
        page = visit.open(f"families/{family}/?layer={layer}")
        assert page.locator("#nn-layer").input_value() == str(layer)
        chips = page.locator(f"{SHOWN} .nn-chip").evaluate_all("all => all.map(each => each.dataset.value)")
        hosts = {host["name"] for host in kind["hosts"]}
        there = {
            f"{value['host']}.{value['name']}"
            for value in record["values"]
            if value["host"] in hosts and value["absent"] is None
            and (value["layers"] is None or set(value["layers"]) & set(kind["layers"]))
        }  # fmt: skip
        assert sorted(chips) == sorted(there)
        rows = page.locator(".nn-values tr[data-value]:not(.nn-elsewhere)")
        served = set(rows.evaluate_all("all => all.map(each => each.dataset.value)"))
        assert {name for name in served if not name.startswith("model.")} == there
        away = page.locator(".nn-values tr.nn-elsewhere")
        assert set(away.evaluate_all("all => all.map(each => getComputedStyle(each).display)")) <= {"table-row"}


def test_the_bar_of_blocks_is_moved_by_keyboard_buttons_and_mouse(visiting: Visiting) -> None:
    page = visiting().open("families/granite/")
    bar, last = page.locator("#nn-layer"), int(page.locator("#nn-layer").get_attribute("max"))
    bar.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert f"layers[2] of {last + 1}" in (bar.get_attribute("aria-valuetext") or "")
    assert "layers[2].layer_input" in page.locator(f"{SHOWN} .nn-identity").inner_text()
    assert page.url.endswith("?layer=2")
    page.keyboard.press("End")
    assert bar.input_value() == str(last)
    page.get_by_role("button", name="The block before").click()
    assert bar.input_value() == str(last - 1)
    box = page.locator(".nn-ticks svg").bounding_box()
    assert box
    for layer in (0, 5, last):  # a tick is where it is hit
        page.mouse.click(box["x"] + box["width"] * (layer + 0.5) / (last + 1), box["y"] + box["height"] / 2)
        assert bar.input_value() == str(layer)


def test_a_card_opens_on_hover_and_stays_on_click(visiting: Visiting) -> None:
    page = visiting().open("families/granite/?layer=1&seq=64")
    card = page.locator("#nn-facts")
    page.hover(SCORES)
    assert card.locator(".nn-facts-expression").inner_text() == "model.layers[1].self_attn.attention_scores"
    assert re.search(r"\[1 \d+ 64 64\]", card.inner_text())
    assert 'needs attn_implementation="eager"' in card.inner_text()
    address = card.get_by_text("@attention_interface_1", exact=False).last
    assert address.inner_html().count("<wbr>") == 2, "an address is cut where the card ends"
    assert "read, assign, edit in place" in card.inner_text().splitlines()  # and none of the row's links and buttons
    page.mouse.move(2, 2)
    card.wait_for(state="hidden")
    page.click(SCORES)
    page.mouse.move(2, 2)
    page.wait_for_timeout(300)
    assert card.is_visible()
    assert page.locator(SCORES).get_attribute("aria-expanded") == "true"
    assert page.url.endswith("seq=64")  # no jump to the row
    page.locator("#nn-layer").evaluate("bar => { bar.value = 2; bar.dispatchEvent(new Event('input')); }")
    assert "layers[2]" in card.inner_text()
    page.keyboard.press("Escape")
    assert card.is_hidden()
    page.hover(f"{SHOWN} [data-operator][data-target='mlp_output'] >> nth=0")
    assert "residual_multiplier" in card.inner_text()
    page.hover(f"{SHOWN} .nn-add >> nth=0")
    assert "attention_output is added to the residual stream" in card.inner_text()


def test_cards_are_reached_and_left_by_keyboard(visiting: Visiting) -> None:
    visit = visiting(permissions=["clipboard-read", "clipboard-write"])
    page = visit.open("families/gpt2/")
    active = "document.activeElement.dataset.value"
    card = page.locator("#nn-facts")
    page.keyboard.press("Tab")  # so that focus is shown
    page.locator(f"{SHOWN} [data-value='self_attn.attention_queries']").focus()
    assert card.is_visible()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(active) == "self_attn.attention_keys"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(active) == "self_attn.attention_values"
    page.keyboard.press("Enter")
    assert card.get_attribute("role") == "dialog"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.nn-facts-copy').textContent === 'copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "model.layers[0].self_attn.attention_values"
    page.keyboard.press("Escape")
    assert card.is_hidden()
    assert page.evaluate(active) == "self_attn.attention_values"


def test_a_space_presses_a_part_and_the_browser_keeps_its_own_keys(visiting: Visiting) -> None:
    page = visiting().open("families/granite/")
    page.locator(SCORES).focus()
    page.keyboard.press(" ")
    assert page.locator(SCORES).get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    page.locator(SCORES).focus()
    held = page.evaluate("""() => ["altKey", "ctrlKey", "metaKey", "shiftKey"].map(name => {
      const pressed = {key: "ArrowLeft", [name]: true, bubbles: true, cancelable: true};
      return document.activeElement.dispatchEvent(new KeyboardEvent("keydown", pressed));
    })""")
    assert held == [True] * 4


def test_what_the_address_asks_for_in_vain_is_said_or_taken_out_of_it(visiting: Visiting) -> None:
    page = visiting().open("families/granite/?batch=0&seq=abc&layer=999&checkpoint=nope&dtype=float8")
    assert "batch is a whole number from 1 to 65536; sequence is" in page.locator(".nn-warned").inner_text()
    assert page.locator("[name=batch]").get_attribute("aria-invalid") == "true"
    page.locator("[name=batch]").fill("2")
    page.locator("[name=seq]").fill("8")
    assert page.locator(".nn-warned").inner_text() == ""
    assert page.locator("[name=batch]").get_attribute("aria-invalid") is None
    last = int(page.locator("#nn-layer").get_attribute("max"))
    assert page.url.endswith(f"?layer={last}&batch=2&seq=8")


def test_a_tap_opens_a_sheet_in_view(visiting: Visiting) -> None:
    page = visiting("phone", touch=True).open("families/phimoe/")
    page.locator(f"{SHOWN} [data-value='mlp.router_logits']").tap()
    box = page.locator("#nn-facts").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 844
    page.get_by_role("button", name="close").tap()
    assert page.locator("#nn-facts").is_hidden()
    page.get_by_role("button", name="The next block").tap()
    assert page.locator("#nn-layer").input_value() == "1"
    sides = page.evaluate(
        "[...document.querySelectorAll('.nn-tools :is(input, select), .nn-track button')]"
        ".map(each => each.getBoundingClientRect().height)"
    )
    assert min(sides) >= 40
    chips = page.locator(f"{SHOWN} .nn-chip rect").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert min(chips) >= 23.5


def test_without_scripts_every_picture_and_fact_is_there(visiting: Visiting, public: Path) -> None:
    page = visiting(javascript=False).open("families/qwen3_next/")
    record = record_of(public, "qwen3_next")
    chips = page.locator(".nn-stage .nn-chip")
    shown = set(chips.evaluate_all("all => all.map(each => each.dataset.value)"))
    there = {f"{v['host']}.{v['name']}" for v in record["values"] if v["absent"] is None and v["host"] != "model"}
    assert shown == there
    assert all(chip.is_visible() for chip in chips.all())
    assert page.locator(".nn-tools").is_hidden()
    assert page.locator("#nn-layer").is_hidden()
    chips.first.click()
    assert "#value-layers-layer_input" in page.url


def test_a_chosen_checkpoint_is_in_the_address_and_its_facts_in_the_page(visiting: Visiting, public: Path) -> None:
    page = visiting().open("families/granite/")
    parts = "document.querySelector('.nn-config-tables').textContent.replace(/\\s+/g, ' ')"
    tree = "document.querySelector('.nn-printout code').innerHTML.trim()"
    sizes = "document.querySelector('.nn-sizes').textContent.replace(/\\s+/g, ' ')"
    said = page.evaluate(f"[{parts}, {tree}, {sizes}].map(text => text.replaceAll(' ', ''))")
    page.select_option("select[name=checkpoint]", label="forge")
    page.wait_for_url("**/families/granite/?checkpoint=forge")
    record = record_of(public, "granite", "run")
    for name, size in record["sizes"].items():
        assert f"{name}{size}" in page.evaluate(sizes).replace(" ", "")
    assert page.locator(".nn-printout pre").get_attribute("aria-label") == "Printout of forge"
    assert page.locator("#nn-layer").get_attribute("max") == str(sum(len(k["layers"]) for k in record["kinds"]) - 1)
    page.reload()
    page.wait_for_function("document.querySelector('.nn-chosen').textContent === 'forge'")
    page.locator("#nn-layer").fill("1")
    page.select_option("select[name=checkpoint]", label=record_of(public, "granite")["origin"]["name"])
    page.wait_for_url("**/families/granite/?layer=1")  # another checkpoint, the block that was looked at
    page.go_back()
    page.go_back()
    first = record_of(public, "granite")["origin"]["name"]
    page.wait_for_function("name => document.querySelector('.nn-chosen').textContent === name", arg=first)
    # chosen again after another, the first checkpoint reads as the server wrote it
    page.select_option("select[name=checkpoint]", label="forge")
    page.wait_for_url("**/?checkpoint=forge")
    page.select_option("select[name=checkpoint]", label=first)
    page.wait_for_function("name => document.querySelector('.nn-chosen').textContent === name", arg=first)
    assert page.evaluate(f"[{parts}, {tree}, {sizes}].map(text => text.replaceAll(' ', ''))") == said


def test_a_chosen_checkpoint_adds_what_its_own_layout_adds(visiting: Visiting, public: Path) -> None:
    lines = json.loads((public / "api/v1/families/opt.json").read_text())["checkpoints"]
    if "forge-post-norm" not in [line["slug"] for line in lines]:
        pytest.skip("a site of sample records has no run of the variant")
    page = visiting().open("families/opt/")
    adds = page.locator(f"{SHOWN} .nn-identity .nn-formula")
    assert [text.partition(" ")[0] for text in adds.all_inner_texts()] == ["layers[0].layer_input"]
    page.select_option("select[name=checkpoint]", label="facebook/opt-350m")
    page.wait_for_url("**/families/opt/?checkpoint=*")  # written when the record is there
    assert [text.partition("(")[0] for text in adds.all_inner_texts()] == ["post_attention_layernorm"]
    page.locator(f"{SHOWN} [data-add]").last.click()
    assert "post_attention_layernorm(" in page.locator(".nn-facts").inner_text().replace("\n", "")


def test_a_change_of_mind_while_a_record_is_fetched_is_what_is_said(visiting: Visiting) -> None:
    page = visiting().open("families/gpt2/#%E0%A4%A")  # a fragment that is no text breaks nothing
    first = page.locator(".nn-chosen").first.inner_text()
    displays = "Array.from(document.querySelectorAll('.nn-chosen'), name => getComputedStyle(name).display)"
    assert set(page.evaluate(displays)) == {"inline"}  # the name stands in its sentence
    page.evaluate("""() => { const list = document.querySelector("select[name=checkpoint]");
      for (const at of [1, 0]) {
        list.selectedIndex = at;
        list.dispatchEvent(new Event("change", {bubbles: true}));
      } }""")
    page.wait_for_load_state("networkidle")
    assert page.locator(".nn-said").first.inner_text() == f"{first} is shown."
    assert page.locator(".nn-chosen").first.inner_text() == first


def test_a_layout_is_told_in_numbers_and_bytes(visiting: Visiting, public: Path) -> None:
    page = visiting().open("families/gpt2/")
    page.fill("input[name=batch]", "2")
    page.fill("input[name=seq]", "16")
    page.select_option("select[name=dtype]", "bfloat16")
    assert page.url.endswith("?batch=2&seq=16&dtype=bfloat16")
    record, call = record_of(public, "gpt2"), {"batch": 2, "seq": 16, "query": 16, "key": 16}
    for value in record["values"]:
        if value["absent"] is not None or not value["axes"]:
            continue
        shape = [call.get(axis, size) for axis, size in zip(value["axes"], value["shape"], strict=True)]
        told = page.locator(f"#value-{value['host']}-{value['name']} .nn-axes--sized").inner_text()
        assert told.startswith(f"[{' '.join(map(str, shape))}]")
        if value["dtype"] == record["origin"]["dtype"]:
            number, unit = re.search(r"([\d.]+) (\w+)$", told).groups()  # type: ignore[union-attr]
            size = float(number) * 1024 ** ["bytes", "KiB", "MiB", "GiB"].index(unit)
            assert size == pytest.approx(math.prod(shape) * 2, rel=5e-3)
    page.fill("input[name=seq]", "0")  # no such call: the last one stays
    assert "2 × 16" in page.locator(".nn-call").inner_text()


def test_a_record_that_cannot_be_fetched_leaves_the_page_as_it_is(visiting: Visiting) -> None:
    visit = visiting()
    page = visit.open("families/gpt2/")
    page.route("**/api/v1/families/gpt2/*.json", lambda route: route.abort())
    before = page.input_value("select[name=checkpoint]")
    page.select_option("select[name=checkpoint]", label="forge")
    page.wait_for_function("document.querySelector('.nn-said').textContent.includes('could not be read')")
    assert page.input_value("select[name=checkpoint]") == before
    assert "checkpoint=" not in page.url
    assert visit.problems()  # the request that failed, and nothing else is wrong at the end


def test_a_family_page_stays_light(public: Path) -> None:
    for page in sorted((public / "families").glob("*/index.html")):
        assert len(packed(page)) <= 60_000, page
