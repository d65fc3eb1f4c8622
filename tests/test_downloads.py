"""What a reader takes from the site leads somewhere too: the links of Markdown, notebooks, lists, feed and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

HOST = "https://host.test/"
IN_MARKDOWN = re.compile(r"(?<!`)\[[^\]\n]+\]\(\s*<?([^)\s>]+)>?\s*\)")
IN_XML = re.compile(r'<loc>([^<]+)</loc>|href="([^"]+)"')
#: An address of this site in the JSON, which gives them from the root.
IN_JSON = re.compile(r"(api/v1|families|values|laws|badges)/[\w./%+-]+")


def prose_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def unfenced(text: str) -> str:
    """Markdown without its code, whose brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(`{3,}|~{3,}).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE))


def links_of(public: Path, file: Path) -> list[str]:
    if file.suffix == ".json":
        found = strings(json.loads(file.read_text(encoding="utf-8")))
        return [f"/{each}" for each in found if IN_JSON.fullmatch(each) and not each.endswith((".yml", ".py"))]
    text = prose_of(file) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")
    if file.suffix == ".xml":
        found = (first or second for first, second in IN_XML.findall(text))
        return [re.sub(r"^http://127\.0\.0\.1:8000/", "/", each) for each in found]
    return IN_MARKDOWN.findall(unfenced(text))


def lead_nowhere(public: Path, files: list[Path]) -> tuple[int, list[str]]:
    """How many links of this site the files hold, and those that lead to nothing."""
    count, wrong = 0, []
    for file in files:
        base = HOST + file.relative_to(public).as_posix()
        for link in links_of(public, file):
            target = urljoin(base, link)
            if not target.startswith(HOST):
                continue
            count += 1
            path = public / urlsplit(target).path.lstrip("/")
            if not (path / "index.html" if path.is_dir() else path).is_file():
                wrong.append(f"{file.relative_to(public)}: {link}")
    return count, wrong


@pytest.mark.parametrize(
    ("pattern", "least"),
    [("**/*.md", 100), ("**/*.ipynb", 20), ("llms.txt", 30), ("*.xml", 50), ("api/v1/*.json", 50)],
)
def test_no_link_of_a_download_leads_nowhere(public: Path, pattern: str, least: int) -> None:
    files = sorted(public.glob(pattern))
    count, wrong = lead_nowhere(public, files)
    assert wrong == []
    assert count >= least, f"{count} links in {len(files)} files"
