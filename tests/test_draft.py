"""Drafts of hidden families beside what is written of them, and what a draft makes of bad input and wrong places."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FAMILIES = ROOT / "families"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Forged checkpoints of drafts are kept apart from the checkout's."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("drafts")
        patch.setenv("NNPEDIA_HOME", str(folder))
        yield folder


@pytest.mark.parametrize("name", ["gpt2", "granite", "falcon", "mixtral", "nemotron", "olmo"])
def test_a_hidden_family_is_found_again(name: str, scratch: Path) -> None:
    """Own names and fused projections; multipliers; a parallel block that writes in place; a mixture; a squared ReLU,
    which is the product of a ReLU and the up projection as well, under norms that add one to their weight; norms
    without weights and a clip.
    """
    from nnpedia.draft.measure import score

    found = score(name, FAMILIES)
    assert (found.wrong, found.missing, found.partly, found.problems) == ([], [], [], [])
    assert found.names[0] == found.names[1] > 0, found.name_faults
    assert found.values[0] == found.values[1] >= 25
    assert (found.lacking, found.added) == ([], [])
    assert found.extends != name


@pytest.fixture(scope="module")
def olmo2(scratch: Path) -> Any:
    """OLMo 2 seen once, with no family about that has post-norms."""
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.proving import available
    from nnpedia.draft.sighting import see
    from nnpedia.draft.trial import trial
    from nnpedia.vocabulary import load_vocabulary

    subject = open_subject("olmo2")
    pool = [one for one in available(FAMILIES, ["olmo2"]) if one.family in ("llama", "phi")]
    return subject, see(trial(subject), load_vocabulary(FAMILIES)), pool


def test_a_wrong_place_is_taken_out(olmo2: Any, tmp_path: Path) -> None:
    """What the attention returns before its norm has the right shape, is read and written, and is not what is added."""
    from nnpedia.draft.places import Place
    from nnpedia.draft.proving import drafted, prove

    draft = drafted(*olmo2)
    said = draft.said["self_attn", "attention_output"]
    right = said.choices[0]
    said.choices = [replace(right, place=Place("output[0]"))]
    prove(draft, tmp_path)
    assert right.place.at == "^post_attention_layernorm.output"
    assert "attention_add" in (draft.todo.get(("self_attn", "attention_output")) or "")
    spec = draft.spec["values"]["self_attn"]["attention_output"]
    assert "output[0]" in spec["todo"]
    assert "at" not in spec


def test_the_base_is_the_one_beside_which_the_least_is_written(olmo2: Any, tmp_path: Path) -> None:
    """From a base of other names and one norm; and among all, one with a part that has to be undone."""
    from nnpedia.draft.basing import length, nearest
    from nnpedia.draft.measure import score
    from nnpedia.draft.proving import drafted, prove

    draft = drafted(*olmo2)
    draft.base = next(one for one in draft.pool if one.family == "phi")
    prove(draft, tmp_path)
    other = nearest(draft, tmp_path)
    assert other.base is not None
    assert (other.base.family, other.todo, other.problems) == ("llama", {}, [])
    assert length(other) < length(draft)
    found = score("qwen3_5_text", FAMILIES)
    assert (found.extends, found.problems, found.wrong, found.missing) == ("qwen3_next", [], [], [])


def test_a_badge_that_the_reference_does_not_show_is_seen_on_another_checkpoint(scratch: Path) -> None:
    """Of Phi-3 the smallest has a key for every query, and positions that are not stretched."""
    from nnpedia.draft.badging import badges_of
    from nnpedia.draft.elsewhere import badges_elsewhere, subject_of
    from nnpedia.draft.proving import drafted
    from nnpedia.draft.sighting import see
    from nnpedia.draft.trial import trial
    from nnpedia.family import load_family

    family = load_family(FAMILIES / "phi3")
    subject = subject_of(family, family.checkpoints[0], family.architecture)
    draft = drafted(subject, see(trial(subject), family.vocabulary), [load_family(FAMILIES / "llama")])
    wanted = ["grouped-query-attention", "longrope", "alibi"]
    assert not {*wanted} & {*badges_of(draft)}
    assert list(badges_elsewhere(draft, family, wanted)) == wanted[:2]


@pytest.mark.parametrize(("factor", "unscaled"), [(1.0, True), (0.5, False), (True, False)])
def test_a_scale_of_one_is_no_scale(factor: float, unscaled: bool, olmo2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag is no scale of one: what it switches on is not told by it."""
    from nnpedia.draft.badging.registry import DETECTORS, attentions_of, module_at
    from nnpedia.draft.making import Form
    from nnpedia.draft.proving import drafted

    draft = drafted(*olmo2)
    for _, host in attentions_of(draft):
        monkeypatch.setattr(module_at(draft, host), "scaling", factor)
    dot = "dot(attention_queries, attention_keys)"
    for scores in (f"scaling * {dot}", f"{dot} * scaling", dot, dot.replace(", ", ",")):
        draft.laws["self_attn", "scores"] = Form(f"unmasked({scores}, attention_scores) == attention_scores", "", 0.0)
        assert DETECTORS["unscaled-attention"](draft) is unscaled
    for scores in (f"softcap({dot}, 50.0)", f"{dot} / 8", f"{dot} + alibi"):
        draft.laws["self_attn", "scores"] = Form(f"unmasked({scores}, attention_scores) == attention_scores", "", 0.0)
        assert not DETECTORS["unscaled-attention"](draft)


def test_a_setting_that_is_null_and_asked_for_is_told(scratch: Path) -> None:
    from nnpedia.draft.drafting import draft

    made = draft("olmo", FAMILIES)
    assert "clipped-qkv" not in made.badges
    assert "`clip_qkv` is null here" in made.about


def test_what_is_absent_was_seen_to_be(olmo2: Any, tmp_path: Path) -> None:
    from nnpedia.draft.proving import drafted, prove

    draft = drafted(*olmo2)
    prove(draft, tmp_path)
    values = draft.spec["values"]["layers"]
    assert values["attention_norm_output"] == {"absent": "nothing norms the stream before the attention reads it"}
    assert draft.spec["values"]["self_attn"]["attention_output"]["at"] == "^post_attention_layernorm.output"
    assert draft.spec["extends"] == "llama"
    assert not draft.todo
    assert not draft.problems


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nope", "neither a folder, a checkpoint nor a model type"),
        ("bart", "is an encoder-decoder"),
        ("moshi", "is a model of audio"),
        ("gemma3", "its text model is gemma3_text"),
        ("t5", "no causal language model of the type 't5'"),
    ],
)
def test_what_is_no_decoder_is_refused_in_a_line(name: str, says: str) -> None:
    from nnpedia.draft.opening import open_subject
    from nnpedia.errors import CheckpointError

    with pytest.raises(CheckpointError, match=says) as refused:
        open_subject(name)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_an_encoder_is_told_by_what_it_sees(scratch: Path) -> None:
    from nnpedia.draft.measure import cover

    found = cover("bert", FAMILIES)
    assert found.state == "left out"
    assert "is an encoder" in found.why


def folder_of(tmp_path: Path, **config: Any) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_folder_that_brings_its_own_code_is_refused(tmp_path: Path) -> None:
    from nnpedia.draft.opening import open_subject
    from nnpedia.errors import CheckpointError

    folder = folder_of(tmp_path, model_type="of-its-own", auto_map={"AutoConfig": "code.Config"})
    with pytest.raises(CheckpointError):
        open_subject(str(folder))


def test_a_model_that_stays_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from nnpedia.draft import trial
    from nnpedia.draft.opening import open_subject
    from nnpedia.errors import CheckpointError

    monkeypatch.setattr(trial, "LARGEST", 1000)
    with pytest.raises(CheckpointError, match="too many to try"):
        trial.trial(open_subject("gpt2"))


def test_a_family_that_is_there_stays(tmp_path: Path) -> None:
    from nnpedia.draft.command import run
    from nnpedia.errors import SpecError

    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "family.yml").write_text("family: gpt2\n")
    with pytest.raises(SpecError, match=r"--out DIR .* --force") as refused:
        run("gpt2", FAMILIES, tmp_path, force=False)
    assert "\n" not in str(refused.value)
    assert (tmp_path / "gpt2" / "family.yml").read_text() == "family: gpt2\n"


def test_a_written_draft_is_a_family_and_its_todos_are_listed(scratch: Path, tmp_path: Path) -> None:
    """Mamba's recurrence has no base to be read as when its own family is hidden: a draft with open values."""
    from nnpedia.checking import check_families, unfinished
    from nnpedia.draft.command import run
    from nnpedia.family import load_family

    told = run("gpt_neox", FAMILIES, tmp_path / "new", force=False)
    assert told.exit_code == 0
    assert len(told.proven) >= 16
    beside = {path.name for path in (tmp_path / "new").iterdir()}
    assert beside == {"gpt_neox", *told.copied}, "what was written is told, and nothing but what the draft extends is"
    assert {"vocabulary.yml", "badges.yml", told.extends} <= beside
    assert f"copied beside it, for it to stand on: {', '.join(told.copied)}" in "\n".join(told.lines())
    assert check_families(tmp_path / "new", ["gpt_neox"]) == {"gpt_neox": []}
    spec = tmp_path / "new" / "gpt_neox" / "family.yml"
    spec.write_text(spec.read_text() + "\n")
    assert unfinished(tmp_path / "new", ["gpt_neox"]) == []
    family = load_family(tmp_path / "new" / "gpt_neox")
    assert family.values["self_attn"]["attention_scores"].at is not None
