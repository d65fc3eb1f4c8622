"""Devices: where weights go when they load."""

from __future__ import annotations

from typing import Any

from nnpedia.errors import ModelError


def accelerator() -> str | None:
    """The kind of accelerator there is, such as `"cuda"`; `None` where there is none."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None else found.type


def usable(device: Any) -> Any:
    """A device that is there: `"auto"` is the accelerator if there is one, else the processor.

    Raises `ModelError` for an accelerator that is not there and for a name that is none.
    """
    import torch

    if device == "auto":
        return accelerator() or "cpu"
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise ModelError(f"there is no device {device!r}; there is 'cpu', 'cuda' and 'auto'") from None
    if kind == "meta":
        raise ModelError(
            "on the device 'meta' weights hold no numbers: leave device out, for nothing loads before the first trace, "
            "and model.scan(prompt) tells shapes without weights"
        )
    if kind != "cpu" and kind != accelerator():
        there = accelerator() or "none"
        raise ModelError(f"the device {str(device)!r} is not there (accelerators here: {there}); 'auto' takes what is")
    return device
