"""Introspection: from a family and a checkpoint to a record of facts."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nnpedia.address import in_words, parse
from nnpedia.family import Family, PublicCheckpoint

from nnpedia.model import StandardizedTransformer  # isort: skip  (nnsight before transformers' models)

import torch

from nnpedia import verify
from nnpedia.device import usable
from nnpedia.errors import CheckpointError, NnpediaError, Unavailable, one_line
from nnpedia.holding import PATHS
from nnpedia.layout import expect
from nnpedia.observe import host_at, scan, spots_of
from nnpedia.printout import native_children
from nnpedia.record import BlockKind, ConfigRow, HostFact, Origin, Problem, Reference, Run, ValueFact, Versions
from nnpedia.sizes import block_sizes
from nnpedia.snippets import PROMPT
from nnpedia.support import probing
from nnpedia.versions import installed

if TYPE_CHECKING:
    from nnpedia.checkpoints import Runnable


#: Config keys of transformers' own bookkeeping, which say nothing of the architecture.
_BOOKKEEPING = {"transformers_version", "_name_or_path", "name_or_path", "model_type", "torch_dtype", "use_cache"}


def versions() -> Versions:
    names = ("nnpedia", "torch", "transformers", "nnsight")
    return Versions(python=platform.python_version(), **{name: installed(name, "source") for name in names})


# -- the full-size reference, without weights ---------------------------------------------------


def reference(family: Family, checkpoint: PublicCheckpoint) -> Reference:
    """A public checkpoint from its config: sizes, printout, and every value's real shape, on meta."""
    from nnpedia.checkpoints import reference_config
    from nnpedia.checkpoints.forge import UNBUILT

    config = reference_config(family, checkpoint)
    try:
        bare = weightless(config, checkpoint.dtype)
    except UNBUILT as error:
        why = f"no model is built with the config of {checkpoint.id}: {one_line(error)}"
        raise CheckpointError(why, where=family.where("checkpoints", "", checkpoint.id)) from None
    model = StandardizedTransformer(bare, families=family.folder.parent)
    family = model.family  # with the variants that this config has
    kinds = block_kinds(model)
    spots = spots_of(model, [kind.layers[0] for kind in kinds])
    with probing(model):
        found = scan(model, spots, torch.zeros(1, 8, dtype=torch.long))
    problems: list[Problem] = []
    values = []
    for host, name in _names(family):
        shapes = {spot: value for spot, value in found.items() if spot[1:] == (host, name)}
        values.append(_value(family, host, name, shapes))
        problems += [
            Problem(where=family.where("values", host, name), what=f"{checkpoint.id} at full size: {what}")
            for what in shape_problems(model, shapes, {"batch": 1, "seq": 8, "query": 8, "key": 8})
        ]
    return Reference(
        family=family.family,
        versions=versions(),
        origin=Origin(
            name=checkpoint.id,
            id=checkpoint.id,
            source="meta",
            detail="Built from its config without weights; shapes come from a weightless forward of 8 tokens.",
            dtype=checkpoint.dtype,
            config_origin=checkpoint.origin,
        ),
        architecture=type(model._module).__name__,
        sizes=sizes(model),
        parameters=sum(parameter.numel() for parameter in model._module.parameters()),
        config=config_rows(config, checkpoint.config, checkpoint.origin),
        printout=repr(model),
        kinds=kinds,
        root=root_facts(model),
        values=values,
        problems=problems,
    )


def weightless(config: Any, dtype: str) -> torch.nn.Module:
    """The model of a config on the meta device: structure, no storage."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype), attn_implementation="eager")
    return module.eval()


# -- a checkpoint that runs here ----------------------------------------------------------------


def run(family: Family, runnable: Runnable, device: str = "cpu") -> Run:
    """Everything a checkpoint's weights can tell: probes, laws, writes, and the notes' snippets."""
    load = loader(family, usable(device))
    model = load({}, runnable.name)
    snippets = verify.notes(family, runnable, load, PROMPT)
    family = model.family  # with the variants that this config has
    checked = verify.verify(family, lambda options: load(options, runnable.name), PROMPT)
    return Run(
        family=family.family,
        versions=versions(),
        origin=Origin(
            name=runnable.name,
            id=runnable.id,
            source=runnable.source,
            detail=runnable.detail if device == "cpu" else f"{runnable.detail} It ran on {device}.",
            dtype=runnable.dtype,
            config_origin=runnable.config_origin,
        ),
        architecture=type(model._module).__name__,
        sizes=sizes(model),
        parameters=sum(parameter.numel() for parameter in model._module.parameters()),
        config=config_rows(model._module.config, {}, runnable.config_origin),
        printout=repr(model),
        kinds=block_kinds(model),
        root=root_facts(model),
        prompt=PROMPT,
        loads=checked.loads,
        values=[_value(family, host, name, checked.shapes, checked) for host, name in _names(family)],
        laws=checked.laws,
        snippets=snippets,
        problems=[
            *config_problems(family, runnable, model),
            *checked.problems,
        ],
    )


def config_problems(family: Family, runnable: Runnable, model: StandardizedTransformer) -> Iterator[Problem]:
    """Every setting in which a checkpoint opened on the Hub differs from what the spec says of it."""
    from nnpedia.checkpoints import reference_config

    if runnable.source != "hub":
        return
    checkpoint = next(each for each in family.checkpoints if each.id == runnable.name)
    said, real = reference_config(family, checkpoint).to_dict(), model._module.config.to_dict()
    for key in sorted({*said, *real} - _BOOKKEEPING - {"architectures", "dtype"}):
        if not key.startswith("_") and plain(said.get(key)) != plain(real.get(key)):
            yield Problem(
                where=family.where("checkpoints", "", checkpoint.id),
                what=f"{checkpoint.id}: {key} is {plain(real.get(key))!r} on the Hub, {plain(said.get(key))!r} here",
            )


Loader = Callable[[dict[str, str], str | None], Any]


def loader(family: Family, device: str = "cpu") -> Loader:
    """`load(options, runnable name or None) -> model`, on a device; each (options, name) is loaded once.

    A load that asks for what the default one runs anyway is that one, and all of a name share one tokenizer: reading
    it takes longer than reading the weights where the vocabulary is large.
    """
    from nnpedia.checkpoints import materialize, runnables

    known = {runnable.name: runnable for runnable in runnables(family, hub=True)}

    @lru_cache(maxsize=5)  # of a mixture's six loads the default one and four more, that of the writes among them
    def cached(options: tuple[tuple[str, str], ...], name: str) -> StandardizedTransformer:
        if name not in known:
            raise NnpediaError(
                f"{family.family} has no runnable checkpoint {name!r}; it has {', '.join(known)}",
                where=str(family.notes.name),
            )
        chosen: dict[str, Any] = {**dict(options), "device": device}
        if options:
            default = cached((), name)
            if dict(options).items() <= default.load_options().items():
                return default
            chosen["tokenizer"] = default.tokenizer
        folder = materialize(known[name], family)
        model = StandardizedTransformer(folder, families=family.folder.parent, **chosen)
        model.dispatch()
        return model

    def load(options: dict[str, str], name: str | None = None) -> StandardizedTransformer:
        return cached(tuple(sorted(options.items())), name or next(iter(known)))

    return load


def page_loader() -> Loader:
    """The loader of pages outside a family: their snippets say themselves what they load."""

    def load(options: dict[str, Any], name: str | None = None) -> Any:
        return None if name is None else StandardizedTransformer(name, **options)

    return load


# -- facts about a model ------------------------------------------------------------------------


def sizes(model: StandardizedTransformer) -> dict[str, int]:
    """Axis (and `num_layers`) to length."""
    lengths = model.lengths()
    return {name: lengths[name] for name in ["num_layers", *model.family.vocabulary.axes] if name in lengths}


def root_facts(model: StandardizedTransformer) -> list[HostFact]:
    module, names = model._module, model.family.names.get("model", {})
    native = type(module).__name__
    modules = native_children(module, names)
    return [HostFact(name="model", path="model", native_class=native, native_path=model.path, modules=modules)]


def block_kinds(model: StandardizedTransformer) -> list[BlockKind]:
    """The blocks grouped by the modules they hold and by the config's layer type, in order of appearance."""
    types = getattr(model.text_config, "layer_types", None) or []
    groups: dict[tuple[Any, ...], list[int]] = {}
    for layer in range(model.num_layers):
        kind = types[layer] if layer < len(types) else "block"
        held = ((host.module, dict(host.module.named_children())) for _, host in _hosts(model, layer))
        groups.setdefault((kind, *((type(module).__name__, *names) for module, names in held)), []).append(layer)
    lengths = model.lengths()
    return [
        BlockKind(
            name=str(key[0]),
            layers=layers,
            hosts=list(_host_facts(model, layers[0])),
            sizes={
                axis: length for axis, length in block_sizes(model, layers[0]).items() if lengths.get(axis) != length
            },
        )
        for key, layers in groups.items()
    ]


def _hosts(model: StandardizedTransformer, layer: int) -> Iterator[tuple[str, Any]]:
    for host in PATHS:
        if (envoy := host_at(model, layer, host)) is not None:
            yield host, envoy


def _host_facts(model: StandardizedTransformer, layer: int) -> Iterator[HostFact]:
    for host, envoy in _hosts(model, layer):
        named = "layers" if host in model.family.virtual else host
        yield HostFact(
            name=host,
            path=model.family.vocabulary.hosts[host].path,
            native_class=type(envoy.module).__name__,
            native_path=envoy.path.removeprefix("model."),
            modules=native_children(envoy.module, model.family.names.get(named, {})),
        )


def config_rows(config: Any, stated: dict[str, Any], origin: str) -> list[ConfigRow]:
    """The architecture's settings: those that differ from transformers' generic ones, or are stated."""
    from transformers import PretrainedConfig

    generic = PretrainedConfig().to_dict()
    rows = []
    for key, value in sorted(config.to_dict().items()):
        if key in _BOOKKEEPING or key.startswith("_"):
            continue
        if key in stated or (key not in generic and value is not None) or (key in generic and value != generic[key]):
            rows.append(ConfigRow(key=key, value=plain(value), origin=origin if key in stated else "defaults"))
    return rows


def plain(value: Any) -> Any:
    """A config value as JSON data."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _names(family: Family) -> list[tuple[str, str]]:
    return [(host, name) for host, table in family.values.items() for name in table]


def _value(
    family: Family, host: str, name: str, shapes: dict[Any, Any], checked: verify.Checked | None = None
) -> ValueFact:
    spec = family.values[host][name]
    own = {spot: value for spot, value in shapes.items() if spot[1:] == (host, name)}
    shape, dtype = next((value for value in own.values() if isinstance(value, tuple)), (None, None))
    have = [spot[0] for spot, value in own.items() if not isinstance(value, Exception)]
    some = host != "model" and 0 < len(have) < len(own)
    write = checked.writes.get((host, name)) if checked else None
    return ValueFact(
        host=host, name=name, layout=spec.layout, axes=list(family.axes(spec)), description=spec.says,
        address=spec.at, reader=spec.reader, words=None if spec.at is None else in_words(parse(spec.at)),
        native=spec.native, source=family.where("values", host, name), absent=spec.absent,
        readable=checked.readable.get((host, name), {}) if checked else {},
        reasons=checked.reasons.get((host, name), {}) if checked else {},
        layers=sorted(layer for layer in have if layer is not None) if some else None,
        shape=None if shape is None else list(shape), dtype=dtype,
        assignable=bool(write and write.assignable) if checked else spec.at is not None,
        causal=write.causal if write else None, in_place=write.in_place if write else None,
    )  # fmt: skip


def shape_problems(model: StandardizedTransformer, shapes: dict[Any, Any], call: dict[str, int]) -> Iterator[str]:
    """One sentence for each value that is not where it should be, or whose shape is not its layout's."""
    for spot, value in shapes.items():
        spec = model.family.values[spot[1]][spot[2]]
        if isinstance(value, Exception):
            if not (isinstance(value, Unavailable) and (spec.needs or value.layers)):
                yield str(value)
            continue
        if not isinstance(value, tuple):
            continue
        host = host_at(model, spot[0], spot[1])
        lengths = {**call, **(host.axis_sizes() if host is not None else {})}
        try:
            expect(spot[2], spec.layout, model.family.axes(spec), value[0], lengths)
        except NnpediaError as error:
            yield error.message
