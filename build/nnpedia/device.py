"""Devices: where weights go when they load."""

from __future__ import annotations

from typing import Any

from nnpedia.errors import ModelError

#: What a `device_map` may say in place of a device: accelerate's ways to share the modules out, and its store on disk.
SHARED_OUT = ("auto", "balanced", "balanced_low_0", "sequential", "disk", "meta")


def accelerator() -> str | None:
    """The kind of accelerator there is, such as `"cuda"`; `None` where there is none."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None else found.type


def placed(device_map: Any) -> None:
    """Raise `ModelError` for a `device_map` that names a device which is not there; ways to share out pass."""
    import torch

    for name in device_map.values() if isinstance(device_map, dict) else [device_map]:
        if isinstance(name, int):
            usable(torch.device(accelerator() or "cuda", name))
        elif isinstance(name, torch.device) or (isinstance(name, str) and name not in SHARED_OUT):
            usable(name)


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
    index = torch.device(device).index
    if kind != "cpu" and index is not None and index >= torch.accelerator.device_count():
        raise ModelError(f"the device {str(device)!r} is not there: there are {torch.accelerator.device_count()}")
    return device
