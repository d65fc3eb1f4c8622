"""Placing: what the fences of a page gave, at the lines where the page now has them.

A record tells of fences apart from their page (`nnpedia.pagecode`). A fence is found in it by its code,
its options and the fences it continues, whatever prose was written around them since; one that the record
does not have is told of as not run, or refused where a page is published.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from nnpedia.errors import BuildFailure
from nnpedia.failures import TRACEBACK
from nnpedia.fences import Document, Fence, chain, with_runnables
from nnpedia.pagecode import fact_of, options_of
from nnpedia.record import Page, Problem, Run, SnippetFact

Identity = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""The code and the options of a fence, after those of the fences it continues."""


def runs_placed(
    runs: Sequence[Run], document: Document, runnables: Sequence[str], advice: str | None = None
) -> list[Run]:
    """A family's runs with their snippets where its notes have them; `advice` as in `placed`.

    What no run tells of is told of with the first.
    """
    facts = [fact for run in runs for fact in run.snippets]
    holder = {id(fact): number for number, run in enumerate(runs) for fact in run.snippets}
    snippets: list[list[SnippetFact]] = [[] for _ in runs]
    for old, fact in placed(with_runnables(document.fences, runnables), facts, document.file, advice):
        snippets[holder[id(old)] if old else 0].append(fact)
    return [run.model_copy(update={"snippets": each}) for run, each in zip(runs, snippets, strict=True)]


def page_placed(record: Page, document: Document, advice: str | None = None) -> Page:
    """The record of a hand-written page with its snippets where the page has them; `advice` as in `placed`."""
    facts = [fact for _, fact in placed(document.fences, record.snippets, document.file, advice)]
    return record.model_copy(update={"snippets": facts})


def wrong(
    document: Document, facts: Sequence[SnippetFact], name: str | None = None, runnables: Sequence[str] = ()
) -> list[Problem]:
    """What is wrong with a page whose fences gave `facts`: those that failed, and what needs no run to be seen.

    Of several runnables (`name` is one of them) the first is told the latter.
    """
    first = name is None or not runnables or name == runnables[0]
    found = with_runnables(document.fences, runnables) if runnables else document.fences
    problems = list(document.problems) if first else []
    for old, fact in placed(found, facts, document.file, ""):
        if fact.error and (old is not None or first):
            where, _, what = fact.error.partition(": ")
            problems.append(Problem(where=where, what=what))
    return problems


def placed(
    found: Sequence[Fence], facts: Sequence[SnippetFact], file: str, advice: str | None
) -> list[tuple[SnippetFact | None, SnippetFact]]:
    """For each fence of a page the record of its run, if any, and what to show of it.

    Args:
        found: The fences of the page, in order.
        facts: What was recorded of them, each record's in its order.
        file: The page, as errors name it.
        advice: What brings a fence that no record tells of up to date, for its reader; `None` to raise instead.

    Raises:
        BuildFailure: There is no advice, and a fence that runs has no record or a record no fence.
    """
    known: dict[Identity, list[list[SnippetFact]]] = defaultdict(list)
    for recorded in _chains(facts):
        known[tuple(_own(fact.code, fact.options) for fact in recorded)].append(recorded)
    shown: list[tuple[SnippetFact | None, SnippetFact]] = []
    for fence in found:
        if fence.problem or not fence.runs:
            error = f"{fence.where}: {fence.problem}" if fence.problem else None
            shown.append((None, fact_of(fence, ran=False, error=error)))
            continue
        links = chain(found, fence)
        same = known[tuple(_own(each.code, options_of(each)) for each in links)]
        if same:
            recorded = same.pop(0)
            shown.append((recorded[-1], _at(recorded, links)))
        elif advice is None:
            raise BuildFailure("no record says what this Python fence gave; build again", where=fence.where)
        else:
            shown.append((None, _unrun(fence, advice)))
    left = [recorded[-1] for same in known.values() for recorded in same]
    if left and advice is None:
        code = left[0].code.strip().partition("\n")[0]
        raise BuildFailure(f"a snippet was recorded here and the page shows none ({code}); build again", where=file)
    return shown


def _chains(facts: Sequence[SnippetFact]) -> list[list[SnippetFact]]:
    """Each fact after those of the fences that its own continues."""
    found: list[list[SnippetFact]] = []
    for fact in facts:
        before = found[-1] if found and "continues" in fact.options else []
        found.append([*before, fact])
    return found


def _own(code: str, options: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return code, tuple(sorted(options.items()))


def _at(recorded: Sequence[SnippetFact], links: Sequence[Fence]) -> SnippetFact:
    """The last of some recorded facts as one of the page's fences, at their lines."""
    fact, fence = recorded[-1], links[-1]
    starts = [(old.line, new.line) for old, new in zip(recorded, links, strict=True)]

    def line(number: int) -> int:
        old, new = next((pair for pair in reversed(starts) if pair[0] <= number), starts[0])
        return number - old + new

    error = None if fact.error is None else _error_at(fact.error, fact.file, fence.file, line)
    output = _said_at(fact.output, fact.file, fence.file, line)
    return fact.model_copy(
        update={"file": fence.file, "line": fence.line, "section": fence.section, "output": output, "error": error}
    )


def _error_at(error: str, file: str, page: str, line: Callable[[int], int]) -> str:
    """A failure, as `nnpedia.failures.failure` reports it, with the lines of the page."""
    head, mark, trace = error.partition(f"\n{TRACEBACK}\n")
    first, blank, code = head.partition("\n")
    code = re.sub(r"(?m)^([> ] )( *\d+)( \|)", lambda match: f"{match[1]}{line(int(match[2])):4}{match[3]}", code)
    return _said_at(first, file, page, line) + blank + code + mark + _said_at(trace, file, page, line)


def _said_at(text: str, file: str, page: str, line: Callable[[int], int]) -> str:
    """A text with the lines of the page wherever it names one, as `file:line` or as a traceback does."""
    pattern = rf'(?P<short>(?<![\w./-]){re.escape(file)}:)(?P<a>\d+)|(?P<long>"{re.escape(file)}", line )(?P<b>\d+)'

    def moved(match: re.Match[str]) -> str:
        number = line(int(match["a"] or match["b"]))
        return f"{page}:{number}" if match["a"] else f'"{page}", line {number}'

    return re.sub(pattern, moved, text) if file in text else text


def _unrun(fence: Fence, advice: str) -> SnippetFact:
    reason = f"since it changed, or what it continues did; {advice}"
    return fact_of(fence, ran=False).model_copy(update={"reason": reason})
