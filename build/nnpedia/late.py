"""Late: what is said of a value that the forward had passed when trace code asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nnsight.intervention.interleaver import Mediator

from nnpedia.errors import ReadTooLate

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting


def too_late(host: Hosting, name: str) -> NoReturn:
    """Raise `ReadTooLate`, while nnsight's own error for the value is handled."""
    if Mediator.current(name).iteration:
        raise  # a loop over steps that outran the run: nnsight ends it with a warning
    raise_late(host, name)


def raise_late(host: Hosting, name: str) -> NoReturn:
    """Raise `ReadTooLate`."""
    asked = host.root.asked.get(id(Mediator.current(name)), [])
    raise ReadTooLate(told_late(host, name, asked[-2] if len(asked) > 1 else None), where=host.place) from None


def told_late(host: Hosting, name: str, before: tuple[Hosting, str] | None) -> str:
    """What to say of a value that the forward had passed, or never reaches, when trace code asked for it."""
    root, passed = host.root, "the forward had passed it or never reaches it"
    if before is None:
        told = f"{name} was asked for, and {passed}"
    else:
        mine, other = f"{host.place}.{name}", f"{before[0].place}.{before[1]}"
        told = f"{name} was asked for after {other}, and "
        late = root.position(host, name) < root.position(*before)
        told += f"the forward reaches it before: read {mine} first, then {other}" if late else passed
    if root.running and root.call().index > 0:
        return f"{told}; outside of `for step in tracer.iter[…]` a value is that of the first forward of the run"
    return f"{told}; model.forward_order() lists the order within a block"
