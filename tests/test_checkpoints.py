"""Checkpoints by name: the Hub's cache, folders, and what must be refused in one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModelForCausalLM

from nnpedia import checkpoints
from nnpedia.cache import families_folder
from nnpedia.checkpoints import hub, store
from nnpedia.errors import CheckpointError
from nnpedia.family import load_family

COMMIT, OTHER = "a" * 40, "b" * 40
NAME = "some-org/small-llama"


@pytest.fixture(scope="module")
def forged() -> Path:
    family = load_family(families_folder() / "llama")
    return checkpoints.materialize(checkpoints.runnable(family, "forge"), family)


@pytest.fixture
def in_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Lay a folder out as the Hub's cache lays out a repository at a commit; returns the snapshot's folder."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def lay_out(source: Path, name: str = NAME, commit: str = COMMIT, ref: str | None = "main") -> Path:
        root = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        snapshot = root / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (root / "blobs").mkdir(exist_ok=True)
        for path in source.iterdir():
            blob = root / "blobs" / store.sha256(path)
            shutil.copyfile(path, blob)
            (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
        if ref:
            (root / "refs").mkdir(exist_ok=True)
            (root / "refs" / ref).write_text(commit)
        return snapshot

    return lay_out


@pytest.fixture
def folder(forged: Path, tmp_path: Path) -> Path:
    """A copy of a sound checkpoint, to be broken."""
    copy = tmp_path / "copy"
    shutil.copytree(forged, copy)
    return copy


def refusal(checkpoint: str | Path, revision: str | None = None) -> str:
    with pytest.raises(CheckpointError) as caught:
        checkpoints.resolve(checkpoint, revision)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_hub_id_is_its_snapshot(in_hub_cache: Callable[..., Path], forged: Path) -> None:
    snapshot = in_hub_cache(forged)
    assert checkpoints.resolve(NAME).samefile(snapshot)
    assert checkpoints.resolve(NAME, COMMIT).samefile(snapshot)
    assert f"{NAME}@{OTHER} is not in the Hub's cache" in refusal(NAME, OTHER)


def test_the_commit_a_spec_pins_is_the_one_that_loads(
    in_hub_cache: Callable[..., Path], forged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_hub_cache(forged)
    pinned = in_hub_cache(forged, commit=OTHER, ref=None)
    families = tmp_path / "families"
    shutil.copytree(families_folder(), families)
    spec = families / "llama" / "family.yml"
    spec.write_text(
        spec.read_text().replace("checkpoints:\n", f"checkpoints:\n  - {{id: {NAME}, revision: {OTHER}}}\n", 1)
    )
    monkeypatch.setenv("NNPEDIA_FAMILIES", str(families))
    assert checkpoints.resolve(NAME).samefile(pinned)
    assert not checkpoints.resolve(NAME, "main").samefile(pinned)


def test_another_process_finds_it_by_its_environment(
    in_hub_cache: Callable[..., Path], forged: Path, tmp_path: Path
) -> None:
    snapshot = in_hub_cache(forged)
    code = "import sys; from nnpedia.checkpoints import resolve; print(resolve(sys.argv[1]))"
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code, NAME], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).samefile(snapshot)


def test_no_network_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "the Hub cannot be reached" in refusal(NAME)


def test_offline_is_said(in_hub_cache: Callable[..., Path]) -> None:
    assert "the Hub is switched off (HF_HUB_OFFLINE)" in refusal(NAME)


def test_code_in_a_repository_is_never_run(in_hub_cache: Callable[..., Path], folder: Path, tmp_path: Path) -> None:
    """A repository may carry code for a model type transformers has; its own class is used."""
    ran = tmp_path / "ran"
    (folder / "modeling_evil.py").write_text(f"open({str(ran)!r}, 'w')\nclass Evil: pass\n")
    edit(
        folder / "config.json",
        auto_map={"AutoModelForCausalLM": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"},
    )
    in_hub_cache(folder)
    model = AutoModelForCausalLM.from_pretrained(checkpoints.resolve(NAME), trust_remote_code=False)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert not ran.exists()


def test_a_model_type_only_its_own_code_knows_is_refused(folder: Path) -> None:
    edit(folder / "config.json", model_type="evil", auto_map={"AutoConfig": "modeling_evil.Evil"})
    assert "model type 'evil', which transformers does not have, and the code it brings along is not run" in refusal(
        folder
    )


def test_pickled_weights_are_refused(in_hub_cache: Callable[..., Path], folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    in_hub_cache(folder)
    for checkpoint in (NAME, folder):
        assert "holds no safetensors weights; pickled ones are not opened (pytorch_model.bin is a pickle)" in refusal(
            checkpoint
        )


@pytest.mark.parametrize("left", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(folder: Path, left: int) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:left])
    assert "has a damaged model.safetensors" in refusal(folder)


def test_a_garbled_header_is_refused(folder: Path) -> None:
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[20:60] = os.urandom(40)
    (folder / "model.safetensors").write_bytes(weights)
    assert "has a damaged model.safetensors" in refusal(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder, max_shard_size="200KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    assert checkpoints.resolve(folder) == folder
    sorted(folder.glob("model-*.safetensors"))[-1].unlink()
    assert "of its" in refusal(folder)
    assert "weight files, the first model-0000" in refusal(folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "has no config.json"), ("{", "is not JSON"), ("[]", "is not a mapping"), ("{}", "model type None")],
)
def test_a_folder_without_a_config_is_refused(folder: Path, text: str | None, says: str) -> None:
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_text(text)
    assert says in refusal(folder)


def test_names_that_stand_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not there" in refusal(tmp_path / "nothing")
    assert "is not there" in refusal("./nothing")
    assert "is a file, not a folder" in refusal(str(tmp_path / "file"))
    assert "no family 'lama'; did you mean 'llama'?" in refusal("lama:forge")
    assert "llama has no checkpoint 'frge'; did you mean 'forge'?" in refusal("llama:frge")
    assert "neither a folder here nor a repository" in refusal("a/b/c")


def test_a_family_and_a_name_stand_for_what_runs_here(forged: Path) -> None:
    assert checkpoints.resolve("llama:forge") == forged
    assert checkpoints.resolve(str(forged)) == checkpoints.resolve(forged) == forged


def test_trained_weights_come_first_and_the_hub_only_when_asked() -> None:
    family = load_family(families_folder() / "llama")
    here = checkpoints.runnables(family)
    assert [one.source for one in here] == [*["package"] * len(family.packages), "forge"]
    asked = checkpoints.runnables(family, hub=True)
    assert [one.id for one in asked if one.source == "hub"] == [one.id for one in family.checkpoints]
    for one in here:
        assert one.family == "llama"
        assert one.detail.endswith(".")
        assert str(Path.cwd()) not in one.detail


def test_a_pinned_revision_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(hub, "fetch", lambda name, revision: asked.append((name, revision)) or tmp_path)
    family = SimpleNamespace(
        family="llama", packages=(), forge={}, variants={}, variant=(), architecture="LlamaForCausalLM",
        checkpoints=(SimpleNamespace(id=NAME, revision=COMMIT, dtype="float32", origin="published", config={}),),
        folder=Path(__file__).parent.parent / "families" / "llama",
    )  # fmt: skip
    checkpoints.materialize(checkpoints.runnables(family, hub=True)[-1], family)  # type: ignore[arg-type]
    assert asked == [(NAME, COMMIT)]


def test_a_loaded_model_runs(in_hub_cache: Callable[..., Path], forged: Path) -> None:
    """The snapshot's symlinks lead to the same weights as the folder they were laid out from."""
    in_hub_cache(forged)
    ids = torch.arange(10)[None]
    models = [AutoModelForCausalLM.from_pretrained(folder) for folder in (checkpoints.resolve(NAME), forged)]
    with torch.no_grad():
        ours, theirs = (model(ids).logits for model in models)
    assert torch.equal(ours, theirs)
