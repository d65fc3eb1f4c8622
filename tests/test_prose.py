"""Notes on a page: each snippet with what it gave, each link where it leads."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sample_records as samples
from shown import Shown

from nnpedia import pages, prose
from nnpedia.errors import BuildFailure

NOTES = """## Reading `mlp_output`

Prose with <b>markup</b> & a [link](../gpt2/notes.md#positions).

```python
assert 1 == 1
```

```
pseudo = code
```

```python norun="needs a bigger machine"
huge()
```
"""


def rendered(text: str = NOTES, **changes: Any) -> prose.Prose:
    snippets = [
        samples.snippet(6, output="[2, 5]"),
        samples.snippet(14, ran=False, reason="needs a bigger machine", asserts=0),
    ]
    return prose.render(text, file="n.md", show=pages.snippet_result, **{"snippets": snippets, **changes})


def test_a_snippet_shows_what_it_ran_on_and_gave() -> None:
    text = " ".join(Shown(rendered().html).text.split())
    assert "✓ ran on forge · 1 assert held" in text
    assert "[2, 5]" in text
    assert text.index("[2, 5]") < text.index("pseudo")


def test_a_snippet_that_did_not_run_is_marked_with_its_reason() -> None:
    assert "not run needs a bigger machine" in " ".join(Shown(rendered().html).text.split())


def test_a_failed_snippet_does_not_look_like_one_that_ran() -> None:
    html = rendered(snippets=[samples.snippet(6, ok=False, error="n.md:6: no"), samples.snippet(14)]).html
    assert "✗ failed" in html
    assert "n.md:6: no" in html


def test_pseudo_code_gets_no_result() -> None:
    assert rendered().html.count('class="nn-result') == 2


@pytest.mark.parametrize("lines", [[6], [14], [], [6, 14, 99]])
def test_fences_and_records_must_match(lines: list[int]) -> None:
    with pytest.raises(BuildFailure, match=r"n\.md:\d+"):
        rendered(snippets=[samples.snippet(line) for line in lines])


def test_headings_keep_their_anchor_apart_from_the_page_own() -> None:
    assert [heading.id for heading in rendered("## Config\n", snippets=[]).headings] == ["notes-config"]


def test_names_of_values_lead_to_their_rows_and_links_to_pages() -> None:
    html = rendered(links={"mlp_output": "#value-mlp-mlp_output"}).html
    assert 'href="#value-mlp-mlp_output"' in html
    assert 'href="../gpt2/#notes-positions"' in html


def test_a_wide_table_of_the_notes_scrolls_by_itself() -> None:
    html = rendered("| a | b |\n| - | - |\n| 1 | 2 |\n", snippets=[]).html
    assert re.search(r'<div class="nn-scroll" tabindex="0">\s*<table', html)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "JaVaScript:alert(1)", "data:text/html,x", "&#106;avascript:alert(1)"]
)
def test_links_that_run_something_lead_nowhere(url: str) -> None:
    for _, attrs in Shown(rendered(f"[x]({url})", snippets=[]).html).tags:
        assert "href" not in attrs
