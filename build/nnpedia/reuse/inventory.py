"""The inventory by which Sphinx projects link here: `objects.inv`, over families, values, laws, badges, library.

A project that lists the site under `intersphinx_mapping` writes ``:external+nnpedia:std:label:`family phimoe` ``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import sphobjinv
from sphobjinv import DataObjStr

from nnpedia import views
from nnpedia.badges import Badge
from nnpedia.entry import Entry
from nnpedia.reuse.library import PAGE, Entity, entities


def inventory(entries: Mapping[str, Entry], badges: Mapping[str, Badge], version: str, pages: Collection[str]) -> bytes:
    """The file as Sphinx reads it; `pages` are the addresses that the site has, from its root."""
    made = sphobjinv.Inventory()
    made.project, made.version = "nnpedia", version
    made.objects.extend(objects(entries, badges, pages))
    return bytes(sphobjinv.compress(made.data_file()))


def objects(entries: Mapping[str, Entry], badges: Mapping[str, Badge], pages: Collection[str]) -> Iterator[DataObjStr]:
    for entry in entries.values():
        yield label(f"family {entry.name}", f"families/{entry.name}/", entry.family.title)
    vocabulary = next((entry.family.vocabulary for entry in entries.values()), None)
    for host, values in (vocabulary.values if vocabulary else {}).items():
        for name in values:
            own = f"values/{host}.{name}/"
            uri = own if own in pages else f"values/#{views.anchor(host, name)}"
            yield label(f"value {host}.{name}", uri, name)
    for host, laws in (vocabulary.laws if vocabulary else {}).items():
        for name in laws:
            if (uri := f"laws/{host}.{name}/") in pages:
                yield label(f"law {host}.{name}", uri, name)
    for name, badge in badges.items():
        if (uri := f"badges/{name}/") in pages:
            yield label(f"badge {name}", uri, badge.title)
    yield from (of_library(entity) for entity in entities())


def label(name: str, uri: str, title: str) -> DataObjStr:
    return DataObjStr(name=name, domain="std", role="label", priority="-1", uri=uri, dispname=title)


def of_library(entity: Entity) -> DataObjStr:
    uri = f"{PAGE}/#{entity.anchor}"
    return DataObjStr(name=entity.anchor, domain="py", role=entity.role, priority="1", uri=uri, dispname="-")
