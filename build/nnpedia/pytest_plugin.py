"""pytest plugin: each snippet of a page is a test.

    pytest families/phimoe/notes.md
    pytest families/phimoe/notes.md -k routing --lf

A family's `notes.md`, and any Markdown page named on the command line, is collected. An item is
named by its section and its line, and runs in a sandboxed process, as in a build; under `--pdb` in
pytest's own. What gives a page its models is the hook `pytest_nnpedia_loader`, which a
`conftest.py` may answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nnpedia.errors import NnpediaError

if TYPE_CHECKING:
    from nnpedia.fences import Fence
    from nnpedia.record import SnippetFact
    from nnpedia.snippets import Bench

_BENCH = pytest.StashKey["tuple[Path, Bench]"]()


class SnippetFailed(Exception):
    """A snippet, or the page around it, is wrong; the message is the whole report."""


class Hooks:
    @pytest.hookspec(firstresult=True)
    def pytest_nnpedia_loader(self, path: Path, config: pytest.Config) -> tuple[Any, str] | None:
        """What a page's snippets run on: (load, prompt), as `nnpedia.snippets.run_fences` takes them."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


@pytest.hookimpl(trylast=True)
def pytest_nnpedia_loader(path: Path, config: pytest.Config) -> tuple[Any, str]:
    import torch

    from nnpedia import introspect
    from nnpedia.family import load_family
    from nnpedia.snippets import PROMPT

    torch.set_num_threads(1)  # small models crawl when torch splits their work over every core
    load = introspect.loader(load_family(path.parent)) if _is_notes(path) else introspect.page_loader()
    return load, PROMPT


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Page | None:
    named = file_path.suffix == ".md" and parent.session.isinitpath(file_path)
    return Page.from_parent(parent, path=file_path) if named or _is_notes(file_path) else None


def _is_notes(path: Path) -> bool:
    return path.name == "notes.md" and (path.parent / "family.yml").is_file()


class Page(pytest.File):
    """A Markdown page."""

    def collect(self) -> Iterator[pytest.Item]:
        from nnpedia.fences import read_document

        file = os.path.relpath(self.path, self.config.invocation_params.dir)
        try:
            document = read_document(self.path, file=file if not file.startswith("..") else str(self.path))
        except NnpediaError as error:
            raise self.CollectError(str(error)) from None
        for fence in document.fences:
            if fence.runs or fence.problem:
                name = f"{fence.slug or 'page'}:{fence.line}"
                yield SnippetItem.from_parent(self, name=name, fence=fence, found=document.fences)
        for problem in document.problems:
            line = int(problem.where.rpartition(":")[2])
            report = f"{problem.where}: {problem.what}"
            yield ProblemItem.from_parent(self, name=f"page:{line}", line=line, report=report)


class _PageItem(pytest.Item):
    line: int

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, SnippetFailed | NnpediaError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name


class ProblemItem(_PageItem):
    """Something wrong with the page outside its snippets: always fails."""

    def __init__(self, *, line: int, report: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.line, self.report = line, report

    def runtest(self) -> None:
        raise SnippetFailed(self.report)


class SnippetItem(_PageItem):
    """One snippet."""

    def __init__(self, *, fence: Fence, found: tuple[Fence, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fence, self.found, self.line = fence, found, fence.line

    def runtest(self) -> None:
        from nnpedia.isolation import run_group
        from nnpedia.snippets import run_fence

        if self.config.getoption("usepdb") or not hasattr(os, "fork"):  # a debugger needs the snippet in here
            fact: SnippetFact = run_fence(self._bench(), self.found, self.fence)
        else:
            fact = run_group(self._bench(), self.found, [self.fence])[0]
        if fact.output:
            self.add_report_section("call", "output", fact.output)
        if not fact.ok:
            raise SnippetFailed(fact.error or "")

    def _bench(self) -> Bench:
        """The page's bench, kept until a snippet of another page runs: models are large."""
        from nnpedia.snippets import Bench

        kept = self.config.stash.get(_BENCH, None)
        if kept is None or kept[0] != self.path:
            if kept:
                del self.config.stash[_BENCH]
            load, prompt = self.config.hook.pytest_nnpedia_loader(path=self.path, config=self.config)
            kept = self.path, Bench(load, prompt)
            self.config.stash[_BENCH] = kept
        return kept[1]
