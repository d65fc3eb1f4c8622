"""Pages: entries in, HTML out. Pure functions; nothing here reads a file but the templates.

Every template autoescapes, so a spec, a notes heading or a model's repr can hold any text. What
is passed as `Markup` was made by `prose` or by another template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from nnpedia import catalogue, copying, diagram, explore, kinds, lawrows, moves, prose, shapes, variants, views, wording
from nnpedia.badges import Badge
from nnpedia.cache import templates_folder
from nnpedia.entry import Entry, slugs
from nnpedia.errors import place
from nnpedia.linebreaks import breakable, breakable_formula, breakable_value
from nnpedia.record import Reference, Run, SnippetFact


@dataclass(frozen=True)
class Page:
    """A generated page: where it goes, its title, the article's HTML and its table of contents."""

    uri: str  # "families/phimoe.md"; served at families/phimoe/
    title: str
    html: str
    headings: list[prose.Heading] = field(default_factory=list)
    description: str = ""
    wide: bool = False  # without the theme's side columns
    head: str = ""  # what the browser and search engines call it, where that is not the title


@lru_cache(maxsize=4)
def environment(folder: Path) -> Environment:
    """Jinja over the templates folder; undefined names are errors, everything is escaped."""
    jinja = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {
        "shown": wording.shown,
        "counted": wording.counted,
        "epsilons": wording.epsilons,
        "in_words": wording.in_words,
        "spans": wording.spans,
        "printout": coloured_printout,
        "breakable": breakable,
        "breakable_value": breakable_value,
        "coded": coded,
    }
    jinja.globals |= {
        "anchor": views.anchor,
        "HEIGHT": shapes.HEIGHT,
        "RAIL": shapes.RAIL,
        "WIDTH": shapes.WIDTH,
    }
    return jinja


def render(template: str, **context: Any) -> Markup:
    return Markup(environment(templates_folder()).get_template(template).render(**context))


def coded(text: str) -> Markup:
    """Text whose words between backticks are code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(text.split("`"))
    )


def plain(text: str) -> str:
    """Text for the theme's own templates, which do not escape: markup characters become look-alikes."""
    table = str.maketrans({"<": "‹", ">": "›", "&": "＆", '"': "”", "{": "(", "}": ")"})
    return " ".join(text.translate(table).split())


def family_page(
    entry: Entry, badges: Mapping[str, Badge], families: Mapping[str, Entry], rosetta: object = None
) -> Page:
    """The page of one family: everything its spec, notes and records say; `rosetta` is its table of other libraries.

    Raises:
        BuildFailure: notes and the record of their snippets do not match.
    """
    family = entry.family
    uri, title = f"families/{family.family}.md", plain(family.title)
    if not entry.built:
        html = render("unbuilt.html", entry=entry, family=family)
        return Page(uri, title, html, description=plain(family.subtitle))
    hosts = views.host_views(entry)
    rows = [row for host in hosts for row in host.rows]
    laws = lawrows.law_rows(entry)
    notes = family_notes(entry, rows)
    lead = entry.facts[0]
    varies = {f"{row.fact.host}.{row.fact.name}" for row in rows if row.varies or row.never}
    stage = explore.explore(entry, varies)
    named = list(zip(slugs(entry.facts), entry.facts, strict=True))
    context = {
        "entry": entry,
        "family": family,
        "badges": {name: badges[name] for name in family.badges},
        "base": families.get(family.extends or ""),
        "lead": lead,
        "stage": stage,
        "choices": [choice.data(slug) for choice, (slug, _) in zip(stage.choices, named, strict=True)],
        "around": explore.around(entry),
        "config_values": {row.key: row.value for row in lead.config},
        "on_lead": on_lead(lead),
        "strip": strip(rows),
        "variants": variants.variant_views(entry),
        "hosts": hosts,
        "rows": {(row.fact.host, row.fact.name): row for row in rows},
        "absent": views.absent(entry),
        "matrix": views.matrix(entry, hosts),
        "laws": laws,
        "rosetta": rosetta,
        "identity": lambda look: identity(entry, laws, look),
        "reads_on": lambda form: [slug for slug, each in named if lawrows.reads_on(entry, form, each)],
        "formula": lambda text, host: linked_formula(text, host, rows),
        "sizes": views.size_table(entry.references),
        "config": views.config_split(lead.config),
        "notes": notes,
        "about": prose.render(family.about, file=place(family.folder / "family.yml")),
    }
    html = render("family.html", **context)
    return Page(
        uri, title, html, contents(notes.headings, bool(family.variants), rosetta is not None), plain(family.subtitle)
    )


def identity(entry: Entry, laws: Sequence[lawrows.LawRow], look: explore.Look) -> lawrows.LawRow | None:
    """What blocks of a look add to the stream, as it reads on the checkpoints that have such blocks."""
    law = lawrows.contribution(laws, look.drawn.hosts)
    return law and lawrows.on_records(entry, law, [choice.record for choice, _ in look.of])


def family_notes(entry: Entry, rows: Sequence[views.ValueRow]) -> prose.Prose:
    # a plain word in code (`values`, `keys`) is more often a variable of a snippet
    links = {row.fact.name: f"#{row.anchor}" for row in rows if "_" in row.fact.name or row.fact.name == "logits"}
    links |= {f"{row.fact.host}.{row.fact.name}": f"#{row.anchor}" for row in rows}
    before = copying.setups(entry)

    def show(fact: SnippetFact) -> str:
        return snippet_result(fact, before.get(fact.line))

    return prose.render(entry.notes, file=entry.notes_file, snippets=entry.snippets, show=show, links=links)


def snippet_result(fact: SnippetFact, before: str | None = None) -> str:
    """What stands under a fence: what it ran on, its output, how many asserts passed; and what runs before it."""
    return render("result.html", fact=fact, before=before)


def contents(notes: Sequence[prose.Heading], varied: bool = False, translated: bool = False) -> list[prose.Heading]:
    """The family page's table of contents, the notes' headings in their place."""
    heads = [
        (2, "block", "01 The block"),
        *([(3, "variants", "Variants")] if varied else []),
        (2, "api", "02 The API"),
        (3, "values", "Values"),
        (3, "availability", "Availability"),
        (3, "laws", "Laws"),
        *([(3, "rosetta", "In other libraries")] if translated else []),
        (3, "printout", "Printout"),
        (3, "config", "Config"),
        (2, "notes", "03 Notes"),
        (2, "spec", "04 From the family spec"),
        (2, "provenance", "Provenance"),
    ]
    outline = [prose.Heading(*head) for head in heads]
    at = [heading.id for heading in outline].index("notes") + 1
    return [*outline[:at], *(heading for heading in notes if heading.level == 3), *outline[at:]]


def on_lead(lead: Reference | Run) -> dict[tuple[str, str], str]:
    """By value, the blocks of the first checkpoint that have it, as ranges; `none` where it has no such value."""
    found: dict[tuple[str, str], str] = {}
    for fact in lead.values:
        layers = kinds.layers_of(lead, fact)
        if fact.absent is not None:
            found[fact.host, fact.name] = "none"
        elif layers is not None:
            found[fact.host, fact.name] = wording.spans(layers)
    return found


def strip(rows: Sequence[views.ValueRow]) -> dict[str, list[tuple[str, views.ValueRow]]]:
    """The model in a line: the modules before the stack and after it, with the value each gives."""
    found: dict[str, list[tuple[str, views.ValueRow]]] = {"before": [], "after": []}
    for row in rows:
        module = diagram.module_of(row.fact)
        if row.fact.host == "model" and (module or row.fact.name == "logits"):
            late = row.fact.name in ("final_norm_output", "lm_head_output", "logits")
            found["after" if late else "before"].append((module or "logits", row))
    return found


def linked_formula(formula: str, host: str, rows: Sequence[views.ValueRow]) -> Markup:
    """A law's formula with the names of values leading to their rows."""
    known = {(row.fact.host, row.fact.name) for row in rows}
    return Markup("").join(
        breakable_formula(word) if pair is None else Markup('<a href="#{}">{}</a>').format(views.anchor(*pair), word)
        for word, pair in lawrows.worded(formula, host, known)
    )


def coloured_printout(text: str) -> Markup:
    """A model's printout with the lines of standard values set apart."""
    lines = []
    for line in text.splitlines():
        match = re.fullmatch(r"(\s*)\((\w+)\)( -> )?([^:]*)(: .*)?", line)
        if match and (match[3] or match[2] == "input_size") and match[5]:
            line = Markup("{}(<b>{}</b>){}<i>{}</i><s>{}</s>").format(*(match[index] or "" for index in range(1, 6)))
        lines.append(escape(line))
    return Markup("\n").join(lines)


def badge_pages(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> list[Page]:
    """A page per badge that some family has, and the list of them."""
    holders = {name: [entry for entry in entries.values() if name in entry.family.badges] for name in badges}
    held = {name: badges[name] for name, families in holders.items() if families}
    listing = Page(
        "badges/index.md",
        "Badges",
        render("badges.html", badges=held, holders=holders),
        description="What sets families apart.",
    )
    pages = [
        Page(
            f"badges/{name}.md",
            plain(badge.title),
            render(
                "badge.html",
                name=name,
                badge=badge,
                more=prose.render(badge.more).html,
                families=holders[name],
                badges=badges,
            ),
            description=plain(badge.says),
        )
        for name, badge in held.items()
    ]
    return [listing, *pages]


def readers_page(entries: Mapping[str, Entry]) -> Page:
    """The named Python readers, and who uses them."""
    html = render("readers.html", readers=catalogue.catalogue(list(entries.values())), entries=entries)
    return Page("readers.md", "Readers", html, description="The values that take Python to read.", wide=True)


def versions_page(entries: Mapping[str, Entry]) -> Page:
    """The releases the specs are told for, and what differs between them."""
    families = [entry.family for entry in entries.values()]
    told = families[0].vocabulary.versions if families else {}
    html = render(
        "versions.html", versions=told, moves=moves.moves(families), younger=moves.younger(families),
        noted=moves.noted(families), breakable=breakable, breakable_formula=breakable_formula,
    )  # fmt: skip
    headings = [prose.Heading(2, "ranges", "Releases"), prose.Heading(2, "moved", "What moved")]
    headings.append(prose.Heading(2, "only", "What only some releases have"))
    says = "The releases of transformers and nnsight that are supported, and what differs between them."
    return Page("versions.md", "Versions", html, headings, says)


@dataclass(frozen=True)
class Summary:
    """A family in numbers."""

    values: int
    laws: int
    snippets: int


def summary(entry: Entry) -> Summary:
    return Summary(
        values=sum(len(host.rows) for host in views.host_views(entry)),
        laws=sum(law.served for law in lawrows.law_rows(entry)),
        snippets=sum(snippet.ran for snippet in entry.snippets),
    )
