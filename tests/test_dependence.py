"""Which modules a record depends on is told from their imports, so that no change of them is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nnpedia.dependence import modules, without_readers

AFTER = """
import sys
import nnpedia.produce, nnpedia.introspect, nnpedia.checkpoints, nnpedia.model
from nnpedia import StandardizedTransformer
print(*sorted(name for name in sys.modules if name.split(".")[0] == "nnpedia"))
"""


def package(tmp_path: Path, **files: str) -> Path:
    for name, text in {"__init__": "", **files}.items():
        path = tmp_path.joinpath("nnpedia", *name.split("__in__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "nnpedia"


def test_every_spelling_of_an_import_counts(tmp_path: Path) -> None:
    folder = package(
        tmp_path,
        produce="from nnpedia import one\ndef f():\n    import nnpedia.two\n    load('nnpedia.three:name')\n",
        one="from nnpedia.four import x",
        two="from . import five",
        three="if TYPE_CHECKING:\n    from nnpedia.never import x\nelse:\n    from nnpedia.six import x\n",
        four="import nnpedia.inner.seven", five="", six="", never="", pages="", eight="",
    )  # fmt: skip
    (folder / "inner").mkdir()
    (folder / "inner" / "__init__.py").write_text("from nnpedia import eight\n")  # a package runs with what is in it
    (folder / "inner" / "seven.py").write_text("")
    names = {name.removeprefix("nnpedia.") for name in modules(folder)} - {"nnpedia"}
    assert names == {"produce", "one", "two", "three", "four", "five", "six", "inner", "inner.seven", "eight"}


def test_what_a_worker_imports_is_among_them_and_what_shows_facts_is_not() -> None:
    loaded = subprocess.run([sys.executable, "-c", AFTER], capture_output=True, text=True, check=True).stdout.split()
    found = set(modules())
    assert len(loaded) > 20
    assert set(loaded) <= found
    assert not {"nnpedia.pages", "nnpedia.hook", "nnpedia.publish", "nnpedia.cli", "nnpedia.bench"} & found


def test_readers_are_told_from_what_they_share() -> None:
    text = 'X = 1\n\n@reader("a.b", write)\ndef f(host):\n    return 1\n\ndef shared():\n    return 2\n'
    rest, readers = without_readers(text)
    assert readers == {"a.b": '@reader("a.b", write)\ndef f(host):\n    return 1\n'}
    assert "shared" in rest
    assert "return 1" not in rest
