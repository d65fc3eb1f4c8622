"""Serving: which pages `make serve` need not make again after a file was saved.

A page of the server's is left as it stands on disk when all that it says is what it said.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mkdocs.structure.files import File


@dataclass
class Shown:
    """The pages that a server has written, by the digest of what they say."""

    written: dict[str, str] = field(default_factory=dict)
    coming: dict[str, str] = field(default_factory=dict)

    def leave(self, files: Iterable[File], said: Callable[[File], str]) -> None:
        """Tell MkDocs of each page whether it says what the one on disk says; `said` gives all that a page is of."""
        self.coming = {}
        for file in files:
            digest = hashlib.sha256(said(file).encode()).hexdigest()
            self.coming[file.src_uri] = digest
            stands = self.written.get(file.src_uri) == digest and os.path.isfile(file.abs_dest_path)
            vars(file)["is_modified"] = lambda stands=stands: not stands

    def done(self) -> None:
        """The build came to its end: what was coming is on disk."""
        self.written, self.coming = self.coming, {}
