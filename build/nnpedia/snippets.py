"""Snippets: run a page's Python and say what it gave.

A snippet is compiled under its page's name with its lines where the page has them, so every
traceback, and every traced block nnsight reads back from source, points at the page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from nnpedia.claims import count_asserts
from nnpedia.errors import SnippetRefused
from nnpedia.failures import failure
from nnpedia.fences import Fence, chain
from nnpedia.guard import ModelState, differences, model_state, settings_put_back
from nnpedia.pagecode import fact_of
from nnpedia.record import SnippetFact
from nnpedia.sources import padded, source_under

Loader = Callable[[dict[str, str], str | None], Any]
"""(load options, `on=` or None) → a model; None where a page's snippets start from nothing."""

PROMPT = "The Eiffel Tower is in the city of"
OUTPUT_LIMIT = 20_000
OUTPUT_MOST = 10_000_000  # what prints more than this has lost its way
MODELS_KEPT = 3

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{4,}")


@dataclass
class Bench:
    """Where the snippets of one page run: the models loaded, and the names the last snippet left."""

    load: Loader
    prompt: str
    models: OrderedDict[tuple[str | None, tuple[tuple[str, str], ...]], Any] = field(default_factory=OrderedDict)
    states: dict[int, ModelState | None] = field(default_factory=dict)
    traced: set[int] = field(default_factory=set)
    last: Fence | None = None
    names: dict[str, Any] = field(default_factory=dict)

    def model(self, fence: Fence) -> Any:
        """The fence's model, loaded once; the ones longest unused are dropped."""
        key = fence.on, tuple(sorted(fence.load.items()))
        if key not in self.models:
            while len(self.models) >= MODELS_KEPT:
                self.drop(next(iter(self.models.values())))
            self.models[key] = self.load(dict(fence.load), fence.on)
        self.models.move_to_end(key)
        return self.models[key]

    def drop(self, model: Any) -> None:
        """Forget a model, so that whoever needs it next gets a fresh one."""
        self.states.pop(id(model), None)
        self.traced.discard(id(model))
        for key in [key for key, kept in self.models.items() if kept is model]:
            del self.models[key]


def run_fences(
    found: Sequence[Fence], load: Loader, prompt: str, *, only: Sequence[Fence] | None = None
) -> list[SnippetFact]:
    """Run the fences of one page (or `only` some of them), in order, each told of whatever becomes of it."""
    bench = Bench(load, prompt)
    return [run_fence(bench, found, fence) for fence in (found if only is None else only)]


def run_fence(bench: Bench, found: Sequence[Fence], fence: Fence) -> SnippetFact:
    """Run one fence of a page, and before it those it continues, unless they just ran."""
    if fence.problem:
        return fact_of(fence, ran=False, error=f"{fence.where}: {fence.problem}")
    if not fence.runs:
        return fact_of(fence, ran=False)
    links = chain(found, fence)
    if fence.continues and bench.last != links[-2]:
        before = run_fence(bench, found, links[-2])
        if not before.ok:
            return orphan(fence, before)
    return _run(bench, links)


def orphan(fence: Fence, before: SnippetFact) -> SnippetFact:
    """A fence that was not run because the one it continues failed."""
    why = (before.error or "").partition("\n")[0]
    return fact_of(fence, ran=False, error=f"{fence.where}: not run, as what it continues fails: {why}")


def _run(bench: Bench, links: list[Fence]) -> SnippetFact:
    """Run the last of a chain, in the names the one before it left."""
    fence = links[-1]
    names = bench.names if fence.continues else {}
    bench.last, bench.names = None, {}
    made = ready(bench, fence)
    if isinstance(made, SnippetFact):
        return made
    model, before = made
    if not fence.continues:
        names = _names(model, bench.prompt)
    output = _Output()
    with source_under(fence.file, padded(links)), settings_put_back(), contextlib.redirect_stdout(output):
        wrong = _execute(links, names, output)
    shown = output.text()
    changed = _changed(bench, model, before)
    wrong = wrong or _unfit(fence, shown, changed)
    if wrong is None:
        bench.last, bench.names = fence, names
    return fact_of(fence, ran=True, output=shown, error=wrong)


def ready(bench: Bench, fence: Fence) -> tuple[Any, ModelState | None] | SnippetFact:
    """The fence's model and its state; or, when there is none, what is told of the fence."""
    try:
        model = bench.model(fence)
        return model, _state(bench, model)
    except Exception as error:
        message = f"{type(error).__name__}: " + " ".join(str(error).split())
        return fact_of(fence, ran=False, error=f"{fence.where}: no model to run on: {message}")


def _names(model: Any, prompt: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    if model is not None:
        import torch

        names.update(model=model, prompt=prompt, torch=torch)
    return names


def _execute(links: list[Fence], names: dict[str, Any], output: io.TextIOBase) -> str | None:
    """Run the code and show its trailing expression; the report of what went wrong, or None."""
    fence = links[-1]
    code = "\n" * (fence.line - 1) + fence.code + "\n"
    try:
        body, value = _compile(code, fence.file)
        exec(body, names)
        shown = eval(value, names) if value else None
        if shown is not None:
            output.write(f"{shown!r}\n")
    except (Exception, SystemExit) as error:
        return failure(error, fence.file, fence.line, padded(links).split("\n"))
    return None


def _compile(code: str, file: str) -> tuple[CodeType, CodeType | None]:
    """The statements, and the trailing expression when there is one."""
    tree = ast.parse(code, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    if isinstance(last, ast.Expr):
        value = compile(ast.Expression(last.value), file, "eval", dont_inherit=True)
    return compile(tree, file, "exec", dont_inherit=True), value


def _state(bench: Bench, model: Any) -> ModelState | None:
    if model is None:
        return None
    if id(model) not in bench.states:
        bench.states[id(model)] = model_state(model)
    return bench.states[id(model)]


def _changed(bench: Bench, model: Any, before: ModelState | None) -> str | None:
    """How the snippet left the model changed; such a model is not used again."""
    if before is None:
        return None
    after = model_state(model)
    changed = differences(before, after) if after else "it is no torch module any more"
    if changed:
        bench.drop(model)
    return changed


def _unfit(fence: Fence, shown: str, changed: str | None) -> str | None:
    """What makes a snippet that ran to its end unfit for a page."""
    if changed:
        return f"{fence.where}: leaves the model other than it was: {changed}"
    if match := _ADDRESS.search(shown):
        line = shown[: match.end()].rpartition("\n")[2]
        return f"{fence.where}: shows a memory address, which is another one in every run: {line.strip()}"
    if not shown.strip() and not count_asserts(fence.code):
        return f"{fence.where}: neither asserts nor shows anything: assert what it establishes, or print it"
    return None


class _Output(io.TextIOBase):
    """Standard output, kept up to a limit."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if self.size <= OUTPUT_LIMIT:
            self.pieces.append(text[: OUTPUT_LIMIT + 1 - self.size])
        self.size += len(text)
        if self.size > OUTPUT_MOST:
            raise SnippetRefused(f"a snippet prints at most {OUTPUT_MOST // 10**6} million characters")
        return len(text)

    def text(self) -> str:
        kept = "".join(self.pieces)
        if self.size > OUTPUT_LIMIT:
            return f"{kept[:OUTPUT_LIMIT]}\n… cut here: {OUTPUT_LIMIT} of {self.size} characters are shown\n"
        return kept
