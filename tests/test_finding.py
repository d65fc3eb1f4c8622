"""What a reader who looks for something would be wronged by: a page that says it of the wrong families."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sample_records as samples

from nnpedia import finding, overview
from nnpedia.badges import load_badges
from nnpedia.entry import Entry
from nnpedia.finding.cards import facets
from nnpedia.finding.holders import held, rows_of
from nnpedia.finding.lawpages import law_entries
from nnpedia.finding.matrix import matrix_page
from nnpedia.pages import Page
from nnpedia.record import LawFact
from nnpedia.vocabulary import load_vocabulary

FAMILIES = samples.FAMILIES


@pytest.fixture(scope="module")
def entries() -> dict[str, Entry]:
    """A mixture, two dense families and a recurrent one."""
    return {name: samples.entry(FAMILIES / name) for name in ("gpt2", "llama", "mamba2", "phimoe")}


@pytest.fixture(scope="module")
def pages(entries: dict[str, Entry]) -> dict[str, Page]:
    return {page.uri: page for page in finding.pages(FAMILIES, entries, load_badges(FAMILIES))}


def shown(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", str(html).replace("<wbr>", "")).split())


# Values.


def test_every_value_and_every_law_has_a_page(pages: dict[str, Page]) -> None:
    vocabulary = load_vocabulary(FAMILIES)
    for kind, table in (("values", vocabulary.values), ("laws", vocabulary.laws)):
        for host, names in table.items():
            assert {f"{kind}/{host}.{name}.md" for name in names} <= set(pages)


def test_a_value_s_page_lists_each_family_once_as_having_or_as_lacking_it(entries: dict[str, Entry]) -> None:
    rows = {name: rows_of(entry) for name, entry in entries.items()}
    cells = {name: overview.cells(entry) for name, entry in entries.items()}
    for host, values in load_vocabulary(FAMILIES).values.items():
        for name in values:
            value = held(host, name, rows, cells)
            lacking = [family for families in value.lacking.values() for family in families]
            assert sorted([*value.families, *lacking]) == sorted(entries), f"{host}.{name}"


def test_a_value_s_page_says_where_each_family_reads_it(pages: dict[str, Page]) -> None:
    page = pages["values/self_attn.attention_premix.md"]
    places = re.findall(r'<section class="nn-place">.*?</section>', page.html, re.DOTALL)
    families = {re.search(r"words for (\S+)", shown(place)).group(1): place for place in places}  # type: ignore[union-attr]
    assert "llama" in families["o_proj.input"]
    assert "phimoe" in families["o_proj.input"]
    assert "mamba2: no block" not in shown(page.html)
    assert "no block of this family has softmax attention mamba2" in shown(page.html)


def test_a_value_s_page_tells_the_condition_and_the_other_library_s_name(pages: dict[str, Page]) -> None:
    page = pages["values/self_attn.attention_probabilities.md"]
    assert "needs attn_implementation=" in shown(page.html)
    assert "blocks.{layer}.attn.hook_pattern" in shown(page.html)
    assert "hook_pattern" in page.description
    assert "attention_probabilities" in page.head


def test_a_value_s_page_names_the_laws_that_speak_of_it(pages: dict[str, Page]) -> None:
    found = re.findall(r'href="\.\./\.\./laws/([^"/]+)/"', pages["values/self_attn.attention_probabilities.md"].html)
    assert found == ["self_attn.pattern", "self_attn.mixing"]


# Laws.


def test_a_law_tells_the_families_it_holds_on_those_excepted_and_those_it_says_nothing_of(
    entries: dict[str, Entry],
) -> None:
    run = entries["gpt2"].runs[0]
    changed = [
        law.model_copy(update={"exception": "it is scaled", "error": 3.0, "holds": False})
        if law.name == "pattern"
        else law
        for law in run.laws
    ]
    excepted = replace(entries["gpt2"], runs=[run.model_copy(update={"laws": changed})])
    without = [law for law in entries["mamba2"].runs[0].laws if law.host != "self_attn"]
    bare = replace(entries["mamba2"], runs=[entries["mamba2"].runs[0].model_copy(update={"laws": without})])
    laws = law_entries(FAMILIES, {**entries, "gpt2": excepted, "mamba2": bare})
    law = next(law for law in laws if law.name == "pattern")
    assert law.families == ["llama", "phimoe"]
    assert [(each.family, each.form.exception) for each in law.excepted] == [("gpt2", "it is scaled")]
    assert law.missing == {"no block of this family has softmax attention": ["mamba2"]}
    assert law.worst == 0.25
    assert law.exact == 0


def test_a_law_s_page_gives_the_error_and_what_is_allowed(pages: dict[str, Page]) -> None:
    row = re.search(r"<tr><th[^>]*><a[^>]*>phimoe.*?</tr>", pages["laws/layers.residual_sum.md"].html, re.DOTALL)
    assert row is not None
    assert shown(row[0]) == "phimoe 0.25 ε 2 ε forge · eager · 2 cases"


# Cards.


def test_a_card_s_digits_are_the_family_s_facts(entries: dict[str, Entry]) -> None:
    found = {facet.name: facet for facet in facets(entries, load_badges(FAMILIES))}
    for family, entry in entries.items():
        on = {
            name: {option.value for option, bit in zip(facet.options, facet.bits(family), strict=True) if bit == "1"}
            for name, facet in found.items()
        }
        assert on["badge"] == set(entry.family.badges)
        assert on["value"] == {f"{host}.{name}" for host, name in rows_of(entry)}
        assert on["host"] == {host for host, _ in rows_of(entry)}
        assert on["weights"] == set()


# The matrix.


def test_each_cell_s_number_leads_to_its_own_reason(entries: dict[str, Entry]) -> None:
    html = str(matrix_page(entries).html)
    whys = dict(re.findall(r'<li id="why-(\d+)">.*?</b>: <span>(.*?)</span>', html))
    row = re.search(r'<tr id="value-mlp-router_logits">.*?</tr>', html, re.DOTALL)
    assert row is not None
    told = {
        family: whys.get(number)
        for family, number in re.findall(r'families/(\w+)/[^"]*"(?: data-why="(\d+)")?>', row[0])
    }
    assert told == {
        "gpt2": "the MLP is dense: there is no router and there are no experts",
        "llama": "the MLP is dense: there is no router and there are no experts",
        "mamba2": "no block of this family has an MLP",
        "phimoe": None,
    }


def test_a_reason_is_said_once_with_every_cell_it_stands_behind(entries: dict[str, Entry]) -> None:
    table = overview.table(list(entries.values()))
    said = [(reason.state, reason.says) for reason in table.reasons]
    assert len(said) == len(set(said))
    recurrent = next(reason for reason in table.reasons if "recurrent mixer" in reason.says)
    assert recurrent.where == [(["all of linear_attn"], ["gpt2", "llama", "phimoe"])]


def test_a_law_that_no_family_has_as_the_vocabulary_says_it_is_listed_as_they_have_it() -> None:
    """The list and the law's page would else show an identity that holds nowhere."""
    llama = samples.entry(FAMILIES / "llama")
    law = "next_block"

    def restated(formula: str) -> Entry:
        def said(fact: LawFact) -> LawFact:
            return fact.model_copy(update={"formula": formula}) if fact.name == law else fact

        runs = [run.model_copy(update={"laws": [said(each) for each in run.laws]}) for run in llama.runs]
        return replace(llama, runs=runs)

    def listed(*entries: Entry) -> str:
        found = law_entries(FAMILIES, {str(number): entry for number, entry in enumerate(entries)})
        return next(each.formula for each in found if (each.host, each.name) == ("layers", law))

    own = listed(llama)
    assert listed(restated("layer_output * 2 == layer_output")) == "layer_output * 2 == layer_output"
    assert listed(restated("layer_output * 2 == layer_output"), llama) == own
