"""Whatever a spec, a page of notes or a record holds, what is said of it is an error of ours, and soon."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_families import ROOT

from nnpedia import prose, records
from nnpedia.checking import check_families, check_family
from nnpedia.errors import NnpediaError
from nnpedia.family import load_family
from nnpedia.fences import check_notes, read_document

# 2,000 cases in all. The same ones each time, so that a change that breaks one is the change that is told of.
SPECS, NOTES, RECORDS = 400, 900, 700
fuzzed: dict[str, Any] = {
    "deadline": 5000,  # milliseconds: what takes longer hangs
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}

NASTY = st.sampled_from([
    "", " ", "\0", "\n", "\t", "'", '"', "`", "```", "<script>alert(1)</script>", "{{ 7 * 7 }}", "{% for %}", "${x}",
    "../../etc/passwd", "..\\..\\x", "/etc/passwd", "a" * 5000, "é\u202e\ud7ff", "\u2028", "-1", "1e999", ".nan",
    "!!python/object/apply:os.system ['x']", "&a [*a]", "<<: *x", "output[99999999999]", "@a@b@c", "(" * 200,
    "9 ** 9 ** 9 ** 9", "a == b == c", "__import__('os')", "batch seq -> seq", "...", "(a a) -> a", "%s%n", "null",
])  # fmt: skip
TEXT = st.one_of(NASTY, st.text(max_size=20))
SCALAR = st.one_of(TEXT, st.none(), st.booleans(), st.integers(), st.floats())
ANY = st.recursive(
    SCALAR, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)), max_leaves=6
)


def changed(data: Any, draw: random.Random, value: Any, word: str) -> Any:
    """The data with something in it replaced, removed, renamed, or put in beside."""
    if isinstance(data, dict) and data and draw.random() < 0.85:
        key = draw.choice(list(data))
        how = draw.random()
        if how < 0.7:
            return data | {key: changed(data[key], draw, value, word)}
        rest = {name: each for name, each in data.items() if name != key}
        return rest if how < 0.8 else rest | {word: data[key]} if how < 0.9 else data | {word: value}
    if isinstance(data, list) and data and draw.random() < 0.85:
        place = draw.randrange(len(data))
        return [*data[:place], changed(data[place], draw, value, word), *data[place + 1 :]]
    if isinstance(data, str) and isinstance(value, str) and draw.random() < 0.5:
        place = draw.randrange(len(data) + 1)
        return data[:place] + value + data[place:]
    return value


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fuzz") / "families"
    for name in ("llama", "phimoe", "mamba2"):
        shutil.copytree(ROOT / "families" / name, folder / name)
    shutil.copy(ROOT / "families" / "vocabulary.yml", folder)
    yield folder
    load_family.cache_clear()


def errors_of(folder: Path) -> list[NnpediaError]:
    load_family.cache_clear()
    return check_family(folder)


@pytest.mark.slow
@settings(max_examples=SPECS, **fuzzed)
@given(
    name=st.sampled_from(["llama", "phimoe", "mamba2"]), seed=st.integers(0, 2**32), value=ANY, word=TEXT,
    how=st.sampled_from(["data", "data", "data", "text", "vocabulary"]),
)  # fmt: skip
def test_a_spec(families: Path, name: str, seed: int, value: Any, word: str, how: str) -> None:
    draw = random.Random(seed)
    path = families / "vocabulary.yml" if how == "vocabulary" else families / name / "family.yml"
    good = path.read_text()
    if how == "text":
        place = draw.randrange(len(good))
        text = good[:place] + (value if isinstance(value, str) else word) + good[place + draw.randrange(30) :]
    else:
        data = yaml.safe_load(good)
        text = yaml.safe_dump(changed(data, draw, value, word), allow_unicode=True, sort_keys=False)
    try:
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        for error in errors_of(families / name):
            assert isinstance(error, NnpediaError)
            assert "\n" not in str(error)
            assert len(str(error)) < 3000
    finally:
        path.write_text(good)


PIECES = st.one_of(
    TEXT,
    st.sampled_from([
        "# T\n", "## A\n\n", "```python\n", "```\n", "```python continues\n", "```python on=", "```python norun=\"",
        "~~~\n", "> ", "    ", "- ", "1. ", "!!! note\n\n    ", "=== \"tab\"\n\n    ", "<!--", "-->", "<pre>", "</pre>",
        "assert True\n", "print(1)\n", "(", "with model.trace(prompt):\n    x = model.logits.save()\n",
        "[a](javascript:x)",
        "[a]: data:text/html,x\n", "![x](y)", "[^1]", "[^1]: ", "{: onclick=x }", "{#id}", "| a | b |\n|---|---|\n",
        "&lt;", "\\", "---\ntitle: [\n---\n", "\r\n", "\x0b", "\ue0000\ue000", "<details markdown=\"1\">", "??? x\n",
    ]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=NOTES, **fuzzed)
@given(pieces=st.lists(PIECES, max_size=25))
def test_notes(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    page = tmp_path_factory.getbasetemp() / "fuzzed.md"
    text = "".join(pieces)
    page.write_text(text, encoding="utf-8", errors="replace")
    told(lambda: check_notes(page, runnables=["forge"], file="notes.md"))
    told(lambda: prose.render(text, file="notes.md"))
    # what is rendered holds no element and no attribute that could run something
    plain = "".join(piece for piece in pieces if "```" not in piece and "~~~" not in piece)
    look = Harm()
    look.feed(str(told(lambda: prose.render(plain, file="notes.md").html) or ""))
    look.close()
    assert look.found == []


class Harm(HTMLParser):
    """Elements that run or fetch something, attributes that do, and links to another scheme than the web's."""

    ELEMENTS = frozenset(
        [
            "script",
            "iframe",
            "object",
            "embed",
            "style",
            "base",
            "form",
            "meta",
            "link",
            "img",
            "video",
            "audio",
            "svg",
            "math",
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.ELEMENTS:
            self.found.append(tag)
        for name, value in attrs:
            scheme = re.match(r"\s*([^/?#:]*):", value or "") if name in ("href", "src", "action") else None
            if name.startswith("on") or name in ("style", "srcdoc") or (scheme and scheme[1] not in ("http", "https")):
                self.found.append(f"{tag} {name}={value}")


def told(work: Callable[[], Any]) -> Any:
    """What it gives, or None when it raises an error of ours."""
    try:
        return work()
    except NnpediaError:  # one line, as all of them are: `NnpediaError` makes them so
        return None


@pytest.fixture(scope="module")
def good_records() -> list[dict[str, Any]]:
    import sample_records

    made = sample_records.entry(ROOT / "families" / "gpt2")
    return [json.loads(fact.model_dump_json()) for fact in made.facts]


@pytest.mark.slow
@settings(max_examples=RECORDS, **fuzzed)
@given(seed=st.integers(0, 2**32), value=ANY, word=TEXT, how=st.sampled_from(["data", "data", "cut", "bytes"]))
def test_a_record(
    tmp_path_factory: pytest.TempPathFactory, good_records: list[dict[str, Any]], seed: int, value: Any, word: str,
    how: str,
) -> None:  # fmt: skip
    draw = random.Random(seed)
    data = draw.choice(good_records)
    text = json.dumps(changed(data, draw, value, word) if how == "data" else data).encode(errors="replace")
    if how == "cut":
        text = text[: draw.randrange(len(text))]
    elif how == "bytes":
        place = draw.randrange(len(text))
        text = text[:place] + bytes(draw.randrange(256) for _ in range(4)) + text[place + 4 :]
    home = tmp_path_factory.getbasetemp() / "fuzzed-home"
    path = home / "records" / "gpt2" / "run-00-forge.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    said: list[str] = []
    found = records.load_all(home, said.append)
    assert bool(found) != bool(said)
    assert all("\n" not in line and len(line) < 2000 for line in said)
    records.load_pages(home, said.append)
    records.parameters_of(home, records.Unit("gpt2", "run", 0, "forge"))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
LONG: dict[str, str] = {
    "a YAML bomb": BOMB,
    "deep nesting": "about: " + "[" * 5000 + "]" * 5000,
    "deep flow of mappings": "about: " + "{a: " * 3000 + "}" * 3000,
    "a very long name": f"family: {'x' * 100_000}\n",
    "a very long key": f"{'x' * 100_000}: 1\n",
    "an object": "family: !!python/object/apply:os.system ['touch /tmp/x']\n",
    "a tower of powers": "family: gpt2\nsizes: {hidden_size: ['9 ** 9 ** 9 ** 9']}\n",
    "a huge number": "family: " + "9" * 5000 + "\n",
    "no text": "\0\1\2",
    "nothing": "",
    "a list": "- a\n",
}


@pytest.mark.parametrize("case", LONG)
def test_what_would_take_for_ever_is_refused_at_once(families: Path, case: str) -> None:
    folder = families / "bomb"
    folder.mkdir(exist_ok=True)
    (folder / "family.yml").write_text(LONG[case])
    (folder / "notes.md").write_text("# N\n\nText.\n")
    try:
        (error,) = errors_of(folder)
        assert "bomb/family.yml" in str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 1000
        assert error.exit_code == 2
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".hidden", "A", "a b", "a\nb", "x" * 300, "-x", "é", ""])
def test_a_family_cannot_have_a_name_that_leads_elsewhere(families: Path, name: str) -> None:
    spec = yaml.safe_load((families / "llama" / "family.yml").read_text()) | {"family": name}
    folder = families / "odd"
    folder.mkdir()
    try:
        (folder / "family.yml").write_text(yaml.safe_dump(spec, allow_unicode=True))
        (error,) = errors_of(folder)
        assert error.exit_code == 2
    finally:
        shutil.rmtree(folder)


IDS = ["../../etc/passwd", "a/../b", "/etc/passwd", "a/b/c", "a//b", "a/..", "./b", "a/b\n", "a\0/b", "javascript:x/y",
       "<b>/x", "x" * 500 + "/y"]  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_a_checkpoint_cannot_have_an_id_that_leads_elsewhere(families: Path, name: str) -> None:
    spec = yaml.safe_load((families / "llama" / "family.yml").read_text())
    spec["checkpoints"][0]["id"] = name
    folder = families / "llama"
    good = (folder / "family.yml").read_text()
    try:
        (folder / "family.yml").write_text(yaml.safe_dump(spec))
        (error,) = errors_of(folder)
        assert "checkpoints.0.id" in str(error)
    finally:
        (folder / "family.yml").write_text(good)


def test_snippets_that_cannot_hold_are_found_without_running_them(tmp_path: Path) -> None:
    bad = {
        "x = 1": "neither asserts nor shows anything",
        "x = (1,\ny = 2": "SyntaxError: '(' was never closed",
        "return 3": "SyntaxError: 'return' outside function",
        "def f():\n    assert x\n": None,
        "print(1)\nx = 2": None,
        "model.layers": None,
        "# nothing": "neither asserts nor shows anything",
        "(" * 300 + ")" * 300: "too many nested parentheses",
    }
    for code, says in bad.items():
        page = tmp_path / "notes.md"
        page.write_text(f"# T\n\n## A\n\n```python\n{code}\n```\n")
        found = check_notes(page, file="notes.md")
        assert [problem.where.partition(":")[0] for problem in found] == ["notes.md"] * bool(says), code
        assert not says or says in found[0].what
    assert read_document(page).fences


def test_a_folder_without_a_vocabulary_is_no_folder_of_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnpedia.cache import families_folder

    monkeypatch.setenv("NNPEDIA_FAMILIES", str(tmp_path))
    with pytest.raises(NnpediaError, match=r"no folder of families: it has no vocabulary\.yml") as refused:
        check_families(families_folder())
    assert refused.value.exit_code == 2
