"""Styles: the files of `site/css` and the lineages' hues, as the one sheet that pages load.

The files are apart by subject for those who write them; a reader's browser asks once.
"""

from __future__ import annotations

from collections.abc import Mapping

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nnpedia import lineages
from nnpedia.lineages import Lineage

SHEET = "css/nnpedia.css"


def join(files: Files, config: MkDocsConfig, kinds: Mapping[str, Lineage]) -> None:
    """Put one sheet in place of the `extra_css` of the site, in their order; hues come last.

    A path that is no file is left as it is, for the link check to tell of.
    """
    parts, left = [], []
    for path in config.extra_css:
        file = files.get_file_from_path(path)
        if file is None:
            left.append(path)
        else:
            parts.append(file.content_string)
            files.remove(file)
    files.append(File.generated(config, SHEET, content="\n".join((*parts, lineages.style(kinds)))))
    config.extra_css = [SHEET, *left]
