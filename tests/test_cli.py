"""The command line: its exit codes, and one clear line for each thing a user can get wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import transformers  # noqa: F401 - its log keeps the stderr there is at its first import: not one test's
from small_families import copy_families

from nnpedia import cli

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on standard error."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """`nnpedia ARGUMENTS` in this process, its environment put back afterwards."""
    before = dict(os.environ)

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["nnpedia", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    yield run
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def families(tmp_path: Path) -> Path:
    """Two families, `llama` and `gpt2`, with a page of notes each."""
    return copy_families(tmp_path / "families")


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("nnpedia 0.")
    assert run("--help").code == 0
    assert run("no-such-command").code == 2
    assert run("build", "--no-such-option").code == 2


def test_families_lists_them(run: Run, families: Path) -> None:
    ended = run("families", "--families", families)
    assert (ended.code, [line.split()[0] for line in ended.out.splitlines()]) == (0, ["gpt2", "llama"])
    listed = json.loads(run("families", "--families", families, "--json").out)
    assert [family["family"] for family in listed] == ["gpt2", "llama"]


def test_good_specs_pass(run: Run, families: Path) -> None:
    ended = run("check", "--families", families)
    assert (ended.code, ended.out, ended.err) == (0, "2 families checked, 0 wrong\n", "")


BAD_SPECS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "malformed YAML": (
        lambda folder: (folder / "gpt2" / "family.yml").write_text("family: gpt2\ntitle: [GPT-2\nbadges: ]\n"),
        "gpt2/family.yml:3",
        "malformed YAML",
    ),
    "an unknown key": (
        lambda folder: change(folder / "gpt2" / "family.yml", "\ncheckpoints:", "\ncheckpoint:"),
        "gpt2/family.yml:",
        "unknown key 'checkpoint'; did you mean 'checkpoints'?",
    ),
    "an address that does not parse": (
        lambda folder: (folder / "llama" / "family.yml").open("a").write(BAD_ADDRESS),
        "llama/family.yml:",
        "experts.args[",
    ),
    "an unknown value": (
        lambda folder: (folder / "llama" / "family.yml").open("a").write(BAD_VALUE),
        "llama/family.yml:",
        "there is no 'attention_outptu'; did you mean 'attention_output'?",
    ),
    "an unknown badge": (
        lambda folder: change(folder / "gpt2" / "family.yml", "- rmsnorm", "- rmsnrom"),
        "gpt2/family.yml",
        "badges.yml has no badge 'rmsnrom'; did you mean 'rmsnorm'?",
    ),
    "an unknown base": (
        lambda folder: change(folder / "gpt2" / "family.yml", "extends: llama", "extends: lama"),
        "gpt2/family.yml:",
        "there is no 'lama'; did you mean 'llama'?",
    ),
    "a misspelt fence": (
        lambda folder: (folder / "gpt2" / "notes.md").write_text("# N\n\n```py\nassert True\n```\n"),
        "gpt2/notes.md:",
        "```python",
    ),
    "no notes": (lambda folder: (folder / "gpt2" / "notes.md").unlink(), "gpt2/notes.md", "there are no notes here"),
}
BAD_ADDRESS = "\nvalues:\n  self_attn:\n    attention_output: {at: 'experts.args['}\n"
BAD_VALUE = "\nvalues:\n  self_attn:\n    attention_outptu: {at: output}\n"


@pytest.mark.parametrize("name", BAD_SPECS)
def test_a_bad_spec_is_named_with_its_line(run: Run, families: Path, name: str) -> None:
    harm, where, says = BAD_SPECS[name]
    harm(families)
    ended = run("check", *(["llama"] if "llama" in where else []), "--families", families)
    assert ended.code == (1 if name == "a misspelt fence" else 2)
    assert where in ended.line
    assert says in ended.line


def test_an_unknown_badge_is_named_at_its_own_line(run: Run, families: Path) -> None:
    spec = families / "gpt2" / "family.yml"
    change(spec, "- rmsnorm", "- rmsnorm\n- rmsnrom")
    line = spec.read_text().splitlines().index("- rmsnrom") + 1
    assert f"gpt2/family.yml:{line}: badges.yml has no badge 'rmsnrom'" in run("check", "--families", families).line


def test_check_names_every_bad_family_and_gives_json(run: Run, families: Path) -> None:
    for name in ("llama", "gpt2"):
        (families / name / "notes.md").unlink()
    assert len(run("check", "--families", families).err.splitlines()) == 2
    found = json.loads(run("check", "--families", families, "--json").out)
    assert {name: len(errors) for name, errors in found.items()} == {"llama": 1, "gpt2": 1}


def test_wrong_names_and_folders(run: Run, families: Path, tmp_path: Path) -> None:
    ended = run("build", "lama", "--families", families, "--no-site")
    assert (ended.code, ended.line) == (2, "nnpedia: there is no family 'lama'; did you mean 'llama'?")
    ended = run("families", "--families", tmp_path / "nowhere")
    assert (ended.code, "no such folder of families" in ended.line) == (2, True)


def test_a_cache_folder_that_cannot_be_made(run: Run, families: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.environ["NNPEDIA_HOME"] = str(tmp_path / "file" / "home")
    ended = run("build", "gpt2", "--families", families, "--no-site")
    assert (ended.code, "set NNPEDIA_HOME" in ended.line) == (2, True)


def pickled(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    return folder


def foreign(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "mystery", "auto_map": {"AutoModel": "code.py"}}')
    return folder


@pytest.mark.parametrize(
    ("checkpoint", "says"),
    [
        (lambda tmp: tmp / "nowhere", "is not there"),
        (lambda tmp: pickled(tmp / "pickled"), "pickle"),
        (lambda tmp: foreign(tmp / "foreign"), "the code it brings along is not run"),
        (lambda tmp: "somebody/no-such-model", "Hub"),
        (lambda tmp: "llama:frge", "did you mean 'forge'"),
        (lambda tmp: "lama:forge", "did you mean 'llama'"),
    ],
    ids=["missing", "pickle-only", "remote code", "no network", "unknown runnable", "unknown family"],
)
@pytest.mark.parametrize("command", ["support", "print"])
def test_a_checkpoint_that_cannot_be_loaded(
    run: Run, tmp_path: Path, command: str, checkpoint: Callable[[Path], object], says: str
) -> None:
    ended = run(command, checkpoint(tmp_path))
    assert ended.code == 2
    assert says in ended.line


@pytest.mark.parametrize("choice", [("--attn", "eagre"), ("--experts", "eagre")], ids=["attention", "experts"])
def test_a_choice_that_no_class_takes_is_bad_input(run: Run, choice: tuple[str, str]) -> None:
    ended = run("support", "phimoe:forge", *choice)
    assert ended.code == 2
    assert "eagre" in ended.line


def test_a_choice_of_snippets_takes_no_json(run: Run, families: Path) -> None:
    ended = run("test", "gpt2", "-k", "x", "--json", "--families", families)
    assert (ended.code, "--json" in ended.line) == (2, True)


def test_an_unexpected_error_is_one_line_too_and_debug_shows_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path) -> None:
        raise KeyError("x")

    monkeypatch.setattr("nnpedia.family.load_families", broken)
    ended = run("families")
    assert (ended.code, ended.line) == (1, "nnpedia: unexpected KeyError: 'x' (nnpedia --debug shows where)")
    monkeypatch.setattr(sys, "argv", ["nnpedia", "--debug", "families"])
    with pytest.raises(KeyError):
        cli.main()


@pytest.fixture
def quick(tmp_path: Path, families: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose units are made in no time, as the variable ENDS says; published by touching a file."""
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    monkeypatch.setattr("nnpedia.cache.PACKAGE", tmp_path / "build" / "nnpedia")
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])
    monkeypatch.setattr("nnpedia.work.PRODUCE", "crashing:sample")
    monkeypatch.setattr("nnpedia.publish.publish", lambda root, out: out.mkdir(exist_ok=True) or stamp(out))
    monkeypatch.delenv("NNPEDIA_HOME", raising=False)
    monkeypatch.delenv("NNPEDIA_FAMILIES", raising=False)
    return tmp_path


def stamp(public: Path) -> None:
    (public / "index.html").write_text(str(time.monotonic_ns()))


def test_a_failed_build_leaves_the_last_good_site(quick: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("build").code == 0
    page = quick / "public" / "index.html"
    good = page.read_text()
    for end, code in (("wrong", 1), ("vanish", 1), ("bad_input", 2)):
        monkeypatch.setenv("ENDS", json.dumps({"gpt2": end}))
        ended = run("build", "--force")
        assert ended.code == code
        assert "Traceback" not in ended.err
        assert page.read_text() == good
    monkeypatch.delenv("ENDS")
    assert run("build").code == 0
    assert page.read_text() != good


def test_what_is_wrong_is_told_with_its_place_from_here(quick: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDS", json.dumps({"gpt2": "wrong"}))
    monkeypatch.chdir(quick / "families")
    ended = run("build", "gpt2")
    assert ended.code == 1
    assert "gpt2/family.yml:3: the law is broken" in ended.err.splitlines()
    data = json.loads(run("build", "gpt2", "--json").out)
    assert {row["status"] for row in data} == {"fresh"}
    assert data[0]["problems"] == [{"where": "families/gpt2/family.yml:3", "what": "the law is broken"}]


def test_a_build_of_one_family_or_without_site_renders_nothing(quick: Path, run: Run) -> None:
    assert run("build", "gpt2").code == 0
    assert run("build", "--no-site").code == 0
    assert not (quick / "public").exists()


@pytest.mark.slow
def test_nothing_to_do_is_quick_and_imports_no_torch(quick: Path, run: Run) -> None:
    run("build")
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from nnpedia import work\n"
        "work.build(folder=Path('families'), cache_folder=Path('.nnpedia'), produce='crashing:sample')\n"
        "assert not {'torch', 'transformers', 'nnsight'} & set(sys.modules), 'something heavy was imported'\n"
        "print(time.process_time())"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=quick, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 3.0  # of processor time, whatever else the machine does


@pytest.mark.slow
def test_an_interrupted_build_ends_cleanly_and_keeps_what_was_finished(families: Path, tmp_path: Path) -> None:
    code = (
        "import nnpedia.pool, nnpedia.work\n"
        "nnpedia.pool.PRELOAD = []\n"
        "nnpedia.work.PRODUCE = 'crashing:slow_sample'\n"
        "from nnpedia.cli import main\nmain()"
    )
    seen = tmp_path / "seen"
    environment = os.environ | {"SEEN": str(seen), "NNPEDIA_HOME": str(tmp_path / "home")}
    arguments = ["build", "--families", str(families), "--no-site", "--workers", "1"]
    build = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=Path(__file__).parent, env=environment, stderr=subprocess.PIPE, text=True,
        # whoever runs the tests in a shell's background hands down that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while not seen.exists() or len(seen.read_text().splitlines()) < 3:
        assert build.poll() is None
        time.sleep(0.05)
    build.send_signal(2)
    _, err = build.communicate(timeout=30)
    assert build.returncode == 130
    assert "interrupted; what was finished is kept" in err
    assert "Traceback" not in err
    assert len(list((tmp_path / "home" / "records").glob("*/*.json"))) >= 2
