"""Kinds: the blocks of one model that differ, what each kind is called, and which blocks have a value."""

from __future__ import annotations

from collections.abc import Sequence

from nnpedia.record import BlockKind, HostFact, Reference, Run, ValueFact


def labels(kinds: Sequence[BlockKind]) -> list[str]:
    """A name for each kind, told from the others by its classes where the config's layer types do not do it.

    Kinds of the same classes are told apart by the modules that some of them lack.
    """
    named = []
    for kind in kinds:
        alike = [{host.native_class for host in other.hosts} for other in kinds if other.name == kind.name]
        shared = set.intersection(*alike)
        own = list(dict.fromkeys(host.native_class for host in kind.hosts if host.native_class not in shared))
        own += _lacking(kind, [other for other in kinds if other.name == kind.name])
        if len(alike) == 1 or not own:
            named.append(kind.name)
        else:
            named.append(" · ".join([*([] if kind.name == "block" else [kind.name]), *own]))
    return named


def _lacking(kind: BlockKind, alike: Sequence[BlockKind]) -> list[str]:
    """What a kind has no module of where others of its classes have one: `without k_proj, v_proj`."""
    held = {host.name: (host.native_class, host.modules) for host in kind.hosts}
    missing = [
        module
        for other in alike
        for host in other.hosts
        if held.get(host.name, ("", {}))[0] == host.native_class
        for module in host.modules.values()
        if module not in held[host.name][1].values()
    ]
    return [f"without {', '.join(dict.fromkeys(missing))}"] if missing else []


def layers_of(record: Reference | Run, fact: ValueFact) -> list[int] | None:
    """The blocks of a record's model that have the value; `None` when every block does.

    A run reads every block. A reference reads the first block of each kind, which speaks for all of its kind.
    """
    if fact.layers is None:
        return None
    read = set(fact.layers)
    if isinstance(record, Run):
        return sorted(read)
    blocks = sorted(layer for kind in record.kinds if read & set(kind.layers) for layer in kind.layers)
    return None if len(blocks) == sum(len(kind.layers) for kind in record.kinds) else blocks


def is_virtual(host: HostFact, hosts: Sequence[HostFact]) -> bool:
    """Whether a host is no module of its own: its values are read on the block."""
    return host.name != "layers" and any(
        other.name == "layers" and other.native_path == host.native_path for other in hosts
    )
