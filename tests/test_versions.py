"""A place that moved between releases is data; one that nobody knows of costs its own value and nothing else."""

from __future__ import annotations

import html
import re
import tomllib
from pathlib import Path

import pytest
import torch
from forged import PROMPT, folder, load
from test_wrong_specs import wrong_family

from nnpedia import StandardizedTransformer, moves, pages
from nnpedia.cache import families_folder
from nnpedia.entry import load_entry
from nnpedia.errors import SpecError, Unavailable
from nnpedia.family import load_families, load_family
from nnpedia.versions import installed, release
from nnpedia.vocabulary import load_vocabulary

ROOT = Path(__file__).parent.parent


def llama_with(tmp_path: Path, values: str) -> Path:
    """A families folder of llama alone, with this said of its attention's values."""
    return wrong_family(tmp_path, "self_attn", values)


MOVED = """\
    attention_premix:
      moved:
        - {until: "5.23", at: v_proj.output}
        - {since: "5.23", until: "5.24", absent: it was not there}
"""


@pytest.mark.parametrize(
    ("on", "at", "absent"),
    [
        ("5.22.3", "v_proj.output", None),
        ("5.23.1", None, "it was not there"),
        ("5.23.9", None, "it was not there"),
        ("5.24.0", "o_proj.input", None),
        ("5.24.0.dev0", "o_proj.input", None),
    ],
)
def test_a_release_has_the_place_that_is_said_of_it(
    tmp_path: Path, on: str, at: str | None, absent: str | None
) -> None:
    value = load_family(llama_with(tmp_path, MOVED) / "llama", (), on).values["self_attn"]["attention_premix"]
    assert (value.at, value.absent) == (at, absent)
    assert (value.native is not None) == (at is not None)  # what an entry does not say stays as it is


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("{until: 5.23, at: input}", "a version is written in quotes"),
        ("{at: input}", "say since, until or both"),
        ('{until: "5.24"}', "says nothing that differs before 5.24"),
        ('{since: "5.24", until: "5.23", at: input}', "since 5.24 is not before until 5.23"),
        ('{until: "5.21", at: input}', "before 5.21 is no transformers that the specs are told for"),
        ('{until: "5.24", at: "input["}', "is not an address"),
        ('{until: "5.24", native: "batch seq -> batch seq"}', "attention_premix|native|batch seq"),
        ('{until: "5.24", at: input}, {since: "5.23", at: output}', "before 5.24 and since 5.23 hold at once"),
        ('{untill: "5.24", at: input}', "did you mean 'until'"),
    ],
)
def test_a_wrong_entry_is_one_line_at_its_place(tmp_path: Path, entry: str, complaint: str) -> None:
    families = llama_with(tmp_path, f"    attention_premix:\n      moved: [{entry}]\n")
    with pytest.raises(SpecError, match=complaint) as raised:
        load_family(families / "llama")
    lines = (families / "llama" / "family.yml").read_text().splitlines()
    at = lines.index("    attention_premix:") + 1
    assert f"llama/family.yml:{at}:" in str(raised.value) or f"llama/family.yml:{at + 1}:" in str(raised.value)


def test_every_place_that_moved_is_told_for_both_ends() -> None:
    told = load_vocabulary(families_folder()).versions["transformers"]
    moved = [
        (family.folder, host, name)
        for family in load_families(families_folder()).values()
        for host, table in family.values.items()
        for name, value in table.items()
        if value.moved and value.absent is None
    ]
    assert moved
    for place, host, name in moved:
        before, now = (load_family(place, (), on).values[host][name] for on in (str(told.since), told.measured))
        assert before != now, name


def test_a_wrong_operation_costs_its_own_value_alone(tmp_path: Path) -> None:
    wrong = '    attention_queries: {at: "@attention_interfaces_1.args[1]"}\n'
    model = StandardizedTransformer(folder("llama"), families=llama_with(tmp_path, wrong), attn_implementation="eager")
    right = load("llama", attn_implementation="eager")
    with model.trace(PROMPT):
        pattern = model.layers[1].self_attn.attention_probabilities.save()
        logits = model.logits.save()
    with right.trace(PROMPT):
        expected = right.layers[1].self_attn.attention_probabilities.save()
        clean = right.logits.save()
    assert torch.equal(pattern, expected)
    assert torch.equal(logits, clean)
    with pytest.raises(Unavailable) as raised, model.trace(PROMPT):
        _ = model.layers[1].self_attn.attention_queries
    assert raised.value.value == "attention_queries"
    assert "there is no operation 'attention_interfaces_1'" in raised.value.reason
    assert "did you mean 'attention_interface_1'?" in raised.value.reason
    measured = load_vocabulary(families_folder()).versions
    for package in ("transformers", "nnsight"):
        assert f"{package} {installed(package)}" in raised.value.reason.partition("installed: ")[2].partition(";")[0]
        assert f"{package} {measured[package].measured}" in raised.value.reason.partition("measured with ")[2]
    missing = {row.name for row in model.support() if not row.available and "absent" not in str(row.reason)}
    everything = {row.name for row in right.support() if not row.available}
    assert missing - everything == {"attention_queries"}


def test_the_package_asks_for_what_the_specs_are_told_for() -> None:
    told = load_vocabulary(families_folder()).versions
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    for package, each in told.items():
        assert f"{package}>={each.since},<{each.until}" in asked
        assert f"{package}=={each.measured}" in pinned
        assert each.holds(installed(package)), f"{package} {installed(package)} is not what the specs are told for"
    readme = (ROOT / "README.md").read_text()
    assert f"transformers {told['transformers'].between()} and nnsight {told['nnsight'].between()};" in readme
    assert release("5.24.0.dev0") == release("5.24") == (5, 24, 0)


def test_the_page_says_the_ranges_and_why_they_begin_where_they_do() -> None:
    page = pages.versions_page(
        {name: load_entry(family, []) for name, family in load_families(families_folder()).items()}
    )
    text = html.unescape(re.sub(r"<[^>]+>", "", page.html))
    for package, told in load_vocabulary(families_folder()).versions.items():
        row = next(row for row in page.html.split("<tr>") if f"<code>{package}</code></th>" in row)
        assert re.findall(r">([\d.]+)</td>", row) == [told.since, told.until, told.measured]
        assert str(told.older).replace("`", "") in text
    for move in moves.moves(list(load_families(families_folder()).values())):
        assert all(said in page.html for said in (f"{move.host}.{move.name}", move.when))
    for told in moves.noted(list(load_families(families_folder()).values())):
        assert f'<a href="../families/{told.family}/#notes-{told.slug}">' in page.html
