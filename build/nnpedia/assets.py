"""Assets: what pages load, as few and as small files as they need.

Styles are in files by subject for those who write them; a reader's browser asks for one sheet. The
theme's source maps, and its stemmers of other languages, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nnpedia import lineages
from nnpedia.lineages import Lineage

SHEET = "css/nnpedia.css"
_UNUSED = re.compile(r"^assets/.*\.map$|^assets/javascripts/lunr/")
_MAPPED = re.compile(r"\n?(?://|/\*)# sourceMappingURL=\S+(?: \*/)?\s*$")


def join_styles(files: Files, config: MkDocsConfig, kinds: Mapping[str, Lineage]) -> None:
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


def leave_out(files: Files, config: MkDocsConfig) -> None:
    """Take away what no page loads, and the theme's mention of its source maps."""
    for file in list(files):
        if _UNUSED.search(file.src_uri):
            files.remove(file)
        elif file.src_uri.startswith("assets/") and file.src_uri.endswith((".js", ".css")):
            text = _MAPPED.sub("", file.content_string)
            files.remove(file)
            files.append(File.generated(config, file.src_uri, content=text))
