"""Names: what the search knows, one file that is fetched when a reader opens it.

An entry is a list: kind, title, where it is, what it is, the names it goes by, and running text. A
block's number is `#` in a name, whatever a library writes for it, so that `model.layers.3.mlp`
and `blocks.0.attn.hook_pattern` are found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

from nnpedia import views
from nnpedia.address import parse
from nnpedia.badges import Badge
from nnpedia.entry import Entry
from nnpedia.finding.lawpages import LawEntry
from nnpedia.kept import Kept
from nnpedia.prose import PREFIX
from nnpedia.record import HostFact, ValueFact
from nnpedia.translation import load_translation
from nnpedia.vocabulary import load_vocabulary

URI = "find/names.json"
#: Classes of torch that stand in every family.
PLAIN = frozenset(("Dropout", "Embedding", "LayerNorm", "Linear", "ModuleList"))
_CLASS = re.compile(r"\(\w[\w.-]*\): (?:\d+ x )?(\w+)\(")
Name = tuple[str, str, str, str, list[str], str]


def things(
    folder: Path, entries: Mapping[str, Entry], badges: Mapping[str, Badge], laws: Iterable[LawEntry]
) -> list[Name]:
    """Every value, law, family and badge."""
    return [
        *values(folder, entries),
        *(("law", law.name, law.uri, law.says, [f"{law.host}.{law.name}", law.formula], "") for law in laws),
        *(family(entry, badges) for entry in entries.values()),
        *(("badge", badges[name].title, f"badges/{name}/", badges[name].says, [name], "") for name in held(entries)),
    ]


def names_file(named: Iterable[Name], written: Mapping[str, tuple[str, str]], known: Kept | None = None) -> str:
    """The file's text: the things that are `named`, and the sections of what is `written`.

    That is pages by where they are, each a title and HTML; of a family's page, its notes and what its spec tells.
    `known` is what earlier builds read on pages.
    """
    known = known or Kept()
    found: list[Name] = [
        *named,
        *(section for url, (title, html) in written.items() for section in _sections(known, url, title, html)),
    ]
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def numbered(name: str) -> str:
    """A name with `#` for a block's number: `model.layers[i].mlp` and `model.layers.0.mlp` alike."""
    return re.sub(r"\[(?:i|\d+)\]|\.(?:\{layer\}|\d+)(?=\.|$)", ".#", name)


def distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(numbered(name) for name in names if name))


def values(folder: Path, entries: Mapping[str, Entry]) -> Iterator[Name]:
    """The values: under their own names, other libraries' and those of the modules they are read at."""
    vocabulary = load_vocabulary(folder)
    libraries = load_translation(folder).libraries.values()
    native: dict[views.Pair, list[str]] = {}
    for entry in entries.values():
        for record in entry.facts:
            hosts = {host.name: host for host in reversed(views.hosts_of(record))}
            for fact in record.values:
                native.setdefault((fact.host, fact.name), []).extend(native_places(fact, hosts))
    for host, table in vocabulary.values.items():
        for name, spec in table.items():
            other = [place.name for library in libraries for place in library.places(host, name)]
            path = f"{vocabulary.hosts[host].path}.{name}"
            names = distinct([name, f"{host}.{name}", path, *other, spec.layout, *native.get((host, name), [])])
            yield "value", f"{host}.{name}", f"values/{host}.{name}/", spec.says, names, ""


def native_places(fact: ValueFact, hosts: Mapping[str, HostFact]) -> Iterator[str]:
    """The native path of the module that a value goes into or comes out of, or in whose forward it is."""
    host = hosts.get(fact.host)
    if fact.absent is not None or not fact.address or host is None:
        return
    address = parse(fact.address)
    owner = {"^": hosts.get("layers"), "/": hosts.get("model")}.get(address.anchor, host)
    if owner is None or (address.operations and not address.children):
        return
    native = {standard: child for child, standard in owner.modules.items()}
    head, rest = address.children[:1], address.children[1:]
    if head and head[0] not in native:
        return
    prefix = "" if owner.name == "model" else owner.native_path
    yield ".".join(part for part in (prefix, *(native[name] for name in head), *rest) if part)


def family(entry: Entry, badges: Mapping[str, Badge]) -> Name:
    """A family: under its checkpoints, its classes and the native paths of its modules."""
    spec = entry.family
    hosts = [host for record in entry.facts for host in views.hosts_of(record)]
    classes = [name for record in entry.facts for name in _CLASS.findall(record.printout) if name not in PLAIN]
    modules = [
        ".".join(part for part in ("" if host.name == "model" else host.native_path, child) if part)
        for host in hosts
        for child in host.modules
    ]
    ids = [record.origin.name for record in entry.facts if record.origin.source != "forge"]
    names = distinct(
        [
            entry.name,
            spec.title,
            spec.architecture,
            *ids,
            *(record.origin.id for record in entry.facts),
            *(host.native_class for host in hosts),
            *classes,
            *(host.native_path for host in hosts if host.name != "model"),
            *modules,
        ]
    )
    text = " ".join(badges[name].title for name in spec.badges)
    return "family", f"{spec.title} ({entry.name})", f"families/{entry.name}/", spec.subtitle, names, text


def _sections(known: Kept, url: str, title: str, html: str) -> list[Name]:
    found: list[Name] = known.answer(f"{url}\0{title}\0{html}", lambda: list(sections(url, title, html)))
    return found


def sections(url: str, title: str, html: str) -> Iterator[Name]:
    """The sections of a page, without snippets and what they printed."""
    reader = _Sections()
    reader.feed(html)
    reader.close()
    told = any(name.startswith(PREFIX) for name in reader.found)  # a family's page: its tables are told as names
    for name, (heading, text) in reader.found.items():
        if not told or name == "spec" or name.startswith(PREFIX):
            where = f"{url}#{name}" if name else url
            yield (
                "text",
                re.sub(r"^\d+ ", "", " ".join(heading.split())) or title,
                where,
                title if name else "",
                [],
                text,
            )


def held(entries: Mapping[str, Entry]) -> list[str]:
    """The badges that some family has."""
    return sorted({name for entry in entries.values() for name in entry.family.badges})


class _Sections(HTMLParser):
    """The text of a page by the headings it stands under; what stands before the first has the id ''."""

    LEFT_OUT = frozenset(("pre", "svg", "script", "style"))
    HEADINGS = frozenset(("h1", "h2", "h3"))

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, str]] = {}
        self._id, self._heading, self._text = "", list[str](), list[str]()
        self._out: list[str] = []  # the open tags from the one that is left out
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = (given.get("class") or "").split()
        if self._out or tag in self.LEFT_OUT or "nn-result" in classes or "headerlink" in classes:
            if tag not in ("br", "img", "wbr", "hr", "input"):
                self._out.append(tag)
        elif tag in self.HEADINGS:
            if tag != "h1":
                self._keep()
                self._id = given.get("id") or ""
            self._in_heading = True

    def handle_endtag(self, tag: str) -> None:
        if self._out:
            if tag in self._out:
                while self._out.pop() != tag:
                    pass
        elif tag in self.HEADINGS:
            self._in_heading = False
        elif not self._in_heading:
            self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._out:
            (self._heading if self._in_heading else self._text).append(data)

    def close(self) -> None:
        super().close()
        self._keep()

    def _keep(self) -> None:
        text = " ".join("".join(self._text).split())
        self.found.setdefault(self._id, ("".join(self._heading), text))
        self._heading, self._text = [], []
