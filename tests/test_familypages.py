"""A family's page is made again for every change of what it is made from, and only then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sample_records as samples

from nnpedia import familypages, pages
from nnpedia.badges import Badge, load_badges
from nnpedia.familypages import FamilyPage, FamilyPages

ROOT = Path(__file__).parent.parent


class Made:
    """Pages of phimoe, and how often one was made."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.entries = {name: samples.entry(folder / name) for name in ("llama", "phimoe")}
        self.badges: dict[str, Badge] = load_badges(folder)
        self.look, self.times = "look", 0
        family_page = pages.family_page

        def counted(*arguments: object) -> pages.Page:
            self.times += 1
            return family_page(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(pages, "family_page", counted)

    def page(self, known: FamilyPages | None = None) -> FamilyPage:
        """The page, as another process would make it."""
        return (known or FamilyPages()).of(self.entries["phimoe"], self.badges, self.entries, None, self.look)

    def change(self, **changes: object) -> None:
        self.entries["phimoe"] = replace(self.entries["phimoe"], **changes)  # type: ignore[arg-type]

    def append(self, name: str) -> None:
        path = self.folder / name
        path.write_text(path.read_text() + "\n# changed\n")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path / "home"))
    shutil.copytree(ROOT / "families", tmp_path / "families")
    return Made(tmp_path / "families", monkeypatch)


def test_a_page_that_is_kept_is_the_page_as_it_was_made(made: Made) -> None:
    first = made.page()
    assert made.page() == first
    assert made.times == 1
    assert type(made.page().page.html) is type(first.page.html)
    assert first.forms.keys() == {"families/phimoe/phimoe.md", "families/phimoe/phimoe.ipynb"}
    server = FamilyPages()
    assert made.page(server) is made.page(server)


CHANGES: dict[str, Callable[[Made], object]] = {
    "notes": lambda made: made.change(notes=made.entries["phimoe"].notes + "\nOne more.\n"),
    "spec": lambda made: made.append("phimoe/family.yml"),
    "base": lambda made: made.append("llama/family.yml"),
    "vocabulary": lambda made: made.append("vocabulary.yml"),
    "run": lambda made: made.change(
        runs=[run.model_copy(update={"parameters": 7}) for run in made.entries["phimoe"].runs]
    ),
    "references": lambda made: made.change(references=[]),
    "base gone": lambda made: made.entries.pop("llama"),
    "badge": lambda made: made.badges.update(layernorm=made.badges["layernorm"].model_copy(update={"says": "x"})),
    "templates": lambda made: setattr(made, "look", "another"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_a_page_is_made_from_makes_it_again(
    made: Made, tmp_path: Path, change: Callable[[Made], object]
) -> None:
    before = made.page()
    change(made)
    after = made.page()
    assert made.times == 2
    shutil.rmtree(tmp_path / "home" / "kept")
    assert made.page() == after
    assert before.forms.keys() == after.forms.keys()


def test_the_code_and_the_templates_count(made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made.page()
    monkeypatch.setattr(familypages, "_code", lambda: "other code")
    made.page()
    assert made.times == 2
    looks = {familypages.look()}
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    monkeypatch.setattr(familypages, "templates_folder", lambda: tmp_path / "templates")
    looks.add(familypages.look())
    (tmp_path / "templates" / "family.html").write_text("x")
    looks.add(familypages.look())
    assert len(looks) == 2


def test_what_is_kept_of_a_family_that_is_gone_is_dropped(made: Made, tmp_path: Path) -> None:
    known = FamilyPages()
    made.page(known)
    known.only(["llama"])
    assert not list((tmp_path / "home" / "kept" / "families").iterdir())
