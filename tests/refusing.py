"""What a test of wrong use asks of an error: the library's own, in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refused(kind: type[Exception], ask: Callable[[], Any]) -> str:
    """The one line of an error that is the library's own."""
    with pytest.raises(kind) as caught:
        ask()
    assert type(caught.value).__module__.startswith("nnpedia.")
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text
