"""What programs that walk the site look for: `sitemap.xml`, `robots.txt` and `llms.txt`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree

from nnpedia.entry import Entry
from nnpedia.reuse.api import ROOT

SERVED = "http://127.0.0.1:8000/"  # where `make serve` shows the site
_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def sitemap(site: str, pages: Iterable[str]) -> str:
    """Every page, under the address the site is published at; a sitemap has no relative addresses.

    It holds no dates: a page's would be that of the build, which says nothing of the page.
    """
    urls = ElementTree.Element("urlset", {"xmlns": _SITEMAP})
    for page in sorted(pages):
        ElementTree.SubElement(ElementTree.SubElement(urls, "url"), "loc").text = f"{site or SERVED}{page}"
    ElementTree.indent(urls, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(urls, encoding="unicode") + "\n"


def robots(site: str) -> str:
    lines = ["User-agent: *", "Allow: /"]
    return "\n".join([*lines, *([f"Sitemap: {site}sitemap.xml"] if site else [])]) + "\n"


def llms(entries: Mapping[str, Entry], written: Sequence[tuple[str, str, str]]) -> str:
    """The site told in links to plain text, after https://llmstxt.org.

    `written` lists the hand-written pages: title, address of the Markdown, description.
    """
    lines = [
        "# nnpedia",
        "",
        "> One name, place and shape for every internal value of transformer language models, family by family. Every "
        "fact was read from a live model: shapes, the loads under which a value exists, the identities that hold "
        "between values with their measured error, and the output of every snippet.",
        "",
        "Addresses are relative to this file. Each family is one Markdown page, one JSON document and one notebook.",
        "",
        "## Pages",
        "",
        *(f"- [{title}]({uri}): {says}" for title, uri, says in written),
        "",
        "## Families",
        "",
        *(
            f"- [{entry.family.title}](families/{name}/{name}.md): `{name}`. {' '.join(entry.family.subtitle.split())}"
            for name, entry in entries.items()
            if entry.built
        ),
        "",
        "## Data",
        "",
        f"- [Index of the JSON]({ROOT}/index.json): where everything is",
        f"- [Families]({ROOT}/families.json): every family, in short",
        f"- [Values]({ROOT}/values.json): every value of the vocabulary, on every family",
        f"- [Laws]({ROOT}/laws.json): every identity, on every family, with its error",
        f"- [OpenAPI]({ROOT}/openapi.json): a description of all the JSON",
        "",
    ]
    return "\n".join(lines)
