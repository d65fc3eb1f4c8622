"""The fences found are the Python blocks a reader sees: neither more nor fewer, at the right lines."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from nnpedia.errors import SpecError
from nnpedia.fences import chain, check_notes, fences, read_document
from nnpedia.rendering import EXTENSIONS, renderer

NASTY = """\
---
title: the front matter goes before anything is rendered
---
# Title

Inline ```python is no block``` and neither is `python`.

```python
a = 1  # PLAIN

b = 2
```

```
pseudo = PLAINTEXT
```

```py
SHORT
```

```Python
CAPITAL
```

```python3
THREE
```

~~~python
TILDES
~~~

``` {.python .extra}
BRACES
```

``` python
BLANK
```

```pycon
>>> CONSOLE
```

```ipython
IPY
```

````python
LONGER = '''
```
'''
````

!!! note "An admonition"
    Text.

    ```python on=forge
    if True:
        ADMONITION
    ```

??? info "Details"

    ```python
    DETAILS
    ```

=== "One tab"

    ```python
    TAB
    ```

=== "Another"

    ```yaml
    not: python
    ```

1. An item

    ```python
    LISTED
    ```

- an item whose marker the fence stands on

- ```python
  MARKER
  ```

A paragraph.

> ```python
> QUOTED
> ```

<div markdown>
```python
INDIV
```
</div>

<!--
```python
COMMENTED
```
-->

A paragraph, then code by indentation:

    ```python
    LITERAL
    ```

````markdown
```python
SHOWN
```
````

```python norun="needs a GPU"
NORUN
```

```python attn_implementation=eager
EAGER
```

```python continues
CONTINUES
```

```text
```python
SWALLOWED
```

<pre><code class="language-python">HTML</code></pre>

```python
UNCLOSED
"""


WORDS = (
    *("PLAIN", "SHORT", "CAPITAL", "THREE", "TILDES", "BRACES", "BLANK", "CONSOLE", "IPY", "LONGER", "ADMONITION"),
    *("DETAILS", "TAB", "LISTED", "QUOTED", "INDIV", "NORUN", "EAGER", "CONTINUES"),
)
MISSPELT = {"SHORT", "CAPITAL", "THREE", "TILDES", "BRACES", "BLANK", "CONSOLE", "IPY", "QUOTED"}


class PythonBlocks(HTMLParser):
    """Counts what the stylesheet colours: superfences' `div.language-python.highlight` and bare code."""

    def __init__(self) -> None:
        super().__init__()
        self.languages: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name in (dict(attrs).get("class") or "").split():
            if name.startswith("language-"):
                self.languages.append(name.removeprefix("language-"))


def rendered_languages(text: str) -> list[str]:
    """The languages of the page's blocks, as plain Python-Markdown renders them."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    converter = renderer()
    converter.preprocessors["fenced_code_block"].config["css_class"] = "highlight"
    extension = next(e for e in converter.registeredExtensions if type(e).__name__ == "HighlightExtension")
    extension.config["pygments_lang_class"][0] = True
    parser = PythonBlocks()
    parser.feed(converter.convert(body))
    return parser.languages


def word_of(code: str) -> str:
    match = re.search(r"[A-Z]{3,}", code)
    assert match
    return match.group()


def test_the_blocks_found_are_the_blocks_rendered() -> None:
    languages = rendered_languages(NASTY)
    rendered = [language for language in languages if language not in ("text", "yaml", "markdown", "ipython")]
    document = read_document("nasty.md", NASTY)
    from_html = sum("written as HTML" in problem.what for problem in document.problems)
    ipython = 1  # no lexer of that name is installed, so it renders as text; it still means Python
    assert from_html == 1
    assert len(document.fences) - ipython + from_html == len(rendered)
    assert tuple(word_of(fence.code) for fence in document.fences) == WORDS


def test_lines_are_the_files() -> None:
    lines = NASTY.split("\n")
    for fence in read_document("nasty.md", NASTY).fences:
        assert lines[fence.line - 1] == fence.indent + fence.code.split("\n")[0]
        assert re.fullmatch(r"[> ]*[`~]{3,}.*[pP]y.*", lines[fence.opening - 1])
        assert re.fullmatch(r"[> ]*[`~]{3,}", lines[fence.closing - 1])


def test_every_other_spelling_is_an_error_with_the_right_one() -> None:
    document = read_document("nasty.md", NASTY)
    wrong = {word_of(fence.code): fence.problem for fence in document.fences if fence.problem}
    assert set(wrong) == MISSPELT
    assert wrong["SHORT"] == "renders as Python and is not run: write ```python, not ```py"
    assert "admonition" in wrong["QUOTED"]
    assert not any(fence.runs for fence in document.fences if fence.problem)
    strays = {NASTY.split("\n")[int(problem.where.rpartition(":")[2]) - 1] for problem in document.problems}
    assert strays == {
        "- ```python",
        "    ```python",
        "```python",
        '<pre><code class="language-python">HTML</code></pre>',
    }


def test_a_fence_inside_another_blocks_text_is_code_dedented() -> None:
    fence = next(fence for fence in read_document("nasty.md", NASTY).fences if "ADMONITION" in fence.code)
    assert fence.code == "if True:\n    ADMONITION"
    assert fence.on == "forge"
    assert fence.runs


def test_the_site_renders_with_the_extensions_the_finder_asks() -> None:
    class Loader(yaml.SafeLoader):
        """mkdocs.yml names Python objects; only the extensions' names matter here."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)
    Loader.add_multi_constructor("tag:", lambda loader, suffix, node: suffix)
    config = yaml.load((Path(__file__).parent.parent / "mkdocs.yml").read_text(), Loader)
    configured = {
        name: options or {}
        for entry in config["markdown_extensions"]
        for name, options in (entry.items() if isinstance(entry, dict) else [(entry, {})])
    }
    assert configured["pymdownx.superfences"].get("relaxed_headers") is True
    may_differ = {"pymdownx.inlinehilite", "pymdownx.emoji", "pymdownx.arithmatex", "abbr", "toc", "tables"}
    assert set(configured) - set(EXTENSIONS) <= may_differ
    assert set(EXTENSIONS) - set(configured) <= {"toc", "tables"}  # MkDocs' own
    # Either would colour blocks that name no language.
    assert not {"guess_lang", "default_lang"} & set(configured["pymdownx.highlight"])


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        ("continue", "unknown option 'continue'; did you mean 'continues'?"),
        ("attn_implementaton=eager", "unknown option 'attn_implementaton'; did you mean 'attn_implementation'?"),
        ("attn_implementation=egar", "attn_implementation is eager or sdpa, not 'egar'; did you mean 'eager'?"),
        ("norun", 'norun needs its reason: norun="why it is not run"'),
        ("on=", "on needs a value"),
        ("on=a on=b", "option 'on' is given twice"),
        ("continues", "continues nothing: no snippet runs before it"),
    ],
)
def test_options_are_checked(info: str, problem: str) -> None:
    (fence,) = read_document("x.md", f"```python {info}\n1\n```\n").fences
    assert fence.problem == problem
    assert not fence.runs


def test_continues_takes_the_model_of_what_it_continues() -> None:
    text = "```python on=forge\na=1\n```\n\n```python norun='no'\nx\n```\n\n```python continues\na\n```\n"
    first, _, last = read_document("x.md", text).fences
    assert last.on == "forge"
    assert chain([first, last], last) == [first, last]
    other = text.replace("continues", "continues on=other")
    assert "cannot change on" in (read_document("x.md", other).fences[2].problem or "")


def test_comments_in_code_are_no_headings() -> None:
    text = "# Page\n\n## First `name`\n\n```python\n# not a heading\n1\n```\n\n## Second {#two}\n\n```python\n2\n```\n"
    document = read_document("x.md", text)
    assert [(fence.section, fence.slug) for fence in document.fences] == [
        ("First name", "first-name"),
        ("Second", "two"),
    ]
    assert document.sections == ("First name", "Second")


def test_windows_line_endings_keep_the_lines() -> None:
    (fence,) = read_document("x.md", "# T\r\n\r\n```python\r\na = 1\r\nb\r\n```\r\n").fences
    assert (fence.line, fence.code) == (4, "a = 1\nb")


def test_check_notes_says_what_is_missing(tmp_path: Path) -> None:
    page = tmp_path / "notes.md"
    page.write_text("")
    assert "says nothing" in check_notes(page)[0].what
    page.write_text("# T\n\n## One\n\n```python on=forg\n1\n```\n\n```py\n2\n```\n")
    found = check_notes(page, min_sections=2, min_snippets=2, runnables=["forge"], file="families/x/notes.md")
    assert [problem.where for problem in found] == [
        "families/x/notes.md",
        "families/x/notes.md",
        "families/x/notes.md:6",
        "families/x/notes.md:10",
    ]
    assert "did you mean 'forge'?" in found[2].what
    with pytest.raises(SpecError, match=r"gone\.md: cannot be read"):
        fences(tmp_path / "gone.md")


@pytest.mark.parametrize(
    ("info", "near"), [("pyton", "python"), ("pyhton on=forge", "python"), ("jsno", "json"), ("ymal", "yaml")]
)
def test_a_misspelt_language_is_refused_at_its_line(tmp_path: Path, info: str, near: str) -> None:
    """It would be shown as plain text, and Python in it would never run."""
    page = tmp_path / "notes.md"
    page.write_text(f"# T\n\n## One\n\n```{info}\na = 1\n```\n\n```mermaid\n1\n```\n\n```yml\na: 1\n```\n")
    (problem,) = check_notes(page, runnables=["forge"], file="notes.md")
    assert problem.where == "notes.md:5"
    assert problem.what.startswith(f"no language is called {info.split()[0]!r}")
    assert problem.what.endswith(f"; did you mean {near!r}?")
