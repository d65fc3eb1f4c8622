"""Places: where in a recording a tensor is, and in which layout; the other way round from an address to a value."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from nnpedia.draft.recording import Event, Recording
from nnpedia.layout import COPIES, parse_pattern

#: How far two tensors may differ and still be one value, in epsilons of the larger of the two; across loads, whose
#: kernels round otherwise, more.
SAME, ACROSS = 4.0, 512.0


@dataclass(frozen=True)
class Place:
    """Where a value is read, as a spec says it."""

    at: str
    native: str | None = None
    scale: str | None = None
    copies: bool = False


def same(left: Tensor, right: Tensor, epsilons: float = SAME) -> bool:
    """Whether two tensors are one value up to rounding; minus infinity is itself."""
    if left.shape != right.shape or left.is_floating_point() != right.is_floating_point():
        return False
    if torch.equal(left, right):
        return True
    if not left.is_floating_point() or left.numel() == 0:
        return False
    left, right = left.double(), right.double()
    wide = torch.finfo(torch.float32).min / 2
    masked = left <= wide
    if not torch.equal(masked, right <= wide):
        return False
    difference = (left - right).masked_fill(masked, 0).abs().max().item()
    scale = max(left.masked_fill(masked, 0).abs().max().item(), right.masked_fill(masked, 0).abs().max().item())
    return bool(difference <= epsilons * torch.finfo(torch.float32).eps * scale)


@lru_cache(maxsize=512)
def natives(axes: tuple[str, ...], lengths: tuple[int, ...]) -> dict[tuple[int, ...], list[str | None]]:
    """Every native layout of a value by shape: orders of its axes, neighbours merged or not; the plainest first."""
    sizes = dict(zip(axes, lengths, strict=True))
    found: dict[tuple[int, ...], list[str | None]] = {}
    orders = sorted(
        itertools.permutations(axes), key=lambda order: sum(a != b for a, b in zip(order, axes, strict=True))
    )
    for order in orders:
        if "query" in order and order.index("query") > order.index("key"):
            continue  # both have one length, and only one is normed
        for groups in sorted(_merged(order), key=len, reverse=True):
            shape = tuple(_product(sizes, group) for group in groups)
            plain = all(len(group) == 1 for group in groups) and order == axes
            text = " ".join(f"({' '.join(group)})" if len(group) > 1 else group[0] for group in groups)
            found.setdefault(shape, []).append(None if plain else f"{text} -> {' '.join(axes)}")
    return found


def _merged(order: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Every way to merge neighbouring axes."""
    for cuts in itertools.product((True, False), repeat=len(order) - 1):
        groups: list[tuple[str, ...]] = [(order[0],)]
        for axis, cut in zip(order[1:], cuts, strict=True):
            if cut:
                groups.append((axis,))
            else:
                groups[-1] = (*groups[-1], axis)
        yield tuple(groups)


def _product(sizes: Mapping[str, int], group: tuple[str, ...]) -> int:
    length = 1
    for axis in group:
        length *= sizes[axis]
    return length


def laid_out(tensor: Tensor, axes: tuple[str, ...], sizes: Mapping[str, int]) -> Iterator[tuple[str | None, Tensor]]:
    """A tensor as a value with these axes, once for each native layout its shape may be."""
    lengths = tuple(sizes[axis] for axis in axes)
    for native in natives(axes, lengths).get(tuple(tensor.shape), []):
        if native is None:
            yield None, tensor
        else:
            yield native, parse_pattern(native, axes).split(tensor, sizes)


class Finder:
    """Finds the places of tensors in a recording, as addresses from a host.

    Args:
        host: The native path of the module that addresses start from.
        block: Of the block it stands in.
        names: Native path of a module to the standard names on the way to it, where it has some.
    """

    def __init__(self, recording: Recording, host: str, block: str, names: Mapping[str, str]) -> None:
        self.recording, self.host, self.block, self.names = recording, host, block, names
        self.by_size: dict[int, list[Event]] = {}
        for event in recording.places.values():
            if event.module == block or event.module.startswith(f"{block}.") or event.module == host:
                self.by_size.setdefault(event.tensor.numel(), []).append(event)

    def places(
        self, target: Tensor, axes: tuple[str, ...], epsilons: float = SAME, scales: Mapping[str, float] | None = None
    ) -> Iterator[tuple[Event, Place]]:
        """Every place whose tensor, laid out (and scaled), is the target; exact ones as they come."""
        sizes = dict(zip(axes, target.shape, strict=True))
        for event in self.by_size.get(target.numel(), []):
            address = self.address(event)
            if address is None or event.tensor.is_floating_point() != target.is_floating_point():
                continue
            for native, tensor in laid_out(event.tensor, axes, sizes):
                if same(tensor, target, epsilons):
                    yield event, Place(address, native, copies=event.written_over)
                    break
                for formula, factor in (scales or {}).items():
                    if same(tensor * factor, target, epsilons):
                        yield event, Place(address, native, scale=formula)
                        break

    def copied(self, target: Tensor, axes: tuple[str, ...], heads: str, copies: int) -> Iterator[tuple[Event, Place]]:
        """Places that hold every head of the target several times over, side by side."""
        sizes = {**dict(zip(axes, target.shape, strict=True)), COPIES: copies}
        for event in self.by_size.get(target.numel() * copies, []):
            address = self.address(event)
            text = " ".join(f"({axis} {COPIES})" if axis == heads else axis for axis in axes)
            shape = tuple(sizes[axis] * (copies if axis == heads else 1) for axis in axes)
            if address is None or tuple(event.tensor.shape) != shape:
                continue
            pattern = parse_pattern(f"{text} -> {' '.join(axes)}", axes)
            if same(pattern.split(event.tensor, sizes), target):
                yield event, Place(address, pattern.text)

    def address(self, event: Event) -> str | None:
        """The address of an event from this host; `None` where none says it."""
        start, path = self._from(event.module)
        if path is None:
            return None
        operations = "".join(f"@{name}" for name in event.operations)
        index = "".join(f"[{key}]" for key in event.index)
        place = f"{start}{path}{operations}"
        if event.access == "args" and event.index == (0,):
            return None  # the same as `input`
        access = event.access
        return f"{place}.{access}{index}" if path or operations else f"{start}{access}{index}"

    def _from(self, module: str) -> tuple[str, str | None]:
        for start, origin in (("", self.host), ("^", self.block)):
            if module == origin:
                return start, ""
            if module.startswith(f"{origin}."):
                return start, self._named(origin, module)
        return "", None

    def _named(self, origin: str, module: str) -> str:
        """The path below a module in standard names, segment by segment."""
        parts, at, said = module.removeprefix(f"{origin}.").split("."), origin, []
        rest = list(parts)
        while rest:
            for length in range(len(rest), 0, -1):
                path = f"{at}.{'.'.join(rest[:length])}"
                if path in self.names or length == 1:
                    said.append(self.names.get(path, rest[0]))
                    at, rest = path, rest[length:]
                    break
        return ".".join(said)


def resolve(
    address: str, recording: Recording, host: str, block: str, natives_of: Mapping[tuple[str, str], str]
) -> Event | None:
    """What an address names in a recording; `natives_of` maps a module and a standard name to the child's path."""
    from nnpedia.address import parse

    parsed = parse(address)
    module = {"": host, "^": block, "/": ""}[parsed.anchor]
    for child in parsed.children:
        below = f"{module}.{child}" if module else child
        module = natives_of.get((module, child), below)
    access, index = parsed.access, parsed.index
    return recording.at(module, parsed.operations, access, index)
