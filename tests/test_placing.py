"""What a fence gave is told at the line where its page has it now, and is what running the page as it stands gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnpedia.errors import BuildFailure
from nnpedia.fences import read_document, with_runnables
from nnpedia.pagecode import apart, running, said
from nnpedia.placing import placed, wrong
from nnpedia.record import SnippetFact
from nnpedia.snippets import run_fences

FILE = "families/tiny/notes.md"
FENCES = [
    "```python\nx = 1\nprint(x)\n```",
    "```python\nx = 1\nprint(x)\n```",  # an equal one
    "```python continues\nassert x == 1\n```",
    "```python continues\n\ndef later():\n    return x / 0\n\n\nlater()\n```",
    "```python\nx = 2\nassert x == 1\n```",
    "```python\nx = (2,\ny = 3\n```",
    "```python\nimport traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    print(traceback.format_exc())\n```",
    "```python attn_implementation=eager\nassert True\n```",
    '```python norun="slow"\nassert False\n```',
    "```python wrong\nassert False\n```",
    "```python on=typo\nassert True\n```",
    "- an item\n\n    ```python\n    1 / 0\n    ```",
]
PROSE = ["Words.", "## A heading", "## Another", "A long\nparagraph\nof lines.", "```text\nno Python\n```", ""]
PAGES = st.lists(st.sampled_from(FENCES), max_size=6)
WORDS = st.lists(st.sampled_from(PROSE), min_size=7, max_size=7)
QUICK = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def page(fences: Sequence[str], words: Sequence[str]) -> str:
    between = [piece for word, fence in zip(words, fences, strict=False) for piece in (word, fence)]
    return "# Title\n\n" + "\n\n".join([*between, words[len(fences)]]) + "\n"


def run(fences: Sequence[Any]) -> list[SnippetFact]:
    return run_fences(fences, lambda load, on: None, "")


def recorded(text: str) -> list[SnippetFact]:
    return run(apart(running(read_document(FILE, text).fences)))


@QUICK
@given(fences=PAGES, before=WORDS, after=WORDS)
def test_prose_changes_no_record_and_what_a_page_tells_is_what_running_it_gives(
    fences: list[str], before: list[str], after: list[str]
) -> None:
    was, now = page(fences, before), page(fences, after)
    assert recorded(was) == recorded(now)
    assert said(running(read_document(FILE, was).fences)) == said(running(read_document(FILE, now).fences))
    found = read_document(FILE, now)
    told = [fact for _, fact in placed(found.fences, recorded(was), FILE, None)]
    assert told == run(found.fences)
    assert {problem.where for problem in wrong(found, recorded(was))} == {
        (fact.error or "").partition(": ")[0] for fact in told if fact.error
    }


@QUICK
@given(before=PAGES, after=PAGES, words=WORDS)
def test_a_fence_that_is_not_what_was_run_is_never_told_of_as_run(
    before: list[str], after: list[str], words: list[str]
) -> None:
    was, now = page(before, words), page(after, words)
    found = read_document(FILE, now).fences
    for fence, (old, fact), direct in zip(found, placed(found, recorded(was), FILE, "build"), run(found), strict=True):
        if old is None and fence.runs and not fence.problem:
            assert not fact.ran
            assert (fact.reason or "").endswith("build")
        else:
            assert fact == direct
    if said(running(read_document(FILE, was).fences)) != said(running(found)):
        return
    placed(found, recorded(was), FILE, None)


def test_what_no_record_tells_of_is_not_published() -> None:
    was = read_document(FILE, page(FENCES[:3], PROSE)).fences
    for fences, what in ((FENCES[:4], f"^{FILE}:28: no record says"), (FENCES[:2], "a snippet was recorded here")):
        with pytest.raises(BuildFailure, match=what):
            placed(read_document(FILE, page(fences, PROSE)).fences, run(apart(running(was))), FILE, None)


def test_each_fence_is_told_of_by_exactly_one_runnable() -> None:
    infos = ["", "on=real", "on=forge", 'norun="slow"', "on=typo", "bad", "on=forge", "continues"]
    text = "".join(f"```python {info}\nassert {number}\n```\n\n" for number, info in enumerate(infos, 1))
    names = ["real", "forge"]
    document = read_document(FILE, text)
    lines = {name: [fence.line for fence in running(document.fences, name, names)] for name in names}
    assert lines == {"real": [2, 6], "forge": [10, 26, 30]}
    assert running(document.fences, "a/hub-one", names) == []
    facts = {name: run(apart(running(document.fences, name, names))) for name in names}
    every = [fact for name in names for fact in facts[name]]
    told = placed(with_runnables(document.fences, names), every, FILE, None)
    assert [fact.line for _, fact in told] == [2, 6, 10, 14, 18, 22, 26, 30]
    problems = {name: [problem.where for problem in wrong(document, facts[name], name, names)] for name in names}
    assert problems == {"real": [f"{FILE}:18", f"{FILE}:22"], "forge": []}


def test_problems_are_those_of_the_run_and_those_of_the_page() -> None:
    text = "# T\n\n```python\nassert 1\n1 / 0\n```\n\n```python on=forg\n1\n```\n\n- ```python\n  x\n  ```\n"
    document = read_document(FILE, text)
    facts = run(apart(running(document.fences, "forge", ["forge"])))
    stray, failed, lost = wrong(document, facts, "forge", ["forge"])
    assert stray.where == f"{FILE}:12"
    assert failed.where == f"{FILE}:5"
    assert failed.what.startswith("ZeroDivisionError: division by zero\n")
    assert ">    5 | 1 / 0" in failed.what
    assert f'File "{FILE}", line 5' in failed.what
    assert lost.what == "on=forg names nothing that runs here (forge); did you mean 'forge'?"


@pytest.mark.parametrize(
    ("edit", "same"),
    [
        (("Words.", "Other words.\n\nAnd more."), True),
        (("since=5.22", "since=5.23"), True),  # it runs here all the same
        (("assert 1", "assert 2"), False),
        (("=eager", "=sdpa"), False),
        ((" continues", ""), False),
        (("network", "continues"), False),
        (("<!--", ""), False),  # a fence that nobody saw
    ],
)
def test_a_key_tells_code_options_and_order_from_prose(edit: tuple[str, str], same: bool) -> None:
    text = (
        "Words.\n\n```python attn_implementation=eager\nassert 1\n```\n\n```python continues\nassert 3\n```\n\n"
        "```python network\nassert 4\n```\n\n```python since=5.22\nassert 5\n```\n\n"
        "<!--\n\n```python\nassert 6\n```\n\n-->\n"
    )
    assert edit[0] in text
    keys = [said(running(read_document(FILE, each).fences)) for each in (text, text.replace(*edit))]
    assert (keys[0] == keys[1]) is same
