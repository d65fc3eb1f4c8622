"""What the site offers besides its pages, for programs and for other tools."""

from __future__ import annotations

from collections.abc import Mapping

from nnpedia.badges import Badge
from nnpedia.entry import Entry
from nnpedia.reuse import api, openapi


def files(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> dict[str, str]:
    """Every file the site offers besides its pages: path from the site's root, and content."""
    return {
        **api.files(entries, badges),
        f"{api.ROOT}/openapi.json": openapi.description(),
    }
