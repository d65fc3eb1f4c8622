"""What a reader would be wronged by: a page that says what no record does, drops what one says, or runs its text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sample_records as samples
from markupsafe import escape
from shown import Shown

from nnpedia import finding, pages, readings, views
from nnpedia.badges import Badge, check_badges, load_badges
from nnpedia.entry import Entry
from nnpedia.errors import SpecError
from nnpedia.linebreaks import breakable, breakable_value
from nnpedia.record import Load

FAMILIES = samples.FAMILIES
NASTY = """</pre></code><script>alert(1)</script>{{ 7*7 }}{% raw %}<img src=x onerror=alert(1)>**b**`c`&amp;"'"""


@pytest.fixture(scope="module")
def phimoe() -> Entry:
    return samples.entry(FAMILIES / "phimoe")


@pytest.fixture(scope="module")
def page(phimoe: Entry) -> pages.Page:
    return pages.family_page(phimoe, load_badges(FAMILIES), {})


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


# Badges.


def test_a_badge_nobody_explains_is_refused(phimoe: Entry) -> None:
    with pytest.raises(SpecError, match="mixture-of-expert"):
        check_badges([phimoe.family], {"mixture-of-expertz": Badge(title="x", says="x", more="x")})


def test_a_badge_page_lists_its_families_and_no_page_is_made_for_a_badge_without_any(phimoe: Entry) -> None:
    made = {page.uri: page.html for page in pages.badge_pages({"phimoe": phimoe}, load_badges(FAMILIES))}
    assert "../../families/phimoe/" in made["badges/mixture-of-experts.md"]
    assert "badges/rmsnorm.md" not in made


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
    snippet = samples.snippet(7, file="n.md", output=NASTY, on=NASTY, load={NASTY: NASTY})
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


@pytest.mark.parametrize(
    ("text", "long", "broken"),
    [
        ("@attention_interface_1.args[1]", 24, "@attention_interface_1|.args[1]"),
        ("self__upcast_and_reordered_attn_0", 24, "self__upcast_|and_|reordered_|attn_|0"),
        ('needs attn_implementation="eager"', 24, 'needs attn_implementation=|"eager"'),
        ("outputs[{layer}]", 24, "outputs|[{layer}]"),
        ("num_attention_heads", 12, "num_|attention_|heads"),
        ("_a == b, element 1", 24, "_a == b, element 1"),
    ],
)
def test_a_name_goes_on_in_the_next_line_at_its_own_joints(text: str, long: int, broken: str) -> None:
    assert str(breakable(text, long)).replace("<wbr>", "|") == str(escape(broken))


@pytest.mark.parametrize(
    "broken",
    [
        '["GPTNeoXFor|CausalLM"]', "gelu_|pytorch_|tanh", "{rope_type: yarn, partial_|rotary_|factor: 0.5}", "silu",
        "[full_|attention, <b>]",
    ],
)  # fmt: skip
def test_a_value_of_a_config_breaks_between_words(broken: str) -> None:
    text = broken.replace("|", "")
    assert str(breakable_value(text)).replace("<wbr>", "|") == str(escape(broken))
