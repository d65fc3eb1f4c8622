"""Two families as short as they can be, for tests of what surrounds them."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
NOTES = "# Notes\n\n## A\n\n```python\nassert True\n```\n"


def copy_families(folder: Path) -> Path:
    """`llama` and `gpt2`, which extends it, each with two of its checkpoints and a page of notes, in `folder`."""
    for name in ("llama", "gpt2"):
        (folder / name).mkdir(parents=True)
        spec = yaml.safe_load((ROOT / "families" / name / "family.yml").read_text())
        for variant in spec.get("variants", {}).values():
            variant.pop("checkpoint", None)
        short = {"badges": ["rmsnorm"], "checkpoints": spec["checkpoints"][:2], "packages": []}
        base = {} if name == "llama" else {"extends": "llama"}
        text = yaml.safe_dump(spec | short | base, sort_keys=False, width=1000)
        (folder / name / "family.yml").write_text(text)
        (folder / name / "notes.md").write_text(NOTES)
    for name in ("vocabulary.yml", "badges.yml"):
        shutil.copy(ROOT / "families" / name, folder)
    return folder
