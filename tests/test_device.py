"""Where weights go: asked for by name, it is there or the answer is one line. No accelerator is driven here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from forged import folder
from small_families import copy_families

from nnpedia import StandardizedTransformer, cli, device, keys, work
from nnpedia.errors import ModelError
from nnpedia.family import load_family
from nnpedia.pool import Job, Limits
from nnpedia.records import Unit


@pytest.fixture
def accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnpedia.device.accelerator", lambda: "cuda")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnpedia.device.accelerator", lambda: None)


def test_auto_is_the_accelerator_there_is(accelerated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 2)
    assert device.usable("auto") == "cuda"
    assert device.usable("cuda:1") == "cuda:1"
    with pytest.raises(ModelError, match="'cuda:2' is not there: there are 2"):
        device.usable("cuda:2")
    assert device.usable("cpu") == "cpu"


def test_auto_is_the_processor_where_there_is_none(plain: None) -> None:
    assert device.usable("auto") == "cpu"
    assert device.usable(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("asked", ["cuda", "cuda:3", "mps", "gpu"])
def test_what_is_not_there_is_refused_in_one_line(plain: None, asked: str) -> None:
    with pytest.raises(ModelError, match="device") as raised:
        StandardizedTransformer(folder("llama"), device=asked)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)


def test_a_model_loads_where_it_was_asked_to(plain: None) -> None:
    model = StandardizedTransformer(folder("llama"), device="auto")
    model.dispatch()
    assert {parameter.device.type for parameter in model._module.parameters()} == {"cpu"}


def test_a_build_hands_its_device_to_the_units_with_weights(
    tmp_path: Path, accelerated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record made on another device is another record: its errors are."""
    seen: dict[str, Job] = {}

    def spy(jobs: list[Job], *_: Any) -> list[Any]:
        seen.update({job.says: job for job in jobs})
        return []

    monkeypatch.setattr("nnpedia.work.run_jobs", spy)
    families = copy_families(tmp_path / "families")
    work.build(["llama"], folder=families, cache_folder=tmp_path, device="auto", limits=Limits())
    reference, run = (next(job for job in seen.values() if job.args[3] == kind) for kind in ("reference", "run"))
    assert (run.args[5:], run.accelerators) == (("cuda",), 1)
    assert (reference.args[5:], reference.accelerators) == ((), 0)
    family = load_family(families / "llama")
    unit = Unit("llama", "run", 0, "forge")
    assert keys.key_of(unit, family, "cuda") != keys.key_of(unit, family)


@pytest.mark.parametrize("command", [["build", "gpt2"], ["test", "gpt2"], ["support", "gpt2:forge"]])
def test_a_command_asked_for_what_is_not_there_is_one_line(
    plain: None, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["nnpedia", *command, "--device", "cuda"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err == "nnpedia: the device 'cuda' is not there (accelerators here: none); 'auto' takes what is\n"
    assert not (tmp_path / "records").exists()


def test_a_build_on_auto_takes_the_processor_where_there_is_no_accelerator(plain: None) -> None:
    assert work._device("auto", None) == "cpu"
    assert {planned.needs.accelerators for planned in work.plan(["gpt2"], "auto")} == {0}
