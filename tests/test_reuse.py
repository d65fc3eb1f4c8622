"""What a program or a tool would be wronged by: a link that leads nowhere, a file that its readers refuse."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sample_records as samples
import sphobjinv

from nnpedia import pages, reuse, views
from nnpedia.badges import load_badges
from nnpedia.entry import Entry
from nnpedia.errors import SpecError
from nnpedia.reuse import api, feed, library

FAMILIES = samples.FAMILIES
BADGES = load_badges(FAMILIES)
CHANGELOG = (FAMILIES.parent / "CHANGELOG.md").read_text()
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def entry() -> Entry:
    return samples.entry(FAMILIES / "phimoe")


def page(text: str = "# Title\n\nWords.\n", url: str = "start/") -> reuse.Written:
    return reuse.Written("site/start.md", url, "Start", "How to start.", text, ())


def guides(entry: Entry, site: str = "", urls: tuple[str, ...] = ("", "families/phimoe/", "badges/rmsnorm/")) -> dict:
    return reuse.guides({"phimoe": entry}, BADGES, [page()], site=site, urls=urls, changelog=CHANGELOG)


def test_the_markdown_of_a_family_says_what_its_page_says(entry: Entry) -> None:
    text = reuse.forms({"phimoe": entry}, BADGES, [])["families/phimoe/phimoe.md"]
    rows = [row for host in views.host_views(entry) for row in host.rows]
    lines = text.splitlines()
    for row in rows:
        (line,) = [line for line in lines if line.startswith(f"| `{row.fact.name}` ") and row.fact.layout in line]
        assert (row.condition or "|") in line
        assert line.replace(r"\|", "").count("|") == 5
    code = [snippet.code for snippet in entry.snippets]
    assert code
    assert all(f"```python\n{each}\n```" in text for each in code)
    assert text.count("\n```text\n[2, 5]\n```") == sum(bool(snippet.output) for snippet in entry.snippets)
    headings = [line for line in lines if re.match(r"#+ ", line) and line.startswith("## ")]
    assert headings == [f"## {name}" for name in ("The block", "Values", "Laws", "Public checkpoints", "Notes",
                                                  "From the family spec", "Provenance")]  # fmt: skip


def test_links_of_plain_pages_lead_to_files_of_the_site(entry: Entry) -> None:
    text = (
        "---\ntitle: X\n---\n# X\n\n[a](families/index.md), [b](index.md#c), [d](https://x.y/z), [e](#f){ .g }\n"
        "[h](api/v1/index.json)\n"
    )
    found = reuse.forms({"phimoe": entry}, BADGES, [page(text), page(text, "")])
    assert found["start/start.md"] == (
        "# X\n\n[a](../families/index.html), [b](../index.html#c), [d](https://x.y/z), [e](#f)\n"
        "[h](../api/v1/index.json)\n"
    )
    assert "[a](families/index.html), [b](index.html#c)" in found["index.md"]
    notes = found["families/phimoe/phimoe.md"]
    linked = set(re.findall(r"\]\(([^)#]+)[^)]*\)", notes))
    assert {"./index.html", "./phimoe.ipynb", "../../api/v1/families/phimoe.json"} <= linked
    assert not [url for url in linked if url.endswith("notes.md")]


def test_the_page_offers_what_is_made(entry: Entry) -> None:
    html = str(pages.family_page(entry, BADGES, {}).html)
    made = reuse.forms({"phimoe": entry}, BADGES, []) | reuse.family_data(entry)
    for name in ("phimoe.ipynb", "phimoe.md"):
        assert f'href="{name}"' in html
        assert f"families/phimoe/{name}" in made
    assert 'href="../../api/v1/families/phimoe.json"' in html
    assert f"{api.ROOT}/families/phimoe.json" in made


@pytest.mark.parametrize("site", ["", "https://example.org/sub/"])
def test_the_sitemap_lists_every_page_once_and_whole(entry: Entry, site: str) -> None:
    found = guides(entry, site)
    root = ElementTree.fromstring(found["sitemap.xml"])
    urls = [each.text or "" for each in root.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    base = site or "http://127.0.0.1:8000/"
    assert urls == [base, f"{base}badges/rmsnorm/", f"{base}families/phimoe/"]
    assert (f"Sitemap: {site}sitemap.xml" in found["robots.txt"]) == bool(site)


def test_the_feed_is_atom_and_has_each_change_once(entry: Entry) -> None:
    root = ElementTree.fromstring(guides(entry, "https://example.org/sub/")["feed.xml"])
    entries = root.findall(f"{ATOM}entry")
    for each in (root, *entries):
        assert [each.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated")].count(None) == 0
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each.findtext(f"{ATOM}updated") or "")
    assert root.findtext(f"{ATOM}author/{ATOM}name")
    assert next(link.get("href") for link in root.findall(f"{ATOM}link")) == "https://example.org/sub/feed.xml"
    assert len(entries) == len(re.findall(r"^- ", CHANGELOG, re.MULTILINE))
    assert set(Counter(each.findtext(f"{ATOM}id") for each in entries).values()) == {1}


def test_a_change_keeps_its_id_and_a_version_needs_its_date() -> None:
    before = list(feed.changes("## 0.1.0 (2026-01-02)\n\n- One\n  goes on.\n"))
    after = list(feed.changes("## 0.1.0 (2026-01-02)\n\n- New.\n- One\n  goes on.\n"))
    assert [change.text for change in after] == ["New.", "One goes on."]
    assert before[0].id == after[1].id != after[0].id
    with pytest.raises(SpecError, match=r"CHANGELOG.md:3: "):
        list(feed.changes("# Changes\n\n## 0.1.0 (unreleased)\n"))


def test_the_inventory_is_read_back_and_leads_to_pages(entry: Entry, tmp_path: Path) -> None:
    path = tmp_path / "objects.inv"
    path.write_bytes(guides(entry)["objects.inv"])
    found = sphobjinv.Inventory(str(path))
    targets = {each.name: each.uri_expanded for each in found.objects}
    assert (found.project, targets["family phimoe"]) == ("nnpedia", "families/phimoe/")
    assert targets["value self_attn.attention_queries"] == "values/#value-self_attn-attention_queries"
    assert targets["badge rmsnorm"] == "badges/rmsnorm/"
    assert not any(name.startswith("law ") for name in targets)  # no such page was named
    html = str(reuse.library_page().html)
    public = [each for each in found.objects if each.domain == "py"]
    assert {each.name for each in public} >= {"nnpedia.StandardizedTransformer", "nnpedia.Unavailable"}
    for each in public:
        assert f'id="{each.uri_expanded.partition("#")[2]}"' in html


def test_the_library_page_tells_of_what_the_package_exports() -> None:
    import nnpedia

    told = {entity.name: entity for entity in library.entities()}
    assert {name for name in told if "." not in name} == set(nnpedia.__all__)
    assert all(entity.says for entity in told.values())
    members = vars(nnpedia.StandardizedTransformer)
    for name in (name.partition(".")[2] for name in told if "." in name):
        assert name in members
    assert told["StandardizedTransformer.support"].signature.startswith("(layer: int | None = None)")
    assert {name.partition(".")[2] for name in told if "." in name} == set(library.MEMBERS)


def test_the_library_page_lists_arguments_with_what_they_are() -> None:
    made = next(entity for entity in library.entities() if entity.name == "StandardizedTransformer")
    (arguments,) = [part for part in made.parts if part.items]
    told = dict(arguments.items)
    asked = {name for name in re.findall(r"(\w+):", made.signature) if name != "kwargs"}
    assert arguments.text == "Arguments"
    assert set(told) == {*asked, "**kwargs"}
    assert told["checkpoint"].endswith("or a loaded transformers module.")
    (attributes,) = [part for entity in library.entities() for part in entity.parts if part.text == "Attributes"]
    assert [name for name, _ in attributes.items][:2] == ["value", "reason"]


def test_the_library_page_tells_of_every_member_that_a_page_uses() -> None:
    import nnpedia

    root = FAMILIES.parent
    pages = [root / "README.md", *root.glob("site/*.md"), *FAMILIES.glob("*/notes.md")]
    used = {name for page in pages for name in re.findall(r"\bmodel\.([a-z]\w+)", page.read_text(encoding="utf-8"))}
    own = {
        name for name, each in vars(nnpedia.StandardizedTransformer).items() if callable(each) or type(each) is property
    }
    assert used & own <= set(library.MEMBERS)


def test_llms_txt_links_to_plain_text(entry: Entry) -> None:
    text = guides(entry)["llms.txt"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    made = {
        **reuse.forms({"phimoe": entry}, BADGES, [page()]),
        **reuse.data({"phimoe": entry}, BADGES),
        **reuse.family_data(entry),
    }
    assert set(links) <= set(made)
    assert text.startswith("# nnpedia\n\n> ")
