"""Markdown: the pages as plain text, for readers without a browser and for programs that read prose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nnpedia import kinds, lawrows, views, wording
from nnpedia.badges import Badge
from nnpedia.cache import templates_folder
from nnpedia.entry import Entry
from nnpedia.record import SnippetFact, ValueFact
from nnpedia.reuse.notebook import notes_passages
from nnpedia.reuse.passages import Passage, passages


@lru_cache(maxsize=4)
def environment(folder: Path) -> Environment:
    """Jinja for Markdown: nothing is escaped but the bars of table cells."""
    jinja = Environment(
        loader=FileSystemLoader(folder),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"line": line, "cell": cell, "spans": wording.spans, "counted": wording.counted}
    jinja.globals |= {"access": access, "layout": layout, "told": told, "places": places}
    return jinja


def family_markdown(entry: Entry, badges: Mapping[str, Badge], json: str) -> str:
    """A built family's page; `json` is the path of its document from the site's root."""
    context = {
        "entry": entry,
        "family": entry.family,
        "badges": [badges[name] for name in entry.family.badges],
        "lead": entry.facts[0],
        "kinds": list(zip(kinds.labels(entry.facts[0].kinds), entry.facts[0].kinds, strict=True)),
        "hosts": views.host_views(entry),
        "absent": views.absent(entry),
        "laws": lawrows.law_rows(entry),
        "sizes": views.size_table(entry.references),
        "notes": deeper(written(notes_passages(entry, "md"))),
        "json": json,
    }
    text = environment(templates_folder()).get_template("family.md").render(context)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def page_markdown(text: str, file: str, snippets: Sequence[SnippetFact], url: str) -> str:
    """A hand-written page without its front matter, each snippet with what it gave; it stands in the folder `url`."""
    up = "../" * url.count("/")
    links = {
        r"(?:\./)?index\.md(#.*)?": rf"{up}index.html\1",
        r"((?:[\w.-]+/)*)index\.md(#.*)?": rf"{up}\1index.html\2",
        r"((?:[\w.-]+/)*[\w.-]+)\.md(#.*)?": rf"{up}\1/index.html\2",
        r"(?![a-z]+:|#|/)(.*)": rf"{up}\1",
    }
    body = re.sub(r"\A---\n.*?\n---\n", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)
    return written(passages(body, file, snippets, links)).strip() + "\n"


def written(parts: Sequence[Passage]) -> str:
    return "\n\n".join(part.text if part.fact is None else fenced(part.fact) for part in parts)


def fenced(fact: SnippetFact) -> str:
    """A snippet and under it its output, between fences that are longer than any inside."""
    said = [f"{fence(fact.code)}python\n{fact.code}\n{fence(fact.code)}"]
    if not fact.ran:
        said.append(f"Not run: {fact.reason}.")
    if fact.output:
        said.append(f"{fence(fact.output)}text\n{fact.output.rstrip()}\n{fence(fact.output)}")
    return "\n\n".join(said)


def fence(text: str) -> str:
    return "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 3)


def deeper(text: str) -> str:
    """The notes' headings one level down, below the page's own."""
    lines, fenced = [], ""
    for each in text.split("\n"):
        ticks = re.match(r"\s*(`{3,}|~{3,})", each)
        if ticks and (not fenced or ticks[1].startswith(fenced)):
            fenced = "" if fenced else ticks[1]
        lines.append(f"#{each}" if not fenced and re.match(r"#{2,5} ", each) else each)
    return "\n".join(lines)


def line(text: str) -> str:
    return " ".join(text.split())


def cell(text: str) -> str:
    return line(text).replace("|", r"\|")


def access(row: views.ValueRow) -> str:
    if not row.assignable:
        return "read-only"
    return "read, assign, edit in place" if row.in_place else "read, assign"


def layout(row: views.ValueRow) -> str:
    named = f"[{' '.join(row.fact.axes)}]" if row.fact.axes else ""
    sized = row.sized if row.sized != named else ""
    return " ".join(part for part in (row.fact.layout, named, sized, row.sized_on and f"on {row.sized_on}") if part)


def told(row: views.ValueRow) -> str:
    """What a value is, where, and under which loads."""
    some = [f"on {layers} of {names}" for names, layers in row.layers]
    condition = [f"⚠︎ {row.condition}"] if row.condition else []
    return "; ".join([row.fact.description, *some, *condition])


def places(row: views.ValueRow) -> str:
    first = f"{row.of}: {place(row.fact)}" if row.of else place(row.fact)
    return "; ".join([first, *(f"{form.where}: {place(form.fact)}" for form in row.otherwise)])


def place(fact: ValueFact) -> str:
    if fact.absent is not None:
        return f"not there, {fact.absent}"
    native = f", laid out `{fact.native}`" if fact.native else ""
    where = f"`{fact.address}`" if fact.address else f"reader `{fact.reader}`"
    return f"{where} ({fact.words}){native}" if fact.words else f"{where}{native}"
