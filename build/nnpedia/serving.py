"""Serving: which pages `make serve` need not make again after a file was saved.

A page of the server's is left as it stands on disk when all that it says is what it said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mkdocs.structure.files import File

from nnpedia.kept import digest_of


@dataclass
class Shown:
    """The pages that a server has written, by the digest of what they say."""

    written: dict[str, str] = field(default_factory=dict)
    coming: dict[str, str] = field(default_factory=dict)

    def leave(self, files: Iterable[File], said: Callable[[File], str | bytes]) -> None:
        """Tell MkDocs of each file whether it says what the one on disk says; `said` gives all that a file is of."""
        self.coming = {}
        for file in files:
            digest = digest_of(said(file))
            self.coming[file.src_uri] = digest
            stands = self.written.get(file.src_uri) == digest and os.path.isfile(file.abs_dest_path)
            if not stands:
                self.written.pop(file.src_uri, None)  # a build that fails may have written it
            vars(file)["is_modified"] = lambda stands=stands: not stands

    def done(self) -> None:
        """The build came to its end: what was coming is on disk."""
        self.written, self.coming = self.coming, {}
