"""A family that tries to run something in its reader's browser is shown as the text it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import sample_records as samples
import yaml
from browsing import ROOT, Visiting, browser, site, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]
__all__ = ["browser", "site", "visiting"]

SCRIPT = "<script>window.harm = 1</script>"
TRICKS = f'{SCRIPT}<img src=x onerror="window.harm=1">"\'><svg onload=window.harm=1>{{{{ 7 * 191 }}}}{{% raw %}}</code>'
NOTES = f"""# {TRICKS}

## {TRICKS}

{TRICKS} [a link](javascript:window.harm=1) [another](data:text/html,x) ![image](x "onerror=window.harm=1")
{{: onclick="window.harm=1" style="color: red" }}

`{TRICKS}`

| {TRICKS} | b |
|---|---|
| <iframe srcdoc="<script>parent.harm=1</script>"> | {TRICKS} |

```python
print("{SCRIPT}")
```
"""


def write_family(folder: Path) -> None:
    spec = {
        "family": "hostile", "extends": "llama", "title": f"Hostile {TRICKS}", "subtitle": TRICKS,
        "architecture": f"Hostile{SCRIPT}", "badges": ["rmsnorm"],
        "about": f"About {TRICKS} [a link](javascript:window.harm=1)",
        "checkpoints": [{"id": "some-body/hos_tile", "note": TRICKS, "config": {"hidden_act": TRICKS}}],
        "names": {"mlp": {f"gate{SCRIPT}": "up_proj"}},
        "values": {"mlp": {"router_logits": {"absent": TRICKS}}, "self_attn": {"attention_output": {"says": TRICKS}}},
        "laws": {"mlp": {"combination": {"exception": TRICKS}}},
    }  # fmt: skip
    folder.mkdir()
    (folder / "family.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    (folder / "notes.md").write_text(NOTES)


def harmed(made: Any) -> Any:
    """The sample records of a family, with markup wherever a record holds a text."""
    facts = []
    for fact in made.facts:
        origin = fact.origin.model_copy(update={"detail": TRICKS})
        rows = [row.model_copy(update={"value": TRICKS}) for row in fact.config]
        values = [value.model_copy(update={"words": TRICKS, "native": TRICKS}) for value in fact.values]
        change = {"printout": f"{TRICKS}\n({TRICKS}): {TRICKS}", "origin": origin, "config": rows, "values": values}
        if fact.kind == "run":
            change["snippets"] = [snippet.model_copy(update={"output": TRICKS}) for snippet in fact.snippets]
            change["prompt"] = TRICKS
        facts.append(fact.model_copy(update=change))
    return type(made)(
        made.family, made.spec, made.notes, made.notes_file,
        [fact for fact in facts if fact.kind == "reference"], [fact for fact in facts if fact.kind == "run"],
    )  # fmt: skip


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site with one family more, which means harm."""
    from nnpedia.publish import publish

    root = tmp_path_factory.mktemp("hostile")
    shutil.copytree(ROOT / "families", root / "families")
    (root / "site").symlink_to(ROOT / "site")
    write_family(root / "families" / "hostile")
    home = root / "home"
    samples.write_built(home, root)
    samples.write_records(home, harmed(samples.entry(root / "families" / "hostile")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNPEDIA_HOME", str(home))
        patch.setenv("NNPEDIA_FAMILIES", str(root / "families"))
        publish(ROOT, root / "public")
    return root / "public"


def test_nothing_that_a_family_says_runs(visiting: Visiting) -> None:
    visit = visiting()
    dialogs: list[str] = []
    visit.page.on("dialog", lambda each: (dialogs.append(each.message), each.dismiss()))
    for path in ("families/hostile", "families", "matrix", "values", "readers", "."):
        page = visit.open(path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.wait_for_timeout(50)
        assert page.evaluate("window.harm") is None, path
        assert "1337" not in page.content(), path
        found = page.evaluate(
            "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on')))"
            ".map(e => e.outerHTML.slice(0, 200))"
        )
        assert found == [], path
    assert dialogs == []
    shown = visit.open("families/hostile").inner_text("body")
    assert shown.count(SCRIPT) >= 5  # it is there, to be read
