"""What the check refuses, a build refuses too: with the same sentence, of that family alone, as bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from small_families import copy_families

from nnpedia import reporting, work
from nnpedia.checking import check_families
from nnpedia.errors import SpecError

Spec = dict[str, dict[str, dict[str, object]]]


def added(section: str, host: str, name: str, said: dict[str, str]) -> Callable[[Spec], object]:
    return lambda spec: spec.setdefault(section, {}).setdefault(host, {}).update({name: said})


MISSPELT_LAW = added("laws", "mlp", "down_projection", {"formula": "down_proj(mlp_neurosn) == mlp_output"})

#: What is changed in the spec of gpt2: names that nothing has, keys that its config does not take, no such class.
WRONG: dict[str, Callable[[Spec], object]] = {
    "a value in a law": MISSPELT_LAW,
    "a child in an address": added("values", "mlp", "mlp_neurons", {"at": "c_porj.input"}),
    "a readout": lambda spec: spec.update(readout="lm_haed(norm(hidden))"),  # type: ignore[arg-type]
    "a class": lambda spec: spec.update(architecture="GPT2LMHaedModel"),  # type: ignore[arg-type]
    "a key of the forge": lambda spec: spec["forge"].update(n_haed=5),  # type: ignore[arg-type]
    "a value of the wrong type": lambda spec: spec["forge"].update(n_head="five"),  # type: ignore[arg-type]
}


def changed(folder: Path, change: Callable[[Spec], object]) -> Path:
    families = copy_families(folder / "families")
    file = families / "gpt2" / "family.yml"
    spec = yaml.safe_load(file.read_text())
    change(spec)
    file.write_text(yaml.safe_dump(spec, sort_keys=False, width=1000))
    return families


def sentence(text: str) -> str:
    """A complaint with its file and line, from the folder of families on."""
    return text[text.index("families/gpt2/") :]


@pytest.mark.parametrize("kind", WRONG)
def test_a_build_says_what_the_check_says(tmp_path: Path, kind: str) -> None:
    families = changed(tmp_path, WRONG[kind])
    (error,) = check_families(families, ["gpt2"])["gpt2"]
    outcomes = work.build(["gpt2"], folder=families, cache_folder=tmp_path / "home")
    assert reporting.exit_code(outcomes) == error.exit_code == 2
    forged = [outcome for outcome in outcomes if outcome.unit.name.startswith("forge")]
    assert [outcome.cause for outcome in forged] == [sentence(str(error))] * 2


def test_the_other_families_of_a_build_are_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    families = changed(tmp_path, MISSPELT_LAW)
    (error,) = check_families(families, ["gpt2"])["gpt2"]
    outcomes = work.build(folder=families, cache_folder=tmp_path / "home")
    status = {outcome.unit.family: outcome.status for outcome in outcomes}
    assert status == {"gpt2": "failed", "llama": "built"}
    assert all(outcome.ok for outcome in outcomes if outcome.unit.family == "llama")
    reporting.complain_of(outcomes, families.parent)
    (line,) = capsys.readouterr().err.splitlines()  # once, though each unit of the family is refused
    assert line.startswith("gpt2: openai-community/gpt2 at full size and 3 more: ")
    assert line.endswith(f": {sentence(str(error)).partition(': ')[2]}")


#: What a spec needs beside it, and what is said where it is not there.
BESIDE: dict[str, tuple[Callable[[Path], object], str]] = {
    "an unknown badge": (
        lambda folder: _replace(folder / "gpt2" / "family.yml", "- rmsnorm", "- rmsnrom"),
        "badges.yml has no badge 'rmsnrom'; did you mean 'rmsnorm'?",
    ),
    "no notes": (lambda folder: (folder / "gpt2" / "notes.md").unlink(), "there are no notes here"),
    "no lineage": (
        lambda folder: (folder / "lineages.yml").write_text(
            "a: {title: A, says: b, light: '#aaaaaa', dark: '#bbbbbb', families: [opt]}"
        ),
        "no lineage of lineages.yml names gpt2",
    ),
}


def _replace(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new, 1))


@pytest.mark.parametrize("kind", BESIDE)
def test_a_build_that_could_not_be_published_is_not_begun(tmp_path: Path, kind: str) -> None:
    harm, said = BESIDE[kind]
    families = copy_families(tmp_path / "families")
    harm(families)
    (error,) = check_families(families, ["gpt2"])["gpt2"]
    with pytest.raises(SpecError, match="gpt2/") as refused:
        work.build(["gpt2"], folder=families, cache_folder=tmp_path / "home", produce="nowhere:nothing")
    assert str(refused.value) == str(error)
    assert said in str(error)
    assert refused.value.exit_code == 2


def test_a_config_that_no_model_is_built_with_is_bad_input_at_its_checkpoint(tmp_path: Path) -> None:
    families = changed(tmp_path, lambda spec: spec["checkpoints"][1]["config"].update(n_embd=767))  # type: ignore[index, attr-defined]
    lines = (families / "gpt2" / "family.yml").read_text().splitlines()
    line = lines.index("- id: openai-community/gpt2-medium") + 1
    outcomes = {outcome.unit.name: outcome for outcome in work.build(["gpt2"], folder=families, cache_folder=tmp_path)}
    bad = outcomes.pop("openai-community/gpt2-medium")
    assert bad.exit_code == 2
    said = "no model is built with the config of openai-community/gpt2-medium: ValueError: "
    assert (bad.cause or "").startswith(f"families/gpt2/family.yml:{line}: {said}")
    assert all(outcome.ok for outcome in outcomes.values())
