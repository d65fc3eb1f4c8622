"""Fences: which code blocks of a Markdown page are Python, and which of those run.

The renderer is asked rather than imitated: a page is converted with the extensions the site
uses, each block leaves a mark, and the marks that reach the HTML are the blocks a reader sees.
So a fence inside a tab is found, one inside an HTML comment or an indented code block is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from markdown.extensions.toc import slugify

from nnpedia import infostring
from nnpedia.errors import SpecError, nearest
from nnpedia.record import Problem
from nnpedia.rendering import OPENING, Block, is_python, rendered_blocks
from nnpedia.strays import stray_python
from nnpedia.versions import Span

_HEADING = re.compile(r"^(?P<level>#{1,6})\s*(?P<title>.*?)\s*#*\s*(?:\{[^}]*?#(?P<slug>[\w-]+)[^}]*\})?\s*$")
_FRONT_MATTER = re.compile(r"\A-{3}[ \t]*\n.*?\n(?:-{3}|\.{3})[ \t]*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """A block a page renders as Python.

    Attributes:
        file: The page, as it was given.
        line: The number of the first line of code.
        section: The heading it stands under, and `slug` its anchor.
        code: The code as rendered: dedented, tabs expanded.
        options: The info string's options; a flag's value is the empty string.
        runs: Whether it is executed.
        reason: Why not, for a reader, when it is marked `norun`.
        problem: What is wrong with it; such a fence does not run and fails the build.
        opening, closing: The numbers of the fence lines themselves.
        indent: What stands before the opening (blanks, or a blockquote's marks).
    """

    file: str
    line: int
    section: str
    slug: str
    code: str
    options: dict[str, str] = field(default_factory=dict)
    runs: bool = True
    reason: str | None = None
    problem: str | None = None
    opening: int = 0
    closing: int = 0
    indent: str = ""

    @property
    def continues(self) -> bool:
        return "continues" in self.options

    @property
    def on(self) -> str | None:
        return self.options.get("on")

    @property
    def network(self) -> bool:
        return "network" in self.options

    @property
    def span(self) -> Span | None:
        """The releases of transformers it is told for; `None` where that is all that the specs are."""
        said = {key: value for key, value in self.options.items() if key in infostring.SPAN}
        return Span(**said) if said else None

    @property
    def load(self) -> dict[str, str]:
        """The options that say how to load the model."""
        return {key: value for key, value in self.options.items() if key in infostring.LOAD_OPTIONS}

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Document:
    """What a page holds: its Python blocks in order, its headings below the title, and what is wrong elsewhere."""

    file: str
    fences: tuple[Fence, ...]
    sections: tuple[str, ...]
    problems: tuple[Problem, ...]


def fences(path: Path | str, *, file: str | None = None) -> list[Fence]:
    """The blocks the page renders as Python, in order; misspelt ones carry a `problem`."""
    return list(read_document(path, file=file).fences)


def read_document(path: Path | str, text: str | None = None, *, file: str | None = None) -> Document:
    """Read a page.

    Args:
        path: The page.
        text: What it says, when that is not read from the disk.
        file: What to call it in records and errors; the path as given when None.

    Raises:
        SpecError: The file cannot be read.
    """
    file = file or str(path)
    if text is None:
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=file) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # MkDocs takes the front matter away before it renders; lines keep their numbers here.
    text = _FRONT_MATTER.sub(lambda match: "\n" * match.group().count("\n"), text)
    lines = text.split("\n")
    rendering = rendered_blocks(text)

    headings = _headings(lines, rendering.blocks)
    found = [_fence(file, block, lines, headings) for block in rendering.blocks if is_python(block.language)]
    problems = stray_python(file, lines, rendering)
    return Document(
        file=file,
        fences=tuple(_settle_continues(found)),
        sections=tuple(title for number, title, _ in headings if lines[number - 1].startswith("##")),
        problems=tuple(problems),
    )


def check_notes(
    path: Path | str,
    *,
    min_sections: int = 0,
    min_snippets: int = 0,
    runnables: Sequence[str] | None = None,
    file: str | None = None,
) -> list[Problem]:
    """What is wrong with a page before anything runs: `[]` when nothing is.

    Args:
        path: The page.
        min_sections: How many headings it must have at least.
        min_snippets: How many fences must run at least.
        runnables: The names `on=` may give; not checked when None.
        file: What to call the page; the path as given when None.

    Raises:
        SpecError: The file cannot be read.
    """
    from nnpedia.claims import unfounded

    document = read_document(path, file=file)
    found = unfounded(document) + [
        Problem(where=fence.where, what=fence.problem) for fence in document.fences if fence.problem
    ]
    found += document.problems
    for fence in document.fences:
        if runnables is not None and (problem := unknown_runnable(fence, runnables)):
            found.append(Problem(where=fence.where, what=problem))
    runs = sum(fence.runs for fence in document.fences)
    if not document.sections and not document.fences:
        found.append(Problem(where=document.file, what="says nothing: it has no heading and no snippet"))
    for count, least, noun in (
        (len(document.sections), min_sections, "sections"),
        (runs, min_snippets, "snippets that run"),
    ):
        if count < least:
            found.append(Problem(where=document.file, what=f"has {count} {noun}, and needs at least {least}"))
    return sorted(found, key=_line)


def _line(problem: Problem) -> int:
    line = problem.where.rpartition(":")[2]
    return int(line) if line.isdigit() else 0


def with_runnables(found: Sequence[Fence], runnables: Sequence[str]) -> list[Fence]:
    """The fences of a family with these runnables: one whose `on=` names no such has that problem."""
    lost = {fence.line: unknown_runnable(fence, runnables) for fence in found if fence.runs}
    return [replace(fence, runs=False, problem=what) if (what := lost.get(fence.line)) else fence for fence in found]


def unknown_runnable(fence: Fence, runnables: Sequence[str]) -> str | None:
    """What is wrong with the fence's `on=`, given the names there are; None when nothing is."""
    if fence.on is None or fence.on in runnables:
        return None
    return f"on={fence.on} names nothing that runs here ({', '.join(runnables)}){nearest(fence.on, runnables)}"


def _fence(file: str, block: Block, lines: list[str], headings: list[tuple[int, str, str]]) -> Fence:
    section, slug = "", ""
    for line, title, anchor in headings:
        if line < block.opening:
            section, slug = title, anchor
    fence = Fence(
        file=file,
        line=block.opening + 1,
        section=section,
        slug=slug,
        code=block.code,
        opening=block.opening,
        closing=block.closing,
        indent=block.indent,
    )
    match = OPENING.match(lines[block.opening - 1])
    info = match["info"].strip() if match else ""
    word, _, rest = info.partition(" ")
    if not match or match["fence"][0] != "`" or word != "python" or match["info"][0] == " ":
        wrong = f"{match['fence']}{match['info']}".strip() if match else block.language
        return replace(fence, runs=False, problem=f"renders as Python and is not run: write ```python, not {wrong}")
    if ">" in block.indent:
        return replace(fence, runs=False, problem="Python in a blockquote is not run: an admonition will do")
    if len(block.code.splitlines()) > block.code.count("\n") + 1:
        return replace(fence, runs=False, problem="the code holds a line separator that is not a newline: escape it")
    try:
        options = infostring.parse(rest)
    except ValueError as error:
        return replace(fence, runs=False, problem=str(error))
    fence = replace(fence, options=options)
    reason = options.get("norun") or infostring.elsewhere(fence.span)
    return replace(fence, runs=reason is None, reason=reason)


def _settle_continues(found: list[Fence]) -> list[Fence]:
    """Give a `continues` fence the model of the fence it continues, or say why it cannot."""
    settled: list[Fence] = []
    previous: Fence | None = None
    for fence in found:
        if fence.continues and fence.runs and previous is not None and infostring.elsewhere(previous.span):
            fence = replace(fence, runs=False, reason=previous.reason)  # for what it continues did not run
        elif fence.continues and fence.runs:
            own = {key: value for key, value in fence.options.items() if key in infostring.INHERITED}
            if previous is None:
                fence = replace(fence, runs=False, problem="continues nothing: no snippet runs before it")
            elif previous.problem:
                fence = replace(fence, runs=False, problem=f"continues line {previous.line}, which does not run")
            else:
                inherited = {k: v for k, v in previous.options.items() if k in infostring.INHERITED}
                if differing := [key for key, value in own.items() if inherited.get(key) != value]:
                    what = f"continues line {previous.line}, so it cannot change {' and '.join(differing)}"
                    fence = replace(fence, runs=False, problem=what)
                else:
                    fence = replace(fence, options={**inherited, **fence.options})
        if fence.runs or fence.problem or infostring.elsewhere(fence.span):
            previous = fence
        settled.append(fence)
    return settled


def chain(found: Sequence[Fence], fence: Fence) -> list[Fence]:
    """The fences whose names `fence` sees, first to last, ending with itself."""
    before = [other for other in found if (other.runs or other.problem) and other.line < fence.line]
    linked = [fence]
    while linked[0].continues and before:
        linked.insert(0, before.pop())
    return linked


def _headings(lines: list[str], blocks: list[Block]) -> list[tuple[int, str, str]]:
    """(line, title, anchor) of every heading outside a block."""
    inside = {number for block in blocks for number in range(block.opening, block.closing + 1)}
    headings = []
    for number, line in enumerate(lines, 1):
        if number not in inside and (match := _HEADING.match(line)) and match["title"]:
            title = re.sub(r"[`*]", "", match["title"])
            headings.append((number, title, match["slug"] or slugify(title, "-")))
    return headings
