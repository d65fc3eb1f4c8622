"""The JSON under `api/v1/`: entries in, documents out. What a page says is in the family's document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel

from nnpedia import lawrows, overview, pages, variants, views
from nnpedia.badges import Badge
from nnpedia.entry import Entry, slugs
from nnpedia.familyspec import FamilySpec
from nnpedia.record import Reference, Run, ValueFact
from nnpedia.reuse import documents as d
from nnpedia.vocabulary import Spec, Vocabulary

ROOT = "api/v1"
DOCUMENTS: dict[str, type[d.Document] | type[Reference] | type[Run]] = {
    "index": d.Index,
    "families": d.Families,
    "family": d.Family,
    "reference": Reference,
    "run": Run,
    "values": d.Values,
    "laws": d.Laws,
    "badges": d.Badges,
}
# what people write by hand, for editors
SPECS: dict[str, type[Spec]] = {"family.yml": FamilySpec, "vocabulary.yml": Vocabulary}


def of_all(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> dict[str, str]:
    """The files of all families together, and their schemas: path from the site's root, and content."""
    made: dict[str, d.Document | Reference | Run] = {
        "index.json": index(entries),
        "families.json": d.Families(families=[line(entry) for entry in entries.values()]),
        "values.json": values(list(entries.values())),
        "laws.json": laws(list(entries.values())),
        "badges.json": badge_list(entries, badges),
    }
    described = {f"{ROOT}/schema/{name}.json": schema(name, model) for name, model in (DOCUMENTS | SPECS).items()}
    return {f"{ROOT}/{name}": written(document) for name, document in made.items()} | described


def of_one(entry: Entry) -> dict[str, str]:
    """A family's files: all that its page says, and its records."""
    made: dict[str, d.Document | Reference | Run] = {f"families/{entry.name}.json": family(entry)}
    made |= {f"families/{entry.name}/{slug}.json": record for slug, record in slugs(entry.facts).items()}
    return {f"{ROOT}/{name}": written(document) for name, document in made.items()}


def written(document: d.Document | Reference | Run) -> str:
    return document.model_dump_json(indent=1) + "\n"


def schema(name: str, model: type[BaseModel]) -> str:
    """The JSON Schema of a document as it is written; of a spec, as it may be written."""
    mode: Literal["serialization", "validation"] = "serialization" if name in DOCUMENTS else "validation"
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{name}.json"}
    return json.dumps(described | model.model_json_schema(mode=mode), indent=1) + "\n"


def index(entries: Mapping[str, Entry]) -> d.Index:
    return d.Index(
        versions=next((entry.facts[0].versions for entry in entries.values() if entry.built), None),
        families=f"{ROOT}/families.json",
        values=f"{ROOT}/values.json",
        laws=f"{ROOT}/laws.json",
        badges=f"{ROOT}/badges.json",
        schemas={name: f"{ROOT}/schema/{name}.json" for name in DOCUMENTS | SPECS},
        openapi=f"{ROOT}/openapi.json",
    )


def counts(entry: Entry) -> d.Counts:
    summary = pages.summary(entry)
    return d.Counts(values=summary.values, laws=summary.laws, snippets=summary.snippets)


def page_of(entry: Entry) -> str:
    return f"families/{entry.name}/"


def line(entry: Entry) -> d.FamilyLine:
    family = entry.family
    return d.FamilyLine(
        family=entry.name,
        title=family.title,
        subtitle=family.subtitle,
        architecture=family.architecture,
        extends=family.extends,
        badges=list(family.badges),
        built=entry.built,
        counts=counts(entry),
        checkpoints=[checkpoint.id for checkpoint in family.checkpoints],
        trained=[run.origin.name for run in entry.real],
        url=f"{ROOT}/families/{entry.name}.json",
        page=page_of(entry),
    )


def family(entry: Entry) -> d.Family:
    spec, lead = entry.family, entry.facts[0] if entry.built else None
    rows = [row for host in views.host_views(entry) for row in host.rows]
    return d.Family(
        family=entry.name,
        title=spec.title,
        subtitle=spec.subtitle,
        architecture=spec.architecture,
        extends=spec.extends,
        badges=list(spec.badges),
        about=spec.about,
        versions=lead.versions if lead else None,
        counts=counts(entry),
        root=lead.root if lead else [],
        kinds=lead.kinds if lead else [],
        config=lead.config if lead else [],
        printout=lead.printout if lead else "",
        values=[value(entry, row) for row in rows],
        absent=absences(entry),
        laws=[law(entry, row) for row in lawrows.law_rows(entry)],
        snippets=entry.snippets,
        checkpoints=[
            d.CheckpointLine(
                slug=slug,
                kind=record.kind,
                **record.origin.model_dump(),
                parameters=record.parameters,
                sizes=record.sizes,
                variants=variants.variants_of(entry, record),
                url=f"{ROOT}/families/{entry.name}/{slug}.json",
            )
            for slug, record in slugs(entry.facts).items()
        ],
        page=page_of(entry),
    )


def value(entry: Entry, row: views.ValueRow) -> d.Value:
    fact = row.fact
    return d.Value(
        host=fact.host,
        name=fact.name,
        expression=row.expression,
        places=[place(fact, row.of), *(place(form.fact, form.where) for form in row.otherwise)],
        shape=fact.shape,
        shape_on=row.sized_on or entry.facts[0].origin.name,
        assignable=row.assignable,
        causal=row.causal,
        in_place=row.in_place,
        condition=row.condition,
        probes=[
            d.Probe(
                checkpoint=reading.run,
                load=reading.load.label,
                options=reading.load.options,
                found=reading.found,
                reason=reading.reason,
            )
            for reading in row.readings
        ],
        some_blocks=[d.Some(checkpoints=names, blocks=layers) for names, layers in row.layers],
        page=f"{page_of(entry)}#{row.anchor}",
    )


def place(fact: ValueFact, where: str) -> d.Place:
    return d.Place(where=where, **{key: getattr(fact, key) for key in d.Place.model_fields if key != "where"})


def absences(entry: Entry) -> list[d.Absence]:
    """The values that no checkpoint has, in the records' order."""
    return [
        d.Absence(host=host, name=name, reason=facts[0][1].absent or "")
        for (host, name), facts in views.facts_of(entry).items()
        if all(fact.absent is not None for _, fact in facts)
    ]


def law(entry: Entry, row: lawrows.LawRow) -> d.Law:
    return d.Law(
        host=row.host,
        name=row.name,
        readings=[
            d.LawReading(
                where=form.where,
                says=form.says,
                formula=form.formula,
                exception=form.exception,
                measured=[
                    d.Measured(
                        checkpoint=measure.run,
                        **{key: getattr(measure.fact, key) for key in d.Measured.model_fields if key != "checkpoint"},
                    )
                    for measure in form.measured
                ],
            )
            for form in row.forms
        ],
        page=f"{page_of(entry)}#{row.anchor}",
    )


def values(entries: Sequence[Entry]) -> d.Values:
    table = overview.table(entries)
    return d.Values(
        values=[
            d.VocabularyValue(
                host=host,
                path=path,
                name=each.name,
                layout=each.layout,
                axes=list(entries[0].family.vocabulary.axes_of(each.layout)),
                says=each.says,
                families={
                    cell.family: d.ValueCell(states=list(cell.states), served=cell.served, says=cell.says)
                    for cell in each.cells
                },
            )
            for host, path, lines in table.groups
            for each in lines
        ]
    )


def laws(entries: Sequence[Entry]) -> d.Laws:
    found = {entry.name: {(row.host, row.name): row for row in lawrows.law_rows(entry)} for entry in entries}
    said = entries[0].family.vocabulary.laws if entries else {}
    return d.Laws(
        laws=[
            d.VocabularyLaw(
                host=host,
                name=name,
                says=spec.says,
                formula=spec.formula,
                tolerance=spec.tolerance,
                families={family: law_cell(rows[host, name]) for family, rows in found.items() if (host, name) in rows},
            )
            for host, specs in said.items()
            for name, spec in specs.items()
        ]
    )


def law_cell(row: lawrows.LawRow) -> d.LawCell:
    form = next((form for form in row.forms if form.exception is None), row.forms[0])
    facts = [measure.fact for each in row.forms for measure in each.measured if each.exception is None]
    errors = [fact.error for fact in facts if fact.error is not None]
    return d.LawCell(
        formula=form.formula,
        holds=all(fact.holds for fact in facts) if facts else None,
        error=max(errors, default=None),
        exception=form.exception,
    )


def badge_list(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> d.Badges:
    return d.Badges(badges=[badge_line(name, badge, entries.values()) for name, badge in badges.items()])


def badge_line(name: str, badge: Badge, entries: Iterable[Entry]) -> d.BadgeLine:
    holders = [entry.name for entry in entries if name in entry.family.badges]
    page = f"badges/{name}/" if holders else None
    return d.BadgeLine(name=name, title=badge.title, says=badge.says, families=holders, page=page)
