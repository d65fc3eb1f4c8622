"""Values: the descriptor that reads and assigns one standard value on a live model.

Reading parks the trace until the forward reaches the value's place, takes the tensor out of the
call's inputs or output, and lays it out as the vocabulary says. Assigning goes the same way back.
Rows of several prompts are cut here when the model merges them into one leading axis; nnsight cuts
them wherever the batch leads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from nnsight.intervention.eproperty import WriteBack
from nnsight.intervention.interleaver import Mediator, OutOfOrderError
from torch import Tensor

from nnpedia.containers import keys_of, refuses_edits, replaced, shares
from nnpedia.entryspec import ValueSpec
from nnpedia.errors import LayoutError, OutsideTrace, ReadOnly, Unavailable
from nnpedia.fitting import check_range, fitting
from nnpedia.late import too_late
from nnpedia.layout import Pattern, parse_pattern
from nnpedia.locating import Located
from nnpedia.readers import READERS
from nnpedia.steps import awaited, served
from nnpedia.watched import watch

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting
    from nnpedia.model import StandardizedTransformer


@dataclass(frozen=True)
class Rows:
    """Which rows of the call a piece of trace code sees: `size` of `batch`, from `start`."""

    start: int
    size: int
    batch: int

    @property
    def all(self) -> bool:
        return self.size == self.batch


class Value(Located):
    """A standard value as an attribute of its host.

    Reading gives a tensor in the value's layout; what it raises: `OutsideTrace`, `Unavailable`
    (with the reason, and the load that would give it), `ReadTooLate`. Assigning raises those, and
    `ReadOnly` or `LayoutError`.
    """

    def __init__(self, name: str, spec: ValueSpec, axes: tuple[str, ...], pattern: Pattern | None) -> None:
        super().__init__(name, spec)
        self.axes, self.pattern = axes, pattern
        decoded = spec.decoded
        split = None if decoded is None or decoded.native is None else parse_pattern(decoded.native, axes)
        #: The value in a call of one token that continues a cache, where it has another place there.
        self.decoded = None if decoded is None else Value(name, decoded, axes, split)
        if self.decoded is not None:
            self.decoded.always = False
        #: The value on hosts of another native class, where it has another place there.
        self.by_class = {
            kind: Value(name, spec.model_copy(update={"at": at, "by_class": {}}), axes, pattern)
            for kind, at in spec.by_class.items()
        }
        #: Whether some hosts, or some calls, have the value in another place.
        self.moves = bool(self.by_class) or self.decoded is not None
        #: Whether what the call holds there is the value as it stands.
        self.plain = pattern is None and spec.scale is None and not spec.copies
        self.__doc__ = f"{spec.layout} [{' '.join(axes)}]: {spec.says}."

    def __get__(self, host: Hosting | None, owner: type | None = None) -> Any:
        if host is None:
            return self
        try:
            here = self.here(host) if self.moves else self
            if not host.derives:
                return here._read(host)
            host.prepare(self.name)
            value = here._read(host)
            host.keep(self.name, value)
            return value
        except OutOfOrderError:
            too_late(host, self.name)
        except AttributeError as error:
            raise Unavailable(self.name, f"{error}", where=host.place) from error

    def __set__(self, host: Hosting, value: Any) -> None:
        try:
            self.here(host)._write(host, value)
            host.keep(self.name, value)
        except OutOfOrderError:
            too_late(host, self.name)
        except AttributeError as error:
            raise Unavailable(self.name, f"{error}", where=host.place) from error

    # -- reading and writing ------------------------------------------------------------------

    def here(self, host: Hosting) -> Value:
        """The value as the running call has it: a call of one token more may compute it in another place."""
        if self.by_class:
            return self.by_class.get(type(host.module).__name__, self)
        if self.decoded is None or not host.interleaver.interleaving:
            return self
        return self.decoded if host.root.step().decodes else self

    def _read(self, host: Hosting) -> Any:
        root = host.root
        mediator = self._enter(host, root)
        if self.address is None:
            known = READERS[str(self.spec.reader)]
            worked_out = known.read(host)
            if known.write is None:
                watch(mediator, worked_out, partial(self._refuse, host, "an edit in place changes nothing"))
            return worked_out
        location = host.places.get(self) or self.locate(host)
        waiting = mediator.transform
        if waiting is not None and waiting.key == (self, location, mediator.wanted(location)):
            return waiting.view
        raw = awaited(root, mediator, location)
        view, native, rows = self.handed(host, root, raw)
        if view is not native and (view.requires_grad or not shares(view, native)):
            # An in-place edit of a copy would be lost, and a view the model does not go on with gets no
            # gradient: so what was handed out goes back when the trace moves on.
            before = view.clone() if view.is_inference() else view._version  # no edits are counted in inference mode
            back = partial(self._back, host, raw, native, view, rows, before)
            mediator.transform = WriteBack(back, view, self, location, mediator.wanted(location))
        if self.spec.indexes is not None:
            watch(mediator, view, partial(check_range, self, host, view))
        return view

    def handed(self, host: Hosting, root: StandardizedTransformer, raw: Any) -> tuple[Tensor, Tensor, Rows | None]:
        """What a reader gets of a call's raw inputs or output, the tensor there, and the rows it was cut to."""
        native = raw if self.whole and isinstance(raw, Tensor) else self.take(host, raw)
        view, rows = (native, None) if self.plain else self._split(host, native)
        asks = view.requires_grad
        if (asks and refuses_edits(view)) or root.overwrites(view):
            view = view.clone()
        elif asks and self._address.access != "output":
            view = view.view_as(view)  # others may read the same tensor: its gradient here is that of this call only
        return view, native, rows

    def _back(
        self, host: Hosting, raw: Any, native: Tensor, view: Tensor, rows: Rows | None, before: Tensor | int
    ) -> Any:
        """The raw call with what was handed out put back; as it was when nothing edited it and no gradient is asked."""
        same = torch.equal(view, before) if isinstance(before, Tensor) else view._version == before
        return raw if same and not view.requires_grad else self._repacked(host, raw, native, view, rows)

    def _write(self, host: Hosting, value: Any) -> None:
        root = host.root
        mediator = self._enter(host, root)
        if self.address is None:
            write = READERS[str(self.spec.reader)].write
            if write is None:
                self._refuse(host, "it cannot be assigned")
            write(host, value)
            return
        location = self.locate(host)
        raw = awaited(root, mediator, location)
        native = self.take(host, raw)
        current, rows = self._split(host, native)
        value = fitting(self, host, value, current)
        if self.spec.scale is not None and torch.equal(value, current):
            return  # scaling there and back rounds; a value assigned to itself changes nothing
        Mediator.swap(location, self._repacked(host, raw, native, value, rows))

    def _refuse(self, host: Hosting, why: str) -> NoReturn:
        told = f"{self.name} is derived from other values, and {why}: edit what it is made of, or a clone"
        raise ReadOnly(told, where=host.place)

    def _enter(self, host: Hosting, root: StandardizedTransformer) -> Mediator:
        if not host.interleaver.interleaving:
            raise OutsideTrace(
                f"{self.name} exists only while the model runs: read it inside `with model.trace(prompt):`",
                where=host.place,
            )
        if self.conditional:
            self.check_declared(host)
        mediator = Mediator.current(f"{host.path}.{self.name}")
        root.asked.setdefault(id(mediator), []).append((host, self.name))
        return mediator

    def _repacked(self, host: Hosting, raw: Any, native: Tensor, value: Tensor, rows: Rows | None) -> Any:
        """The call's raw inputs or output with this value in its place."""
        if self.spec.copies:
            value = value.clone()  # the model writes over its own tensor, not over the one in the reader's hands
        if self.spec.scale is not None:
            value = value / host.number(self.spec.scale)
        if self.pattern is not None:
            if rows is not None:
                whole = self.pattern.split(native, self._sizes(host, rows.batch))
                pieces = (whole[: rows.start], value, whole[rows.start + rows.size :])
                value = torch.cat(pieces, dim=0)
            value = self.pattern.merge(value, native)
        return replaced(raw, keys_of(self._address, raw), value)

    # -- laying out ---------------------------------------------------------------------------

    def _split(self, host: Hosting, native: Tensor) -> tuple[Tensor, Rows | None]:
        """The tensor in standard layout, and the rows it was cut to when they were cut here."""
        view, rows = (native, None) if self.pattern is None else self._rearranged(host, native, self.pattern)
        if self.spec.scale is not None:
            view = view * host.number(self.spec.scale)
        elif self.spec.copies:
            view = view.clone()
        return view, rows

    def _rearranged(self, host: Hosting, native: Tensor, pattern: Pattern) -> tuple[Tensor, Rows | None]:
        try:
            if not pattern.mixes_rows:
                return pattern.split(native, self._sizes(host, None)), None
            rows = host.root.rows()
            sizes = self._sizes(host, None)
            inner = math.prod(sizes[axis] for axis in pattern.native[0] if axis != "batch")
            held = native.shape[0] // max(inner, 1)
            view = pattern.split(native, self._sizes(host, held))
        except (RuntimeError, KeyError, ValueError) as error:
            raise LayoutError(
                f"{self.name} cannot be laid out: the tensor {list(native.shape)} does not fit "
                f"{pattern.text!r} ({str(error).splitlines()[0]})",
                where=host.place,
            ) from None
        if rows.all or held != rows.batch:
            return view, None
        return view[rows.start : rows.start + rows.size], rows

    def _sizes(self, host: Hosting, batch: int | None) -> dict[str, int]:
        sizes = {**host.root.call_sizes(), **host.axis_sizes()}
        if batch is None:
            sizes.pop("batch", None)
        else:
            sizes["batch"] = batch
        return sizes


@cache
def place_value(address: str, native: str | None, layout: tuple[str, ...]) -> Value:
    """A value without a name, for readers that read a place."""
    spec = ValueSpec(layout="scalar", says=address, at=address)
    pattern = None if native is None else parse_pattern(native, layout)
    return Value(address, spec, layout, pattern)


def raw_at(host: Hosting, address: str) -> Any:
    """Whatever a place holds, tensor or not."""
    value = place_value(address, None, ())
    raw: Any = served(host, value.locate(host))
    for key in keys_of(value._address, raw):
        raw = raw[key]
    return raw
