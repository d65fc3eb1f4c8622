"""Copy buttons, by mouse, keyboard and touch: what lands on the clipboard runs in a fresh interpreter."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from browsing import Visiting

pytestmark = pytest.mark.browser
CLIPBOARD = ["clipboard-read", "clipboard-write"]


def copied(page: Any) -> str:
    page.locator("div[role=status]", has_text="copied").wait_for(state="attached")
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize("by", ["mouse", "keyboard", "touch"])
def test_a_snippet_is_copied_alone_or_with_all_it_needs(visiting: Visiting, by: str) -> None:
    visit = visiting("phone" if by == "touch" else "desk", touch=by == "touch", permissions=CLIPBOARD)
    page = visit.open("families/phimoe")
    block = page.locator(".nn-notes .highlight", has_text="assert").first
    shown = block.locator("pre code").inner_text().strip()

    def press(name: str) -> None:
        button = block.get_by_role("button", name=name, exact=True)
        if by == "keyboard":
            button.focus()
            page.keyboard.press("Enter")
        else:
            (button.tap if by == "touch" else button.click)()

    press("Copy this code")
    assert copied(page).strip() == shown
    press("Copy this code with imports and load")
    page.wait_for_function("navigator.clipboard.readText().then(text => text.startsWith('import torch'))")
    whole = copied(page)
    assert whole.strip().endswith(shown)
    assert 'model = StandardizedTransformer("phimoe:forge")' in whole
    assert "prompt = " in whole
    ast.parse(whole)


def test_the_name_of_a_value_is_copied_as_an_expression(visiting: Visiting) -> None:
    page = visiting(permissions=CLIPBOARD).open("families/phimoe")
    page.get_by_role("button", name="Copy model.layers[i].self_attn.attention_queries", exact=True).click()
    assert copied(page) == "model.layers[i].self_attn.attention_queries"
