"""The pictures of the README: `make screenshots` takes them of the published site.

No test, and collected by no run that does not name this file: it borrows the tests' browser and
server. A picture is taken again when the page it shows changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import ROOT, Visiting

FOLDER = ROOT / "site" / "images"
#: By file: the page, the window, the scheme, and the part of a picture whose card is open.
PICTURES = {
    "light": ("families/phimoe", "desk", "light", "mlp.expert_weights"),
    "dark": ("families/qwen3_next?layer=3", "desk", "dark", "self_attn.attention_probabilities"),
    "phone": ("families/granite", "phone", "light", "self_attn.attention_output"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_take(visiting: Visiting, name: str) -> None:
    path, size, scheme, part = PICTURES[name]
    page = visiting(size=size, scheme=scheme, reduced_motion="reduce").open(path)
    chip = page.locator(f'.nn-svg a[data-value="{part}"]:visible').first
    chip.evaluate("node => node.scrollIntoView({block: 'center'})")
    chip.click()
    page.wait_for_timeout(300)
    FOLDER.mkdir(exist_ok=True)
    file: Path = FOLDER / f"{name}.png"
    page.screenshot(path=str(file))
    assert file.stat().st_size <= 210_000
