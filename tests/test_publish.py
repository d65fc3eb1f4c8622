"""Publishing: no dead link goes out, nothing stays of what was removed, and a failed build leaves the last site."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nnpedia.errors import BuildFailure
from nnpedia.links import broken_links


@pytest.mark.parametrize(
    ("href", "problem"),
    [
        ("b/", None),
        ("b/#there", None),
        ("b/#gone", "no anchor"),
        ("#gone", "no anchor"),
        ("c/", "no file"),
        ("b/missing.css", "no file"),
        ("/b/", "sub-path"),
        ("https://example.org/x", None),
    ],
)
def test_broken_links_are_found(tmp_path: Path, href: str, problem: str | None) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(f'<a href="{href}">x</a>')
    (tmp_path / "b/index.html").write_text('<p id="there">x</p>')
    found = broken_links(tmp_path)
    assert bool(found) == (problem is not None)
    if problem is not None:
        assert problem in found[0]
        assert "index.html:1" in found[0]


def publish(root: Path) -> Path:
    from nnpedia.publish import publish as run

    run(root, root / "public")
    return root / "public"


def test_a_site_is_published_and_a_removed_family_leaves_nothing(checkout: Path) -> None:
    public = publish(checkout)
    assert (public / "families/phimoe/index.html").exists()
    assert (public / "badges/mixture-of-experts/index.html").exists()
    shutil.rmtree(checkout / "families/phimoe")
    publish(checkout)
    assert not (public / "families/phimoe").exists()
    assert not (public / "badges/mixture-of-experts").exists()
    for path in public.rglob("*.html"):
        if path.name != "404.html" and path.parent.name not in (
            "add-a-family",
            "coverage",
            "getting-started",
            "library",
        ):
            assert "phimoe" not in path.read_text(encoding="utf-8"), path


def test_a_failed_build_leaves_the_last_good_site(checkout: Path) -> None:
    public = publish(checkout)
    before = sorted((path.name, path.read_bytes()) for path in public.rglob("*.html"))
    index = checkout / "site/index.md"
    index.write_text(index.read_text() + "\n[dead](nowhere.md) and [anchor](getting-started.md#nowhere)\n")
    with pytest.raises(BuildFailure, match=r"nowhere\.md.*#nowhere"):
        publish(checkout)
    assert sorted((path.name, path.read_bytes()) for path in public.rglob("*.html")) == before
    assert not list(checkout.glob("public.*"))


def test_a_family_without_records_is_not_published(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "home/records/phimoe")
    with pytest.raises(BuildFailure, match="phimoe"):
        publish(checkout)


def test_a_page_whose_python_nobody_ran_is_not_published(checkout: Path) -> None:
    (checkout / "site/more.md").write_text("# More\n\n```python\nprint(1)\n```\n")
    with pytest.raises(BuildFailure, match=r"site/more\.md"):
        publish(checkout)


def test_nothing_is_done_when_nothing_changed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnpedia import publish as module

    public = publish(checkout)
    monkeypatch.setattr(module, "run_mkdocs", lambda *_: pytest.fail("built again"))
    publish(checkout)
    (checkout / "site/css/type.css").write_text("/* other */")
    with pytest.raises(pytest.fail.Exception):
        publish(checkout)
    assert public.exists()


def test_a_site_lost_between_two_renames_comes_back(tmp_path: Path) -> None:
    from nnpedia.publish import kept, recover

    out = tmp_path / "public"
    kept(out).mkdir()
    (kept(out) / "index.html").write_text("old")
    recover(out)
    assert (out / "index.html").read_text() == "old"
