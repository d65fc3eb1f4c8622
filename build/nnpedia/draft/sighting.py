"""A sighting: everything seen of one model, block kind by block kind, and the tensor each value is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from nnpedia.draft.block import see_block
from nnpedia.draft.candidates import Candidate, Pair, candidates_of
from nnpedia.draft.feeding import Feeding, see_feeding
from nnpedia.draft.mixing import Attention, see_attention
from nnpedia.draft.naming import Names, names_of
from nnpedia.draft.places import Place
from nnpedia.draft.recording import Recording, record
from nnpedia.draft.recurring import Recurrence, see_recurrence
from nnpedia.draft.sublayers import is_pattern, last_projection
from nnpedia.draft.tree import Block, Containers, Sublayer, containers
from nnpedia.draft.trial import Trial, tokens, under
from nnpedia.vocabulary import Vocabulary

ATTENTION = ("eager", "sdpa")
EXPERTS = ("eager", "batched_mm", "grouped_mm")


@dataclass
class Kind:
    """A block that stands for all of its kind, and what was seen in it."""

    layers: list[int]
    block: Block
    attention: Attention | None = None
    feeding: Feeding | None = None
    recurrence: Recurrence | None = None
    targets: dict[Pair, list[Tensor]] = field(default_factory=dict)
    candidates: dict[Pair, dict[Place, Candidate]] = field(default_factory=dict)


@dataclass
class Sighting:
    """What was seen of a model."""

    trial: Trial
    vocabulary: Vocabulary
    containers: Containers
    recordings: dict[str, Recording]
    kinds: list[Kind]
    names: Names
    scales: dict[str, float]
    loads: dict[str, dict[str, str]]

    @property
    def first(self) -> Recording:
        return next(iter(self.recordings.values()))

    def kinds_with(self, role: str) -> list[Kind]:
        return [kind for kind in self.kinds if kind.block.of(role) is not None]


def see(trial: Trial, vocabulary: Vocabulary) -> Sighting:
    """Run the trial model under every load and work out what each block does."""
    recordings: dict[str, Recording] = {}
    loads = loads_of(trial.model)
    for label, options in loads.items():
        recordings[label] = record(under(trial, options), tokens())
    first = next(iter(recordings.values()))
    around = containers(trial.model, first)
    scales = scales_of(trial.config)
    kinds = []
    for layers in _kinds(trial, around):
        block = see_block(trial.model, first, f"{around.layers}.{layers[0]}", layers[0], scales)
        kind = Kind(layers, block)
        if attention := block.of("attention"):
            kind.attention = see_attention(trial.model, first, block, attention, scales)
        if mlp := block.of("mlp"):
            kind.feeding = see_feeding(trial.model, recordings, first, block, mlp, scales)
        if recurrent := block.of("recurrent"):
            kind.recurrence = see_recurrence(first, trial.model.get_submodule(recurrent.host), recurrent.host)
        if kind.attention is None and any(is_pattern(event, *tokens().shape) for event in first.within(block.path)):
            block.why = "an attention pattern was seen in a block, and no sublayer that adds what it gives"
            block.left_out["attention"] = block.why
        kinds.append(kind)
    _part_clashing(kinds)
    names = names_of(trial.model, first, around, [(k.block, k.attention, k.feeding) for k in kinds])
    seen = Sighting(trial, vocabulary, around, recordings, kinds, names, scales, loads)
    for kind in kinds:
        _targets(seen, kind)
        for pair, targets in kind.targets.items():
            kind.candidates[pair] = candidates_of(seen, kind, pair, targets)
    return seen


_CALLED = {"attention": "attention", "recurrent": "recurrent mixer", "mlp": "MLP"}


def _part_clashing(kinds: list[Kind]) -> None:
    """Leave out sublayers whose module other blocks have under the same name as another host: a spec names it once.

    The attention keeps the name, where there is one.
    """
    roles: dict[str, set[str]] = {}
    parts = [(kind, part) for kind in kinds for part in kind.block.sublayers if not part.virtual]
    for kind, part in parts:
        roles.setdefault(part.host.removeprefix(f"{kind.block.path}."), set()).add(part.role)
    for kind, part in parts:
        kept = min(roles[part.host.removeprefix(f"{kind.block.path}.")], key=list(_CALLED).index)
        if part.role != kept:
            kind.block.sublayers.remove(part)
            kind.block.why = f"the {_CALLED[part.role]} has the name that other blocks have their {_CALLED[kept]} under"
            mixture = part.role == "mlp" and kind.feeding is not None and kind.feeding.mixture
            kind.block.left_out["mixture" if mixture else part.role] = kind.block.why
            kind.feeding = None if part.role == "mlp" else kind.feeding
            kind.recurrence = None if part.role == "recurrent" else kind.recurrence


def loads_of(model: Any) -> dict[str, dict[str, str]]:
    """Every load the class offers, the eager one first."""
    attention = [choice for choice in ATTENTION if choice == "eager" or getattr(model, "_supports_sdpa", False)]
    mixture = model._can_set_experts_implementation()
    loads = {}
    for attn in attention:
        for experts in EXPERTS if mixture else (None,):
            options = {"attn_implementation": attn} | ({"experts_implementation": experts} if experts else {})
            loads["+".join(options.values())] = options
    return loads


def scales_of(config: Any) -> dict[str, float]:
    """The numbers of a config a tensor may be multiplied by, as a spec's formula says them."""
    own = {key: float(value) for key, value in _numbers(config).items() if _is_factor(key, value)}
    found = {f"config.{key}": value for key, value in own.items()}
    found |= {f"1 / config.{key}": 1 / value for key, value in own.items()}
    for key, value in own.items():
        found[f"config.{key} / config.num_hidden_layers ** 0.5"] = value / float(config.num_hidden_layers) ** 0.5
    return found


def _numbers(config: Any) -> dict[str, Any]:
    """The settings of a config, and the scalings it works out from them."""
    worked_out = [name for name in dir(type(config)) if name.endswith("_scaling") and not name.startswith("_")]
    return {**{name: getattr(config, name, None) for name in worked_out}, **config.to_dict()}


def _is_factor(key: str, value: Any) -> bool:
    """Whether a number of a config may be a factor: any fraction, and a whole number whose name says so."""
    whole = type(value) is int and any(word in key for word in ("scaling", "multiplier"))
    return (isinstance(value, float) or whole) and value not in (0, 1) and not any(w in key for w in _NO_FACTORS)


_NO_FACTORS = ("eps", "dropout", "range", "theta", "coef", "std", "pdrop", "_id", "noise", "jitter")


def _kinds(trial: Trial, around: Containers) -> list[list[int]]:
    """The blocks by what they hold and the config's layer type."""
    lists = [
        value
        for value in trial.config.to_dict().values()
        if isinstance(value, list) and len(value) >= around.count and len(set(map(str, value))) < 6
    ]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for layer in range(around.count):
        module = trial.model.get_submodule(f"{around.layers}.{layer}")
        shape = tuple(f"{name} {type(one).__name__}" for name, one in module.named_modules())
        groups.setdefault((tuple(str(value[layer]) for value in lists), shape), []).append(layer)
    return list(groups.values())


# -- targets: the tensor each value is -----------------------------------------------------------------------------


def _targets(seen: Sighting, kind: Kind) -> None:
    block, targets = kind.block, kind.targets
    if not block.entering.numel():
        return
    targets["layers", "layer_input"] = [block.entering]
    targets["layers", "layer_output"] = [block.leaving]
    if block.mid is not None:
        targets["layers", "layer_mid"] = [block.mid]
    mixer = block.of("attention") or block.of("recurrent")
    if block.of("recurrent") and block.of("attention"):
        mixer = next(one for one in block.sublayers if one.norm) if any(s.norm for s in block.sublayers) else mixer
    mlp = block.of("mlp")
    if mixer and mixer.norm:
        targets["layers", "attention_norm_output"] = [_output(seen, mixer.norm, block)]
    if mlp:
        targets["mlp", "mlp_output"] = [mlp.contribution]
        targets["layers", "mlp_input"] = [_stream(_reads(seen, kind, mlp), block)]
        if mlp.norm and not (mixer and mixer.norm == mlp.norm):
            targets["layers", "mlp_norm_output"] = [_output(seen, mlp.norm, block)]
    if attention := block.of("attention"):
        targets["self_attn", "attention_output"] = [attention.contribution]
        for name, tensors in (kind.attention.targets if kind.attention else {}).items():
            targets["self_attn", name] = tensors
    if recurrent := block.of("recurrent"):
        targets["linear_attn", "linear_attn_output"] = [recurrent.contribution]
        last = last_projection(seen.trial.model, seen.first, recurrent.host)
        if last is not None:
            targets["linear_attn", "premix"] = [last.tensor]
    for name, tensors in (kind.feeding.targets if kind.feeding else {}).items():
        targets["mlp", name] = tensors


def _reads(seen: Sighting, kind: Kind, mlp: Sublayer) -> Tensor:
    if not mlp.virtual or kind.feeding is None:
        return mlp.reads
    up = kind.feeding.roles.get("up_proj")
    event = None if up is None else seen.first.at(up, (), "input", ())
    return mlp.reads if event is None else event.tensor


def _output(seen: Sighting, module: str, block: Block) -> Tensor:
    event = seen.first.at(module, (), "output", ())
    return block.entering if event is None else _stream(event.tensor, block)


def _stream(tensor: Tensor, block: Block) -> Tensor:
    return tensor.reshape(block.entering.shape) if tensor.numel() == block.entering.numel() else tensor
