"""What an earlier build saw on a page is used for that page only, and never in place of looking at a changed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnpedia.kept import Kept, forget, kept
from nnpedia.links import broken_links
from nnpedia.policy import broken_policy

GOOD = '<a href="#there">x</a><p id="there">y</p>'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "kept" / "numbers.json"


def asked(text: str, code: str = "1", some: bool = False) -> bool:
    """Whether the answer for a text had to be worked out."""
    worked: list[str] = []
    with kept("numbers", code, some=some) as known:
        assert known.answer(text, lambda: worked.append(text) or len(text)) == len(text)
    return bool(worked)


def test_an_answer_is_worked_out_once_for_a_text_and_the_code_that_makes_it() -> None:
    assert asked("page")
    assert not asked("page")
    assert asked("page, edited")
    assert asked("page")  # only what the last build asked for is kept
    assert asked("page", "2")


def test_asking_for_some_forgets_none() -> None:
    assert asked("page")
    assert asked("another", some=True)
    assert not asked("page", some=True)
    assert not asked("another")


def test_what_is_kept_of_names_that_are_gone_is_dropped(cache: Path) -> None:
    for name in ("of/a", "of/b", "other"):
        with kept(name, "1") as known:
            known.answer("x", lambda: 1)
    forget("of", ["b"])
    assert sorted(path.relative_to(cache.parent).as_posix() for path in cache.parent.rglob("*.json")) == [
        "of/b.json",
        "other.json",
    ]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"0000\n{}"])
def test_a_file_that_is_not_whole_is_no_answer(cache: Path, content: bytes) -> None:
    assert asked("page")
    whole = cache.read_bytes()
    cache.write_bytes(content or whole[:-3])
    assert asked("page")
    assert cache.read_bytes() == whole


def test_a_page_that_breaks_is_found_broken_whatever_was_seen_before(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    page, links, policy = site / "index.html", Kept(), Kept()
    page.write_text(f'<meta http-equiv="content-security-policy" content="none">{GOOD}')
    for _ in range(2):
        assert broken_links(site, known=links) == []
        assert broken_policy(site, "none", policy) == []
    page.write_text(page.read_text().replace('id="there"', 'id="gone" onclick="x"'))
    assert "names no anchor" in broken_links(site, known=links)[0]
    assert "onclick" in broken_policy(site, "none", policy)[0]
    assert "does not state" in broken_policy(site, "another", policy)[0]
