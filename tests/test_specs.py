"""A spec says what it says or gives one line with its file and line; nothing of it is code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from forged import FAMILIES, spec

from nnpedia import address, formula, yamlfile
from nnpedia.cache import families_folder
from nnpedia.errors import NnpediaError, SpecError
from nnpedia.family import load_family
from nnpedia.vocabulary import load_vocabulary

MINIMAL = """\
family: tiny
title: Tiny
subtitle: A small one
extends: llama
architecture: LlamaForCausalLM
checkpoints:
  - id: some/tiny
"""


def written(tmp_path: Path, text: str, name: str = "tiny") -> Path:
    """A families folder with the real vocabulary and llama, and one more family."""
    folder = tmp_path / "families"
    shutil.copytree(families_folder() / "llama", folder / "llama", dirs_exist_ok=True)
    shutil.copy(families_folder() / "vocabulary.yml", folder)
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "family.yml").write_text(text)
    return folder / name


def complaint(tmp_path: Path, text: str) -> tuple[int | None, str]:
    """The line a malformed spec is complained of at, and the complaint."""
    folder = written(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        load_family(folder)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 700
    assert caught.value.exit_code == 2
    found = re.match(r"(?P<file>\S*tiny/family\.yml)(:(?P<line>\d+))?: ", said)
    assert found, said
    return int(found["line"]) if found["line"] else None, said[found.end() :]


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


#: What is added to a minimal spec, the part of it the complaint must be at, and what it must say.
MALFORMED = {
    "an unknown key, with the nearest": ("badgse: [x]", "badgse", "unknown key 'badgse'; did you mean 'badges'"),
    "an unknown key deep down": (
        "values:\n  mlp:\n    mlp_output:\n      att: output",
        "att: output",
        "unknown key 'values.mlp.mlp_output.att'; did you mean 'at'",
    ),
    "an unknown key of a checkpoint": (
        "packages:\n  - name: x\n    idd: y",
        "idd: y",
        "packages.0.idd'; did you mean 'id'",
    ),
    "a key given twice": ("title: Again", "title: Again", "'title' is given twice"),
    "a value that is not there": (
        "values:\n  mlp:\n    mlp_outptu: {at: output}",
        "mlp_outptu",
        "no 'mlp_outptu'; did you mean 'mlp_output'",
    ),
    "a host that is not there": ("values:\n  mpl:\n    x: {at: output}", "mpl:", "no 'mpl'; did you mean 'mlp'"),
    "a law that is not there": (
        "laws:\n  layers:\n    residual_sun: {exception: none}",
        "residual_sun",
        "no 'residual_sun'; did you mean 'residual_sum'",
    ),
    "a value listed twice": (
        "order:\n  mlp: [mlp_neurons, mlp_neurons, mlp_output]",
        "mlp: [",
        "order: mlp_neurons is listed twice",
    ),
    "a part that is not there": ("parts: [atention]", "parts:", "no 'atention'; did you mean 'attention'"),
    "names of a host that is not there": ("names:\n  modle: {a: b}", "modle", "no 'modle'; did you mean 'model'"),
    "a size of an axis that is not there": ("sizes:\n  hiden_size: [config.x]", "hiden_size", "'hidden_size'"),
    "a number for a word": ("about: [1, 2]", "about:", "about: Input should be a valid string"),
    "a word for a list": ("badges: word", "badges:", "badges: Input should be a valid list"),
    "a word for a mapping": ("values: word", "values:", "values: Input should be a valid dictionary"),
    "nothing for a mapping": ("values:", "values:", "values: Input should be a valid dictionary"),
    "an address that does not parse": (
        "values:\n  mlp:\n    mlp_output: {at: down_proj..output}",
        "down_proj..output",
        "'down_proj..output' is not an address",
    ),
    "a size that is no formula": (
        "sizes:\n  hidden_size:\n    - config.x\n    - '1 +'",
        "'1 +'",
        "'1 +' is not a formula",
    ),
    "a law that is no law": (
        "laws:\n  layers:\n    next_block:\n      formula: layer_output",
        "formula: layer_output",
        "is not a law: write `left == right`",
    ),
    "a readout that reaches for code": ("readout: hidden.__class__", "readout", "underscore"),
    "two places at once": (
        "values:\n  mlp:\n    mlp_output: {at: output, absent: none}",
        "mlp_output",
        "at most one of at, reader, absent and todo",
    ),
    "a pattern that ends elsewhere": (
        "values:\n  mlp:\n    mlp_output: {at: output, native: 'batch seq x -> batch seq x'}",
        "mlp_output",
        "must end in the layout's axes, batch seq hidden_size",
    ),
    "a pattern that loses an axis": (
        "values:\n  mlp:\n    mlp_output: {at: output, native: '(batch seq) -> batch seq hidden_size'}",
        "mlp_output",
        "names other axes on its left than on its right",
    ),
    "a pattern that is none": (
        "values:\n  mlp:\n    mlp_output: {at: output, native: 'batch seq hidden_size'}",
        "mlp_output",
        "is not a native pattern",
    ),
    "a tolerance below zero": (
        "laws:\n  layers:\n    next_block: {tolerance: -1}",
        "next_block",
        "greater than or equal to 0",
    ),
    "a checkpoint without an owner": ("packages: []\ncheckpoints_: 1", "checkpoints_", "did you mean 'checkpoints'"),
    "a dtype that is none": ("packages: [{name: x, dtype: float8}]", "packages", "packages.0"),
    "a tab": ("values:\n\tmlp: {}", "\tmlp", "malformed YAML"),
    "an unclosed bracket": ("badges: [a, b\nabout: c", "about: c", "malformed YAML"),
    "an unclosed quote": ('about: "never closed\n\n', "about", "malformed YAML"),
    "an alias of nothing": ("about: *nothing", "about", "malformed YAML"),
    "a tag that makes an object": (
        "about: !!python/name:os.system x",
        "about",
        "malformed YAML: could not determine a constructor",
    ),
    "a key that is a list": ("? [a, b]\n: c", "? [a, b]", "a key must be a word or a number"),
    "a base that is not there": ("", "extends", "no 'lama'; did you mean 'llama'"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_spec_is_one_line_at_its_place(tmp_path: Path, kind: str) -> None:
    addition, part, said = MALFORMED[kind]
    text = MINIMAL + addition + "\n"
    if kind == "a base that is not there":
        text = text.replace("extends: llama", "extends: lama")
    line, message = complaint(tmp_path, text)
    assert said in message
    lines = text.splitlines()
    if "unclosed quote" in kind:  # a scanner only knows that the file ended
        assert line is not None
        assert line >= line_of(text, part)
    else:
        assert line == len(lines) - next(i for i, each in enumerate(reversed(lines)) if part in each)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the key 'family' is missing"),
        ("- a\n- b\n", "valid dictionary"),
        ("just words\n", "valid dictionary"),
        ("--- {}\n--- {}\n", "malformed YAML"),
        ("\x00", "malformed YAML"),
        (MINIMAL.replace("family: tiny", "family: other"), "the folder is 'tiny' but family says 'other'"),
        (MINIMAL.replace("family: tiny", "family: Not A Name"), "family"),
        (MINIMAL.replace("title: Tiny\n", ""), "the key 'title' is missing"),
        (MINIMAL.replace("  - id: some/tiny\n", "  []\n"), "checkpoints"),
        (MINIMAL.replace("some/tiny", "../../etc/passwd"), "checkpoints.0.id"),
        (MINIMAL + "about: " + "[" * 3000 + "]" * 3000 + "\n", "malformed YAML"),
        (MINIMAL + "".join(f"{'  ' * n}a{n}:\n" for n in range(600)), ""),
        (MINIMAL + "about: 2026-02-31\n", "malformed YAML"),
    ],
)
def test_a_file_that_is_no_spec_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    _, message = complaint(tmp_path, text)
    assert said in message


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    folder = written(tmp_path, MINIMAL)
    (folder / "family.yml").write_bytes(b"family: \xff\xfe\n")
    with pytest.raises(SpecError, match="cannot be read"):
        load_family(folder)
    (folder / "family.yml").unlink()
    load_family.cache_clear()
    with pytest.raises(SpecError, match="no such file"):
        load_family(folder)


def test_a_family_may_not_extend_itself_in_a_circle(tmp_path: Path) -> None:
    for base in ("tiny", "other"):
        folder = written(tmp_path, MINIMAL.replace("extends: llama", f"extends: {base}"))
        written(tmp_path, MINIMAL.replace("family: tiny", "family: other").replace("llama", "tiny"), "other")
        load_family.cache_clear()
        with pytest.raises(SpecError, match=r"family\.yml:4: .*is extended in a circle"):
            load_family(folder)


def test_aliases_that_swell_do_not_swell_the_work(tmp_path: Path) -> None:
    """Ten levels of ten aliases each would be ten thousand million entries."""
    levels = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    levels += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    path = tmp_path / "swelling.yml"
    path.write_text(levels)
    with pytest.raises(SpecError, match=r"swelling\.yml"):
        yamlfile.read(path)


# -- what a spec says ---------------------------------------------------------------------------


def test_a_family_that_says_nothing_is_its_base(tmp_path: Path) -> None:
    tiny, llama = load_family(written(tmp_path, MINIMAL)), spec("llama")
    assert tiny.values == llama.values
    assert tiny.laws == llama.laws
    assert tiny.names == llama.names
    assert tiny.sizes == llama.sizes
    assert tiny.readout == llama.readout
    assert tiny.parts == llama.parts
    assert tiny.title == "Tiny"


def test_an_override_replaces_the_place_and_keeps_the_rest(tmp_path: Path) -> None:
    text = MINIMAL + (
        "values:\n  self_attn:\n    attention_premix: {at: o_proj.input}\n"
        "    attention_scores: {at: scores.output}\n    attention_output: {absent: it adds nothing}\n"
        "  mlp:\n    mlp_output: {says: Something else}\n"
    )
    family, base = load_family(written(tmp_path, text)), spec("llama")
    attention = family.values["self_attn"]
    assert attention["attention_premix"].native is None, "a new place has its own layout"
    assert attention["attention_scores"].at == "scores.output"
    assert attention["attention_scores"].needs == base.values["self_attn"]["attention_scores"].needs
    assert attention["attention_scores"].layout == "Pattern"
    assert attention["attention_output"].at is None
    assert attention["attention_output"].absent == "it adds nothing"
    assert family.values["mlp"]["mlp_output"].at == base.values["mlp"]["mlp_output"].at
    assert family.values["mlp"]["mlp_output"].says == "Something else"
    assert family.where("values", "self_attn", "attention_scores").endswith(
        f"tiny/family.yml:{line_of(text, 'attention_scores')}"
    )
    vocabulary = (families_folder() / "vocabulary.yml").read_text()
    assert family.where("values", "layers", "layer_input").endswith(
        f"vocabulary.yml:{line_of(vocabulary, '    layer_input:')}"
    )


def test_a_missing_part_is_absent_with_the_reason_and_what_is_said_of_it_stands(tmp_path: Path) -> None:
    text = MINIMAL + "parts: [attention]\nvalues:\n  mlp:\n    mlp_neurons: {at: wo.input}\n"
    family = load_family(written(tmp_path, text))
    reason = family.vocabulary.parts["mlp"].reason(["attention"])
    assert family.values["mlp"]["mlp_activation"].absent == reason
    assert family.values["mlp"]["mlp_neurons"].at == "wo.input"
    assert family.values["layers"]["layer_output"].absent is None, "belongs to no part"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_value_of_a_family_says_where_and_every_law_parses(family: str) -> None:
    """And every name of the vocabulary is there: a family leaves none out without a word."""
    loaded, vocabulary = spec(family), load_vocabulary(families_folder())
    for host, table in vocabulary.values.items():
        assert sorted(loaded.values[host]) == sorted(table)  # a family may say another order
        for name, value in loaded.values[host].items():
            assert sum(place is not None for place in (value.at, value.reader, value.absent)) == 1
            if value.at is not None:
                assert str(address.parse(value.at)) == value.at
            assert value.layout in vocabulary.layouts
            assert loaded.axes(value) == vocabulary.axes_of(value.layout)
            assert re.search(r"\.yml:\d+$", loaded.where("values", host, name))
    for table in loaded.laws.values():
        for law in table.values():
            assert formula.parse(law.formula, law=True).names()


# -- the vocabulary -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("layout: Tokens", "layout: Tokns"), "Tokns, which is not there"),
        (("Residual: [batch, seq, hidden_size]", "Residual: [batch, sequence, hidden_size]"), "sequence"),
        (("\n      part: attention\n", "\n      part: atention\n"), "a part that is not there: atention"),
        (("formula: token_embeddings == first.layer_input", "formula: token_embeddings = first"), "is not a formula"),
        (("at: embed_tokens.output", "at: embed_tokens"), "is not an address"),
        (("says: how", "sayz: how"), None),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_refused(
    tmp_path: Path, change: tuple[str, str], said: str | None
) -> None:
    folder = written(tmp_path, MINIMAL).parent
    text = (folder / "vocabulary.yml").read_text()
    if change[0] not in text:
        assert said is None, f"the vocabulary no longer says {change[0]}"
        return
    (folder / "vocabulary.yml").write_text(text.replace(*change, 1))
    with pytest.raises(NnpediaError, match=re.escape(said or "")) as caught:
        load_vocabulary(folder)
    assert re.match(r"\S*vocabulary\.yml:\d+: ", str(caught.value))
    assert "\n" not in str(caught.value)
