"""What a reader would be wronged by: a page that says what no record does, drops what one says, or runs its text."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import sample_records as samples

from nnpedia import diagram, finding, pages, prose, readings, shapes, views
from nnpedia.badges import Badge, check_badges, load_badges
from nnpedia.entry import Entry
from nnpedia.errors import BuildFailure, SpecError
from nnpedia.links import broken_links
from nnpedia.record import Load, SnippetFact

FAMILIES = samples.FAMILIES
NASTY = """</pre></code><script>alert(1)</script>{{ 7*7 }}{% raw %}<img src=x onerror=alert(1)>**b**`c`&amp;"'"""


@pytest.fixture(scope="module")
def phimoe() -> Entry:
    return samples.entry(FAMILIES / "phimoe")


@pytest.fixture(scope="module")
def page(phimoe: Entry) -> pages.Page:
    return pages.family_page(phimoe, load_badges(FAMILIES), {})


class Shown(HTMLParser):
    """The elements, ids and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(str(html))  # Markup would escape what it is joined with

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.tags if "id" in attrs]


def test_every_value_has_a_row_with_its_anchor(phimoe: Entry, page: pages.Page) -> None:
    ids = Shown(page.html).ids
    for fact in phimoe.references[0].values:
        assert ids.count(f"value-{fact.host}-{fact.name}") == 1


def test_every_link_within_the_page_leads_somewhere(page: pages.Page) -> None:
    shown = Shown(page.html)
    within = {attrs["href"] for tag, attrs in shown.tags if tag == "a" and (attrs.get("href") or "").startswith("#")}
    assert within
    assert within <= {f"#{name}" for name in shown.ids}
    assert len(shown.ids) == len(set(shown.ids))


def test_the_contents_name_headings_that_are_there(page: pages.Page) -> None:
    assert {heading.id for heading in page.headings} <= set(Shown(page.html).ids)


def test_a_row_says_layout_place_and_full_size(page: pages.Page) -> None:
    row = re.search(r'<tr id="value-self_attn-attention_keys"[^>]*>.*?</tr>', page.html, re.DOTALL)
    assert row is not None
    text = " ".join(Shown(row[0]).text.split())
    for part in ("attention_keys", "Keys", "[batch num_kv_heads seq qk_head_dim]", "[batch 8 seq 128]", "args[2]"):
        assert part in text


def test_the_condition_is_the_option_that_tells_the_loads_apart(page: pages.Page) -> None:
    text = " ".join(Shown(page.html).text.split())
    assert 'needs attn_implementation="eager"' in text
    assert 'needs experts_implementation="grouped_mm" or "batched_mm"' in text


def test_conditions_no_single_option_explains_are_told_by_load() -> None:
    def reading(label: str, found: bool, **options: str) -> readings.Reading:
        return readings.Reading("forge", Load(label=label, options=options), found, None)

    found = [
        reading("one", True, a="1", b="1"),
        reading("two", False, a="1", b="2"),
        reading("three", False, a="2", b="1"),
    ]
    assert readings.needs(found) == "only under one"


def test_a_condition_of_one_run_names_it() -> None:
    def reading(run: str, attention: str, found: bool) -> readings.Reading:
        return readings.Reading(run, Load(label=attention, options={"attn_implementation": attention}), found, None)

    plain = [reading("forge", "eager", True), reading("forge", "sdpa", True)]
    upcast = [reading("upcast", "eager", True), reading("upcast", "sdpa", False)]
    assert readings.condition([*plain, *upcast]) == 'needs attn_implementation="eager" on upcast'


def test_a_value_probed_missing_everywhere_does_not_pass_for_there(phimoe: Entry) -> None:
    run = phimoe.runs[0]
    values = [
        value.model_copy(update={"readable": dict.fromkeys(value.readable, False)})
        if value.name == "mlp_input"
        else value
        for value in run.values
    ]
    entry = replace(phimoe, runs=[run.model_copy(update={"values": values})])
    row = next(row for host in views.host_views(entry) for row in host.rows if row.fact.name == "mlp_input")
    assert row.condition == "no load that was probed gives it"
    assert "mlp_input" in [each.row.fact.name for each in views.matrix(entry, views.host_views(entry)).rows]


def test_the_matrix_shows_only_values_that_differ(phimoe: Entry) -> None:
    found = views.matrix(phimoe, views.host_views(phimoe))
    names = [each.row.fact.name for each in found.rows]
    assert names == ["attention_scores", "attention_probabilities", "expert_outputs"]
    assert found.constant == sum(len(host.rows) for host in views.host_views(phimoe)) - 3


def test_absent_values_are_listed_with_their_reason_and_not_among_the_values(page: pages.Page) -> None:
    rows = re.search(r'id="absent">.*?</table>', page.html, re.DOTALL)
    assert rows is not None
    assert "mlp.shared_expert_output" in rows[0]
    assert "this mixture has no shared expert" in rows[0]
    assert page.html.count('id="value-mlp-shared_expert_output"') == 1
    assert not re.search(r'<tr id="value-mlp-shared_expert_output"', page.html)


def test_a_broken_law_is_not_shown_as_holding(phimoe: Entry) -> None:
    run = phimoe.runs[0]
    laws = [
        law.model_copy(update={"holds": False, "error": 900.0, "message": "off by a lot"})
        if law.name == "residual_sum"
        else law
        for law in run.laws
    ]
    broken = replace(phimoe, runs=[run.model_copy(update={"laws": laws})])
    html = pages.family_page(broken, load_badges(FAMILIES), {}).html
    identity = re.search(r'<div class="nn-identity">.*?</div>', html, re.DOTALL)
    assert identity is not None
    assert "broken" in identity[0]
    assert "holds" not in identity[0]
    assert "off by a lot" in html


def test_an_exception_gives_its_reason(phimoe: Entry) -> None:
    run = phimoe.runs[0]
    laws = [law.model_copy(update={"exception": "a gate stands between", "error": None}) for law in run.laws]
    html = pages.family_page(
        replace(phimoe, runs=[run.model_copy(update={"laws": laws})]), load_badges(FAMILIES), {}
    ).html
    assert "does not hold here: a gate stands between" in html


def test_a_family_without_records_says_so(phimoe: Entry) -> None:
    html = pages.family_page(replace(phimoe, references=[], runs=[]), load_badges(FAMILIES), {}).html
    assert "not built yet" in html
    assert "value-" not in html


# The diagram.


def chips(entry: Entry) -> dict[str, shapes.Chip]:
    (drawn,) = diagram.diagrams(entry.references[0])
    return {chip.value.name: chip for chip in drawn.chips}


def test_the_diagram_shows_every_value_of_the_block_once(phimoe: Entry) -> None:
    (drawn,) = diagram.diagrams(phimoe.references[0])
    names = [chip.value.name for chip in drawn.chips]
    block = {fact.name for fact in phimoe.references[0].values if fact.host != "model" and fact.absent is None}
    assert set(names) == block
    assert len(names) == len(set(names))


def test_nothing_in_the_diagram_overlaps_or_leaves_it(phimoe: Entry) -> None:
    (drawn,) = diagram.diagrams(phimoe.references[0])
    boxes = [(chip.x, chip.y, chip.right, chip.y + shapes.HEIGHT) for chip in drawn.chips]
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= shapes.WIDTH
        assert bottom <= drawn.height
        for other in boxes[index + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_the_stream_runs_from_input_to_output(phimoe: Entry) -> None:
    found = chips(phimoe)
    order = [
        "layer_input",
        "attention_norm_output",
        "attention_output",
        "layer_mid",
        "mlp_norm_output",
        "mlp_output",
        "layer_output",
    ]
    heights = [found[name].y for name in order]
    assert heights == sorted(heights)


def test_without_a_middle_the_mlp_branches_off_the_input(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    values = [
        value.model_copy(update={"absent": "both are added at once"}) if value.name == "layer_mid" else value
        for value in reference.values
    ]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"values": values}))
    assert any(f"H{shapes.BYPASS}" in line for line in drawn.lines)
    assert "layer_mid" not in [chip.value.name for chip in drawn.chips]


def test_a_norm_that_feeds_both_sublayers_is_where_the_mlp_branches_off(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    values = [
        value.model_copy(update={"absent": "one norm"}) if value.name in ("layer_mid", "mlp_norm_output") else value
        for value in reference.values
    ]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"values": values}))
    norm = next(chip for chip in drawn.chips if chip.value.name == "attention_norm_output")
    (branch,) = [line for line in drawn.lines if f"H{shapes.BYPASS}" in line]
    assert branch.startswith(f"M{norm.x + 8} {norm.y + shapes.HEIGHT} ")


def test_kinds_that_look_alike_are_drawn_once(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    kind = reference.kinds[0]
    kinds = [
        kind.model_copy(update={"name": "full", "layers": [1]}),
        kind.model_copy(update={"name": "sliding", "layers": [0]}),
    ]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"kinds": kinds}))
    assert drawn.kinds == ["full", "sliding"]


@pytest.mark.parametrize(("experts", "chosen"), [(0, 0), (1, 1), (16, 2), (128, 8), (512, 10), (8, 8)])
def test_as_many_experts_are_filled_as_a_token_is_sent_to(experts: int, chosen: int) -> None:
    cells = shapes.expert_cells(experts, chosen)
    assert len(cells) == min(experts, 256)
    if experts <= 256:
        assert sum(cell[3] for cell in cells) == chosen
    assert all(x + side < shapes.RIGHT - shapes.LEFT - 20 for x, _, side, _ in cells)


# Notes and their results.

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


def fact(line: int, **changes: Any) -> SnippetFact:
    made = {
        "file": "n.md",
        "line": line,
        "section": "",
        "code": "",
        "ran": True,
        "on": "forge",
        "asserts": 1,
        **changes,
    }
    return SnippetFact(**made)


def rendered(text: str = NOTES, **changes: Any) -> prose.Prose:
    snippets = [fact(6, output="[2, 5]"), fact(14, ran=False, reason="needs a bigger machine", asserts=0)]
    return prose.render(text, file="n.md", show=pages.snippet_result, **{"snippets": snippets, **changes})


def test_a_snippet_shows_what_it_ran_on_and_gave() -> None:
    text = " ".join(Shown(rendered().html).text.split())
    assert "✓ ran on forge · 1 assert held" in text
    assert "[2, 5]" in text
    assert text.index("[2, 5]") < text.index("pseudo")


def test_a_snippet_that_did_not_run_is_marked_with_its_reason() -> None:
    assert "not run needs a bigger machine" in " ".join(Shown(rendered().html).text.split())


def test_a_failed_snippet_does_not_look_like_one_that_ran() -> None:
    html = rendered(snippets=[fact(6, ok=False, error="n.md:6: no"), fact(14)]).html
    assert "✗ failed" in html
    assert "n.md:6: no" in html


def test_pseudo_code_gets_no_result() -> None:
    assert rendered().html.count('class="nn-result') == 2


@pytest.mark.parametrize("lines", [[6], [14], [], [6, 14, 99]])
def test_fences_and_records_must_match(lines: list[int]) -> None:
    with pytest.raises(BuildFailure, match=r"n\.md:\d+"):
        rendered(snippets=[fact(line) for line in lines])


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


# Hostile text.


def test_no_text_of_a_record_becomes_markup(phimoe: Entry) -> None:
    nasty = prose_safe(phimoe)
    badges = {name: Badge(title=NASTY, says=NASTY, more=NASTY) for name in phimoe.family.badges}
    found = finding.pages(FAMILIES, {"phimoe": nasty}, badges)
    made = [
        pages.family_page(nasty, badges, {"llama": nasty}),
        *(page for page in found if page.uri in ("families/index.md", "matrix.md")),
        *pages.badge_pages({"phimoe": nasty}, badges),
    ]
    for html in [*(page.html for page in made), finding.index_cards({"phimoe": nasty}, badges)]:
        shown = Shown(html)
        assert not [tag for tag, _ in shown.tags if tag in ("script", "img")]
        assert not [name for _, attrs in shown.tags for name in attrs if name.startswith("on")]
        assert "{{ 7*7 }}" in shown.text
        assert "{% raw %}" in shown.text
    for page in found:
        assert not [tag for tag, _ in Shown(page.html).tags if tag in ("script", "img")]
    for page in made:
        assert not set('<>&"{}') & set(page.title + page.description)


def prose_safe(entry: Entry) -> Entry:
    """The entry with hostile text wherever a spec, a model or a snippet can put text."""
    reference, run = entry.references[0], entry.runs[0]
    values = [
        value.model_copy(update={"description": NASTY, "words": NASTY, "native": NASTY,
                                 "absent": value.absent and NASTY, "reasons": dict.fromkeys(value.reasons, NASTY)})
        for value in run.values
    ]  # fmt: skip
    laws = [law.model_copy(update={"says": NASTY, "formula": NASTY, "exception": NASTY}) for law in run.laws]
    config = [row.model_copy(update={"key": NASTY, "value": [NASTY], "origin": NASTY}) for row in run.config]
    origin = run.origin.model_copy(update={"detail": NASTY, "name": NASTY, "id": NASTY})
    shared = {"printout": NASTY + "\n(x) -> " + NASTY + ": y", "config": config, "origin": origin, "values": values}
    snippet = fact(7, file="n.md", output=NASTY, on=NASTY, load={NASTY: NASTY})
    checkpoints = tuple(each.model_copy(update={"note": NASTY}) for each in entry.family.checkpoints)
    family = replace(
        entry.family, title=NASTY, subtitle=NASTY, about=NASTY, architecture=NASTY, checkpoints=checkpoints
    )
    return Entry(
        family=family, spec=NASTY, notes_file="n.md",
        notes=f"## {NASTY}\n\n{NASTY}\n\n> {NASTY}\n\n```python\nx = '</code></pre><script>'\n```\n",
        references=[reference.model_copy(update=shared)],
        runs=[run.model_copy(update={**shared, "laws": laws, "snippets": [snippet.model_copy(update={"line": 8})]})],
    )  # fmt: skip


# Badges, links, publishing.


def test_a_badge_nobody_explains_is_refused(phimoe: Entry) -> None:
    with pytest.raises(SpecError, match="mixture-of-expert"):
        check_badges([phimoe.family], {"mixture-of-expertz": Badge(title="x", says="x", more="x")})


def test_a_badge_page_lists_its_families_and_no_page_is_made_for_a_badge_without_any(phimoe: Entry) -> None:
    made = {page.uri: page.html for page in pages.badge_pages({"phimoe": phimoe}, load_badges(FAMILIES))}
    assert "../../families/phimoe/" in made["badges/mixture-of-experts.md"]
    assert "badges/rmsnorm.md" not in made


@pytest.mark.parametrize(
    ("href", "problem"),
    [
        ("b/", None),
        ("b/#there", None),
        ("b/#gone", "no anchor"),
        ("#gone", "no anchor"),
        ("c/", "no file"),
        ("b/missing.css", "no file"),
        ("/b/", "sub-path"),
        ("https://example.org/x", None),
    ],
)
def test_broken_links_are_found(tmp_path: Path, href: str, problem: str | None) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(f'<a href="{href}">x</a>')
    (tmp_path / "b/index.html").write_text('<p id="there">x</p>')
    found = broken_links(tmp_path)
    assert bool(found) == (problem is not None)
    if problem is not None:
        assert problem in found[0]
        assert "index.html:1" in found[0]


def publish(root: Path) -> Path:
    from nnpedia.publish import publish as run

    run(root, root / "public")
    return root / "public"


def test_a_site_is_published_and_a_removed_family_leaves_nothing(checkout: Path) -> None:
    public = publish(checkout)
    assert (public / "families/phimoe/index.html").exists()
    assert (public / "badges/mixture-of-experts/index.html").exists()
    shutil.rmtree(checkout / "families/phimoe")
    publish(checkout)
    assert not (public / "families/phimoe").exists()
    assert not (public / "badges/mixture-of-experts").exists()
    for path in public.rglob("*.html"):
        if path.name != "404.html" and path.parent.name not in (
            "add-a-family",
            "coverage",
            "getting-started",
            "library",
        ):
            assert "phimoe" not in path.read_text(encoding="utf-8"), path


def test_a_failed_build_leaves_the_last_good_site(checkout: Path) -> None:
    public = publish(checkout)
    before = sorted((path.name, path.read_bytes()) for path in public.rglob("*.html"))
    index = checkout / "site/index.md"
    index.write_text(index.read_text() + "\n[dead](nowhere.md) and [anchor](getting-started.md#nowhere)\n")
    with pytest.raises(BuildFailure, match=r"nowhere\.md.*#nowhere"):
        publish(checkout)
    assert sorted((path.name, path.read_bytes()) for path in public.rglob("*.html")) == before
    assert not list(checkout.glob("public.*"))


def test_a_family_without_records_is_not_published(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "home/records/phimoe")
    with pytest.raises(BuildFailure, match="phimoe"):
        publish(checkout)


def test_a_page_whose_python_nobody_ran_is_not_published(checkout: Path) -> None:
    (checkout / "site/more.md").write_text("# More\n\n```python\nprint(1)\n```\n")
    with pytest.raises(BuildFailure, match=r"site/more\.md"):
        publish(checkout)


def test_nothing_is_done_when_nothing_changed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnpedia import publish as module

    public = publish(checkout)
    monkeypatch.setattr(module, "run_mkdocs", lambda *_: pytest.fail("built again"))
    publish(checkout)
    (checkout / "site/css/type.css").write_text("/* other */")
    with pytest.raises(pytest.fail.Exception):
        publish(checkout)
    assert public.exists()


def test_a_site_lost_between_two_renames_comes_back(tmp_path: Path) -> None:
    from nnpedia.publish import kept, recover

    out = tmp_path / "public"
    kept(out).mkdir()
    (kept(out) / "index.html").write_text("old")
    recover(out)
    assert (out / "index.html").read_text() == "old"
