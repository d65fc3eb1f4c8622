"""The draft of a spec: what it has to say beside the family it extends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nnpedia.draft.candidates import Candidate, Pair, host_path
from nnpedia.draft.places import Place
from nnpedia.draft.said import Said, order_of, parts_of
from nnpedia.draft.sighting import Sighting
from nnpedia.family import Family
from nnpedia.sizes import axis_sizes, size
from nnpedia.vocabulary import ValueSpec

# -- needs and sizes ------------------------------------------------------------------------------------------------


def needs_of(seen: Sighting, loads: frozenset[str]) -> dict[str, list[str]]:
    """The load options a value is there under, as a spec's `needs:`; empty when every load has it."""
    if len(loads) == len(seen.loads):
        return {}
    needs: dict[str, list[str]] = {}
    for option in next(iter(seen.loads.values())):
        every = list(dict.fromkeys(options[option] for options in seen.loads.values()))
        with_it = [one for one in every if any(seen.loads[label][option] == one for label in loads)]
        if len(with_it) < len(every):
            order = ["eager", "grouped_mm", "batched_mm", "sdpa"]
            needs[option] = sorted(with_it, key=order.index)
    return needs


def sizes_of(seen: Sighting, merged: Family | None, pool: Sequence[Family]) -> dict[str, list[str]]:
    """Formulas for the lengths the base's do not give, found by what numbers the module and the config have."""
    wanted: dict[str, list[tuple[int, Any]]] = {}
    model = seen.trial.model
    for kind in seen.kinds:
        for part, sizes in (
            ("attention", kind.attention),
            ("mlp", kind.feeding),
            ("recurrent", kind.recurrence),
        ):
            sublayer = kind.block.of(part)
            if sizes is None or sublayer is None:
                continue
            for axis, length in sizes.sizes.items():
                if axis in ("batch", "seq"):
                    continue
                wanted.setdefault(axis, []).append((length, model.get_submodule(sublayer.host)))
    config = seen.trial.config
    found: dict[str, list[str]] = {}
    for axis, cases in wanted.items():
        if merged and all(axis_sizes(merged, module, config).get(axis) == length for length, module in cases):
            continue
        pooled = [texts for family in pool if (texts := family.sizes.get(axis))]
        for texts in [seen.vocabulary.axes[axis].size, *pooled, *_formulas(axis, *cases[0], config)]:
            if texts and all(size(texts, module, config) == length for length, module in cases):
                found[axis] = texts
                break
    return found


def _formulas(axis: str, length: int, module: Any, config: Any) -> Iterator[list[str]]:
    given = {k: v for k, v in config.to_dict().items() if type(v) is int and not k.endswith("_id")}
    widths = [
        [f"module.{name}.{side}"]
        for name, child in sorted(module.named_children(), key=lambda one: "proj" not in one[0])
        for side in ("out_features", "in_features")
        if getattr(child, side, None) == length
    ]
    yield from ([f"module.{name}"] for name, value in vars(module).items() if value == length and type(value) is int)
    if axis == "intermediate_size":  # some classes round it up, and a rounded number may be any of the config's
        yield from widths
    yield from ([f"config.{name}"] for name, value in given.items() if value == length)
    yield from widths
    for times in (2, 3, 4):
        yield from ([f"{times} * config.{name}"] for name, value in given.items() if value and value * times == length)


# -- differences from a base ----------------------------------------------------------------------------------------


def differences(seen: Sighting, said: Mapping[Pair, Said], base: Family | None) -> dict[str, dict[str, Any]]:
    """By host, what a spec that extends `base` has to say of values."""
    values: dict[str, dict[str, Any]] = {}
    for (host, name), one in said.items():
        spec = base.values[host][name] if base else seen.vocabulary.values[host][name]
        plain = seen.vocabulary.values[host][name]
        entry = _without_part(spec, plain) if one.absent == "part" else _difference(seen, one, spec)
        if entry is not None:
            values.setdefault(host, {})[name] = entry
    return values


_PARTS = {
    "attention": "an attention",
    "mlp": "a dense MLP",
    "mixture": "a mixture of experts",
    "recurrent": "a recurrence",
}


def _without_part(spec: ValueSpec, plain: ValueSpec) -> dict[str, Any] | None:
    """What to say of a value of a part no block has: a base that says more of it than the vocabulary is undone."""
    if spec.absent is not None or spec == plain:
        return None
    return {"absent": f"no block has {' or '.join(_PARTS.get(part, part) for part in plain.any_of)}"}


def _difference(seen: Sighting, said: Said, spec: ValueSpec) -> dict[str, Any] | None:
    if said.todo is not None:
        return {"todo": said.todo}
    if said.absent is not None:
        return None if spec.absent == said.absent else {"absent": said.absent}
    if said.taken is not None:
        return _taken(said.taken, spec)
    best = said.at
    if best is None:
        return None
    needs = needs_of(seen, best.loads)
    if is_base(said, spec) and _admits(seen, spec, best) and not said.by_class:
        return None
    place = best.place
    entry: dict[str, Any] = {"at": place.at}
    if said.layout is not None and said.layout != spec.layout:
        entry["layout"] = said.layout
    if place.native:
        entry["native"] = place.native
    if place.scale:
        entry["scale"] = place.scale
    if place.copies:
        entry["copy"] = True
    if not _admits(seen, spec, best):
        entry["needs"] = needs
    if said.by_class:
        entry["by_class"] = said.by_class
    return entry


def _taken(taken: ValueSpec, spec: ValueSpec) -> dict[str, Any] | None:
    """What to say so that a value reads as another family says it."""
    if taken == spec:
        return None
    keys = ("layout", "says", "at", "reader", "native", "scale", "copy", "decode", "needs")
    whole = taken.model_dump(exclude_none=True, by_alias=True)
    before = spec.model_dump(exclude_none=True, by_alias=True)
    entry = {key: whole[key] for key in keys if key in whole and (whole[key] or key in ("at", "reader"))}
    for key in ("layout", "says", "needs"):
        if entry.get(key) == before.get(key):
            entry.pop(key, None)
    return entry


def is_base(said: Said, spec: ValueSpec) -> bool:
    """Whether a base's place is the one said, or as good as it."""
    if spec.at is None or not said.choices or (said.layout is not None and spec.layout != said.layout):
        return False
    place = Place(spec.at, spec.native, spec.scale, spec.copies)
    best = said.choices[0]
    return any(one.place == place and one.loads == best.loads for one in said.choices)


def _admits(seen: Sighting, spec: ValueSpec, best: Candidate) -> bool:
    """Whether a base's `needs` allow just the loads that have the value."""
    return {
        label
        for label, options in seen.loads.items()
        if all(options.get(option) in choices for option, choices in spec.needs.items())
    } == best.loads


def prefer_base(said: dict[Pair, Said], base: Family | None) -> None:
    """Put a base's place first wherever it is as good as the best."""
    if base is None:
        return
    for (host, name), one in said.items():
        spec = base.values[host][name]
        if one.at is None or not is_base(one, spec):
            continue
        place = Place(spec.at or "", spec.native, spec.scale, spec.copies)
        one.choices.sort(key=lambda choice: choice.place != place)


def cost(seen: Sighting, said: Mapping[Pair, Said], base: Family | None) -> float:
    """How much a spec that extends `base` has to say."""
    if base is not None and set(base.virtual) - set(seen.names.virtual):
        return float("inf")  # a base's virtual host cannot be undone
    if base is not None and list(base.values["linear_attn"]) != order_of(seen, said) and "recurrent" in parts_of(seen):
        return float("inf")  # nor the order in which its recurrence is reached
    entries = differences(seen, said, base)
    names = name_differences(seen, base)
    total = float(sum(len(table) for table in entries.values()) + sum(len(table) for table in names.values()))
    total += 0.0 if base is None or list(base.parts) == parts_of(seen) else 0.5
    return total + 0.1 * (0 if base is None else 1 + len(base.bases))


def name_differences(seen: Sighting, base: Family | None) -> dict[str, dict[str, str]]:
    """The names a spec has to say, its base's known; a base's name of a module with another role is undone."""
    tables: dict[str, dict[str, str]] = {}
    inherited = base.names if base else {}
    for host, table in seen.names.tables.items():
        own = {native: name for native, name in table.items() if inherited.get(host, {}).get(native) != name}
        if own:
            tables[host] = own
    for host in ("self_attn", "linear_attn", "mlp"):
        plain = any(kind.block.path + f".{host}" == host_path(kind, host) for kind in seen.kinds)
        if plain and any(name == host != native for native, name in inherited.get("layers", {}).items()):
            tables.setdefault("layers", {})[host] = host  # its base has the host under another name
    for host, table in inherited.items():
        for native, name in table.items():
            if native in seen.names.tables.get(host, {}) or "." in native:
                continue
            if native != name and _exists(seen, host, native):
                tables.setdefault(host, {})[native] = native
    return tables


def _exists(seen: Sighting, host: str, native: str) -> bool:
    parents = [""] if host == "model" else [path for kind in seen.kinds if (path := host_path(kind, host))]
    return has_module(seen, parents, native)


def has_module(seen: Sighting, parents: Iterable[str], native: str) -> bool:
    """Whether one of these modules, told by its path, has such a module inside."""
    for parent in parents:
        try:
            seen.trial.model.get_submodule(f"{parent}.{native}" if parent else native)
        except AttributeError:
            continue
        return True
    return False
