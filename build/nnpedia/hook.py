"""The MkDocs hook: adds the generated pages to the site, and checks every link of what came out.

Pages exist only in memory, made anew from the records on every build, so a family folder that is
gone leaves nothing behind. A server builds after every saved file: see `nnpedia.serving`.
"""

from __future__ import annotations

import html
import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page as MkDocsPage
from mkdocs.structure.toc import AnchorLink, TableOfContents
from mkdocs.utils.meta import get_data

from nnpedia import assets, finding, links, overall, pages, policy, prose, reuse, serving
from nnpedia.badges import Badge, check_badges, load_badges
from nnpedia.bench.page import speed_pages
from nnpedia.cache import families_folder, home
from nnpedia.dependence import code_of
from nnpedia.documents import documents
from nnpedia.entry import Entry, load_entries
from nnpedia.errors import NnpediaError
from nnpedia.family import read_anew
from nnpedia.familypages import FamilyPages
from nnpedia.familypages import look as templates
from nnpedia.kept import Kept, kept
from nnpedia.lineages import check_lineages, load_lineages
from nnpedia.placing import page_placed
from nnpedia.prose import Heading
from nnpedia.record import Page
from nnpedia.records import load_pages
from nnpedia.rosetta import table as rosetta

log = logging.getLogger("mkdocs.hooks.nnpedia")

CARDS = "<!-- families -->"
_HEADING = re.compile(r'<h([23]) id="([^"]+)">(.*?)</h\1>', re.DOTALL)

# What one build made: by the page's source path. MkDocs hands hooks no place of their own.
_generated: dict[str, pages.Page] = {}
_overall: list[overall.Overall] = []
_records: dict[str, Page] = {}
_entries: dict[str, Entry] = {}
_badges: dict[str, Badge] = {}
_texts: dict[str, str] = {}
_forms: dict[str, str] = {}
_data: dict[str, str] = {}
_told: dict[str, tuple[str, str]] = {}  # what the search reads: titles and HTML, by where they are

# What a server keeps from one build to the next.
_made = FamilyPages()
_last = Kept()
_shown = serving.Shown()
_specs: list[str] = []  # the digest of those that are read
_serving: list[bool] = []


def on_startup(command: str, dirty: bool) -> None:
    """Whether this is a server that makes again only what changed (`make serve`)."""
    _serving[:] = [dirty]
    if dirty:  # MkDocs warns of what is settled here: every page whose content or frame changed is made again
        logging.getLogger("mkdocs.commands.build").addFilter(lambda record: "'dirty' build" not in str(record.msg))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The site's own sitemap stands for the theme's, which is dated by the build."""
    config.theme.static_templates.discard("sitemap.xml")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Generate every page and say where it stands in the navigation."""
    for made in (_generated, _overall, _records, _entries, _badges, _texts, _forms, _data):
        made.clear()
    if not any(_serving):
        _told.clear()  # a page that is not made again is not told of again
    try:
        generate()
    except NnpediaError as error:
        raise PluginError(str(error)) from None
    for page in _generated.values():
        files.append(File.generated(config, page.uri, content=f"# {page.title}\n"))
    offer(files, config)
    assets.join_styles(files, config, load_lineages(families_folder()))
    assets.leave_out(files, config)
    config.nav = navigation(list(_generated.values()))
    if any(_serving):
        frame = templates() + repr(config.nav)
        ours = [file for file in files if file.is_documentation_page() or file.abs_src_path is None]
        _shown.leave(ours, lambda file: said(file, frame, config))
    return files


def said(file: File, frame: str, config: MkDocsConfig) -> str | bytes:
    """All that a page is made from, the frame around it included; of any other file, all that is in it."""
    if not file.is_documentation_page():
        return file.content_bytes
    if (made := _generated.get(file.src_uri)) is not None:
        return frame + repr(made)
    record = _records.get(f"{Path(config.docs_dir).name}/{file.src_uri}")
    cards = cards_of(file.content_string)
    return frame + file.content_string + cards + (record.model_dump_json() if record else "")


def cards_of(content: str) -> str:
    """The cards, for a page that has a place for them."""
    return _overall[0].cards if CARDS in content else ""


def generate() -> None:
    """Make every page."""
    folder = families_folder()
    specs = overall.specs_of(folder)
    if _specs != [specs]:
        read_anew()
        _specs[:] = [specs]
    entries = load_entries(folder, home(), log.warning, stale=any(_serving), last=_last, specs=specs)
    badges = load_badges(folder)
    check_badges((entry.family for entry in entries.values()), badges)
    check_lineages((entry.family for entry in entries.values()), load_lineages(folder))
    for entry in entries.values():
        if not entry.built:
            log.info("families/%s has no records yet: `nnpedia build %s` makes them", entry.name, entry.name)
    look = templates()
    key = overall.made_from(specs, home(), entries, look)
    of_all = _last.answer(f"overall {key}", lambda: overall.overall(folder, home(), entries, badges))
    _overall.append(of_all)
    made = [*of_all.pages, *family_pages(entries, badges, look), pages.versions_page(entries), *speed_pages(home())]
    _generated.update({page.uri: page for page in made})
    with documents(folder.parent, home(), some=True) as read:
        for name, record in load_pages(home(), log.warning).items():
            advice = "`nnpedia build` runs it" if any(_serving) else None
            _records[name] = page_placed(record, read(name), advice)
    _entries.update(entries)
    _badges.update(badges)


def family_pages(entries: dict[str, Entry], badges: dict[str, Badge], look: str) -> list[pages.Page]:
    """The families' pages; their other forms and their data are kept for `offer`."""
    found = []
    for entry in entries.values():
        table = rosetta.table(entry, home()) if entry.built else None
        made = _made.of(entry, badges, entries, table, look)
        found.append(made.page)
        _forms.update(made.forms)
        _data.update(made.data)
    _made.only(entries)
    return found


def offer(files: Files, config: MkDocsConfig) -> None:
    """Add what the site offers besides its pages. Markdown would be taken for a page: that waits for the end."""
    by_hand = [file for file in files.documentation_pages() if file.src_uri not in _generated]
    written = [hand_written(file, config) for file in by_hand]
    urls = {file.url.removeprefix("./") for file in files.documentation_pages()}
    changes = Path(config.docs_dir).parent / "CHANGELOG.md"
    changelog = changes.read_text(encoding="utf-8") if changes.exists() else ""
    try:
        offered: dict[str, str | bytes] = {
            **_overall[0].data,
            **_data,
            **_forms,
            **reuse.forms({}, _badges, written),
            **reuse.guides(_entries, _badges, written, site=config.site_url or "", urls=urls, changelog=changelog),
        }
    except NnpediaError as error:
        raise PluginError(str(error)) from None
    for uri, content in offered.items():
        if uri.endswith(".md"):
            _texts[uri] = str(content)
        else:
            files.append(File.generated(config, uri, content=content))


def hand_written(file: File, config: MkDocsConfig) -> reuse.Written:
    name = f"{Path(config.docs_dir).name}/{file.src_uri}"
    said = get_data(file.content_string)[1]
    return reuse.Written(
        file=name,
        url=file.url.removeprefix("./"),
        title=str(said.get("title", file.name)),
        description=str(said.get("description", "")),
        text=file.content_string,
        snippets=_records[name].snippets if name in _records else (),
    )


def navigation(made: list[pages.Page]) -> list[Any]:
    """What the header and the side list. The pages of values, laws and badges are many, and every page would carry
    them all: their lists lead there, as mkdocs.yml says under `not_in_nav`."""

    def section(folder: str) -> list[Any]:
        inside = [page for page in made if page.uri.startswith(f"{folder}/")]
        return [{"All of them" if page.uri.endswith("index.md") else page.title: page.uri} for page in inside]

    return [
        {"Home": "index.md"},
        {"Getting started": "getting-started.md"},
        {"Families": section("families")},
        {"Values": "values/index.md"},
        {"Laws": "laws/index.md"},
        {"Matrix": "matrix.md"},
        {"Compare": "compare.md"},
        {"Badges": "badges/index.md"},
        {"Translate": "translate.md"},
        {
            "Library": [
                {"Names": "library.md"},
                {"Readers": "readers.md"},
                {"Versions": "versions.md"},
                {"On a cluster": "cluster.md"},
            ]
        },
        {"Reuse": "reuse.md"},
        {"Add a family": "add-a-family.md"},
        {
            "About": [
                {"What is promised": "guarantees.md"},
                {"Coverage": "coverage.md"},
                *({page.title: page.uri} for page in made if page.uri == "speed.md"),
            ]
        },
    ]


def on_page_markdown(markdown: str, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
    made = _generated.get(page.file.src_uri)
    if made is not None:
        page.meta["title"] = made.head or made.title
        page.meta["description"] = html.escape(made.description)
        if made.wide:
            page.meta["hide"] = ["navigation", "toc"]
    elif (record := _records.get(f"{Path(config.docs_dir).name}/{page.file.src_uri}")) is not None:
        # the whole file, so that line numbers are the record's; then again without the front matter
        marked = prose.with_marks(page.file.content_string, record.file, record.snippets)[0]
        return get_data(marked)[0]
    return markdown


def on_page_content(content: str, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
    made = _generated.get(page.file.src_uri)
    if made is None:
        record = _records.get(f"{Path(config.docs_dir).name}/{page.file.src_uri}")
        if record is not None:
            content = prose.with_results(content, record.snippets, pages.snippet_result, record.file)
        _told[page.url.removeprefix("./")] = str(page.title), content
        return _HEADING.sub(with_permalink, content.replace(CARDS, cards_of(content)))
    if made.uri.startswith("families/") and not made.uri.endswith("index.md"):
        _told[page.url] = made.title, made.html
    page.toc = table_of_contents(made.headings)
    page.present_anchor_ids = set(re.findall(r'\bid="([^"]+)"', made.html))
    return str(made.html)  # Markup would escape what it is joined with


def with_permalink(match: re.Match[str]) -> str:
    level, name, text = match.groups()
    link = f'<a class="headerlink" href="#{name}" title="Link to this heading">#</a>'
    return f'<h{level} id="{name}">{text}{link}</h{level}>'


def table_of_contents(headings: list[Heading]) -> TableOfContents:
    """MkDocs' nested contents; the theme lists what is under the page's one title."""
    top: list[AnchorLink] = []
    for heading in headings:
        link = AnchorLink(heading.text, heading.id, heading.level)
        (top[-1].children if heading.level > 2 and top else top).append(link)
    return TableOfContents(top)


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> Environment:
    """A server compiles the theme's templates once for as long as they are the same."""
    if not any(_serving):
        return env
    kept_env: Environment = _last.answer(f"env {templates()}", lambda: env)
    return kept_env


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages as Markdown and what the search knows; then look at every link and asset, and at the policy."""
    _shown.done()
    _last.turn()
    site = Path(config.site_dir)
    for uri, text in _texts.items():
        (site / uri).write_text(text, encoding="utf-8")
    names = site / finding.NAMES
    names.parent.mkdir(exist_ok=True)
    names.write_text(finding.names(_overall[0].things, _told), encoding="utf-8")
    base = urlsplit(config.site_url or "").path or "/"
    with kept("links", code_of(links.__name__)) as seen:
        problems = links.broken_links(site, base, seen)
    with kept("policy", code_of(policy.__name__)) as seen:
        problems += policy.broken_policy(site, config.extra["policy"], seen)
    for problem in problems:
        log.warning("%s", problem)
