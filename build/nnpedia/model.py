"""`StandardizedTransformer`: the standard names over any causal language model of a known family."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from nnsight.modeling.tp import TPFragments
from nnsight.modeling.transformers import TransformersModel
from torch._guards import detect_fake_mode

from nnpedia import formula, prompts
from nnpedia.batching import RepeatingBatcher
from nnpedia.calls import Call, Progress, next_call
from nnpedia.containers import shares
from nnpedia.described import find_family
from nnpedia.device import usable
from nnpedia.edits import repeat
from nnpedia.errors import CheckpointError, ModelError, OutsideTrace
from nnpedia.family import for_config
from nnpedia.forwards import Forwards, open_forwards
from nnpedia.functions import FUNCTIONS
from nnpedia.gathering import every
from nnpedia.handoffs import shorten
from nnpedia.holding import PATHS, find_child, host_of
from nnpedia.hosts import Blocks, Host, Hosting, host_class, host_classes, renames
from nnpedia.keywords import check_keywords
from nnpedia.order import forward_order
from nnpedia.sizes import axis_sizes, block_sizes
from nnpedia.spots import Watching

log = logging.getLogger("nnpedia")

#: What a load may choose, and the config attribute that tells what was chosen.
LOAD_OPTIONS = {
    "attn_implementation": "_attn_implementation",
    "experts_implementation": "_experts_implementation",
}


class StandardizedTransformer(TransformersModel, Host):
    """A transformer under the encyclopedia's names.

    Args:
        checkpoint: A Hub id, a folder, `family:name` for a checkpoint the encyclopedia makes
            (`"phimoe:forge"`), or a loaded transformers module.
        attn_implementation: `"eager"`, `"sdpa"`, …; `None` is the model's own default.
        experts_implementation: `"eager"`, `"batched_mm"`, `"grouped_mm"`, …, on a mixture.
        dtype: A torch dtype or its name; `None` is the checkpoint's own.
        device: Where the weights go when they load; `"auto"` is an accelerator if there is one.
        revision: The commit, branch or tag of a Hub id.
        families: The folder of family specs; `None` is the encyclopedia's own.
        **kwargs: What `from_pretrained` takes, and attributes of the config to set.

    Nothing is loaded before the first trace but the config and the tokenizer. Raises
    `CheckpointError` for a checkpoint that cannot be had, `UnknownFamily` for a `model_type`
    that no family describes and `UnknownKeyword` for a keyword that nothing takes.

    What `model.edit()` keeps is made in every forward of a run, so in each step of a generation; a block
    that loops over `tracer.iter` says itself in which. Token ids that are padded and come without
    `attention_mask` run as they are, with a `PaddingWarning`.
    """

    _batcher_class = RepeatingBatcher

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    qk_head_dim: int
    vocab_size: int
    intermediate_size: int
    num_experts: int
    top_k: int

    def __init__(
        self,
        checkpoint: str | Path | torch.nn.Module,
        *,
        attn_implementation: str | None = None,
        experts_implementation: str | None = None,
        dtype: torch.dtype | str | None = None,
        device: str | torch.device | None = None,
        revision: str | None = None,
        families: Path | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("trust_remote_code", False):
            raise CheckpointError("code from a checkpoint is never run: trust_remote_code stays off")
        asked = {
            "attn_implementation": attn_implementation,
            "experts_implementation": experts_implementation,
            "dtype": dtype,
            "device": None if device is None else usable(device),
        }
        load = {key: value for key, value in asked.items() if value is not None}
        from nnpedia.loading import open_checkpoint, reading

        opened = open_checkpoint(checkpoint, revision, kwargs.pop("tokenizer", None), load, kwargs)
        if kwargs:
            check_keywords(kwargs, StandardizedTransformer.__init__, opened.config, opened.model_class)
        self.family = for_config(find_family(opened.model_type, families), opened.config)
        self.__class__ = host_class("model", self.family, StandardizedTransformer)
        self.asked: dict[int, list[tuple[Hosting, str]]] = {}
        self.kept: dict[int, tuple[tuple[str, int], dict[str, Any]]] = {}
        self.probing = False
        self.forwards = Forwards()
        self.progress = Progress()
        self._opened: torch.nn.Module | None = None
        named = str(checkpoint) if isinstance(opened.source, str) else type(opened.source).__name__
        with reading(named, "it cannot be loaded so"):
            super().__init__(
                opened.source,
                task="text-generation",
                tokenizer=opened.tokenizer,
                rename=renames(self.family),
                envoys={PATHS[host]: envoy for host, envoy in reversed(host_classes(self.family).items())}
                | {"layers": Blocks},
                interleaver=Watching(TPFragments()),
                **opened.load,
                **kwargs,
            )
        alike = self.lengths()
        for layer in range(alike["num_layers"]):
            for axis, length in block_sizes(self, layer).items():
                if alike.get(axis, length) != length:
                    del alike[axis]  # blocks differ in it: no one number is the model's
        for name, length in alike.items():
            object.__setattr__(self, name, length)

    # -- sizes and facts ----------------------------------------------------------------------

    @property
    def text_config(self) -> Any:
        """The config of the text model: the config itself, unless a multimodal one wraps it."""
        config = self._module.config
        return config.get_text_config() if hasattr(config, "get_text_config") else config

    def lengths(self) -> dict[str, int]:
        """Every axis length: the first block's that has the host the axis belongs to, else the config's.

        Where blocks differ, the others' are told by their hosts: `model.layers[i].self_attn.axis_sizes()`.
        """
        lengths = axis_sizes(self.family, None, self.text_config)
        for host, part in (("linear_attn", "recurrent"), ("self_attn", "attention")):
            module = next((found.module for block in self.layers if (found := host_of(block, host))), None)
            own = {axis for axis, spec in self.family.vocabulary.axes.items() if spec.part == part}
            if module is not None:
                found = axis_sizes(self.family, module, self.text_config)
                lengths |= {axis: length for axis, length in found.items() if axis in own}
        return lengths

    def load_options(self) -> dict[str, str]:
        """What this load runs: `{"attn_implementation": "sdpa", …}`."""
        options = {option: self.load_option(option) for option in LOAD_OPTIONS}
        return {option: choice for option, choice in options.items() if choice is not None}

    def load_option(self, option: str) -> str | None:
        """What this load runs of an option; `None` for one that its class does not give a choice of."""
        call = self.progress.call
        if call is None:
            return self._chosen(option)
        if option not in call.options:
            call.options[option] = self._chosen(option)
        return call.options[option]

    def _chosen(self, option: str) -> str | None:
        if option == "experts_implementation" and not self.has_experts_choice:
            return None
        choice = getattr(self.text_config, LOAD_OPTIONS[option], None)
        return None if choice is None else str(choice)

    @property
    def has_experts_choice(self) -> bool:
        """Whether a load may choose how the experts run; some classes run them one way only."""
        return "mixture" in self.family.parts and self._module._can_set_experts_implementation()

    def values(self, host: str | None = None) -> list[str]:
        """The standard values this family has, as `host.name`, in the order the forward reaches them."""
        return [name for name in self.forward_order() if host is None or name.split(".")[0] == host]

    def forward_order(self) -> list[str]:
        """The values in the order one forward reaches them, one block standing for all."""
        return forward_order(self.family)

    def position(self, host: Hosting, name: str) -> tuple[int, int]:
        """Where in one forward a value is reached; what comes earlier is less."""
        order = self.forward_order()
        place = order.index(f"{host.host_name}.{name}")
        if host.host_name != "model":
            return int(host.block.path.rsplit(".", 1)[-1]), place
        return (-1 if place < order.index("layers.layer_input") else self.num_layers), place

    def forward_names(self, host: str, *names: str) -> list[str]:
        """These values of a host, in the order the forward reaches them."""
        return sorted(names, key=[name.split(".")[1] for name in self.values(host)].index)

    def every(self, name: str, layers: Iterable[int] | None = None) -> dict[int, torch.Tensor]:
        """One value of many blocks by their numbers: `model.every("layers.layer_output")[3]`, inside a trace.

        Each tensor is what that block's own attribute gives, in its layout; asked for at once they cost less, as
        the trace code waits for the last of them only. `name` is one of `values()`. Without `layers`, those blocks
        are read that have the value; of the numbers that are given, each has to have it.

        Raises `ModelError` for a name that no block has, `NoSuchBlock`, and what reading a block raises; the last
        block has run when this returns, so an edit in place is refused with `ReadOnly` (in `torch.inference_mode()`,
        where none are counted, it changes nothing).
        """
        return every(self, name, layers)

    def support(self, layer: int | None = None) -> Any:
        """Which values this load gives; see `nnpedia.support.support`."""
        from nnpedia.support import support

        return support(self, layer)

    def project_on_vocab(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits `[batch seq vocab_size]` read out of a residual stream `[batch seq hidden_size]`.

        The final norm, the head, and everything the model does after the head. Works inside and
        outside a trace.
        """
        if not self.dispatched and detect_fake_mode() is None:
            self.dispatch()

        def lookup(name: str) -> Any:
            if name == "hidden":
                return hidden
            if name in FUNCTIONS:
                return FUNCTIONS[name]
            head, *rest = name.split(".")
            value: Any = self.text_config if head == "config" else find_child(self, head)
            for part in rest:
                value = getattr(value, part)
            return value

        return formula.evaluate(formula.parse(self.family.readout).left, lookup)

    def __repr__(self) -> str:
        from nnpedia.printout import printout

        return printout(self)

    # -- the call in progress -----------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a forward call has begun."""
        return self._current is not None

    @property
    def _current(self) -> Call | None:
        return self.progress.call

    @_current.setter
    def _current(self, call: Call | None) -> None:
        self.progress.call = call

    def call(self) -> Call:
        """The forward call in progress; raises `OutsideTrace` when none is."""
        call = self.progress.call
        if call is None:
            raise OutsideTrace("no forward call is running")
        return call

    def step(self) -> Call:
        """The call of the step that the running trace code is in, waited for when it has not begun."""
        from nnsight.intervention.interleaver import Mediator

        step = Mediator.current("step").iteration or 0
        if not self.running or self.call().index < step:
            _ = self.inputs
        return self.call()

    def overwrites(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in the buffers of the running call's cache, which the next call writes over."""
        call = self.progress.call
        if call is None or call.buffers is None:
            return False
        held = [each for layer in call.buffers.layers for each in vars(layer).values()]
        return any(isinstance(each, torch.Tensor) and shares(tensor, each) for each in held)

    def call_sizes(self) -> dict[str, int]:
        call = self.call()
        return {"batch": call.batch, "seq": call.seq}

    def rows(self) -> Any:
        """The rows the running trace code sees (`nnpedia.values.Rows`)."""
        from nnsight.intervention.interleaver import Mediator

        from nnpedia.values import Rows

        batch = self.call().batch
        batcher = self.interleaver.batcher
        group = Mediator.current("rows").batch_group if batcher is not None and batcher.batching else None
        if group is None:
            return Rows(0, batch, batch)
        times = batcher.repeats
        return Rows(group[0] * times, group[1] * times, batch)

    def interleave(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """nnsight's driver of every run, with the size of each forward call noted on the way."""
        self._prepare()
        self.asked.clear()
        self.kept.clear()
        repeat(self._edits)
        self.forwards.open(mediator.code for mediator in (*self._edits, *self.interleaver.mediators))
        with self._noting():
            return super().interleave(fn, *args, **kwargs)

    def _prepare(self) -> None:
        """Load the weights, unless only shapes are asked for, and open the forwards that values lie inside of."""
        if not self.dispatched and detect_fake_mode() is None:
            self.dispatch()
        if self._opened is not self._module:
            self._opened = self._module
            shorten(self._module)
            self.forwards = open_forwards(self)

    def trace(self, *inputs: Any, **kwargs: Any) -> Any:
        """One forward, with the block's reads and edits; raises `ModelError` inside of another run of this model."""
        if self.interleaver.interleaving:
            raise ModelError(
                "this model is running already, and makes one run at a time: close the first trace and save what the "
                "second needs, or give both prompts to one trace, each in `with tracer.invoke(prompt):`"
            )
        return super().trace(*inputs, **kwargs)

    def __deepcopy__(self, memo: Any) -> Any:
        raise ModelError(
            "a model is not copied whole: load the checkpoint once more, or give StandardizedTransformer a copy of the "
            "module, or make an edited copy with model.edit()"
        )

    def _shallow_copy(self) -> Any:
        """The copy that an edit is kept on; it shares the modules, so they are the loaded ones from here on."""
        self._prepare()
        return super()._shallow_copy()

    def _batch_size(self, *inputs: Any, **kwargs: Any) -> int:
        """How many rows an invoke gives; raises `PromptError` for something that is no prompt."""
        prompts.check_type(inputs)
        rows = super()._batch_size(*inputs, **kwargs)
        prompts.check_some(inputs, rows)
        return rows

    def _batch(self, invokes: list[Any], fn: Any) -> tuple[Any, Any]:
        """The call that the invokes make together; raises `PromptError`, and warns of padding without a mask."""
        args, kwargs = super()._batch(invokes, fn)
        if invokes and not args:
            prompts.check_rows(self, kwargs)
        prompts.warn_of_padding(self, invokes)
        return args, kwargs

    @contextmanager
    def _noting(self) -> Iterator[None]:
        hook = self._module.register_forward_pre_hook(self._note, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()
            self._current = None

    def _note(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._current = next_call(self._current, args, kwargs)

    def _load_meta(self, *args: Any, **kwargs: Any) -> torch.nn.Module:
        """The module without weights; it runs as the loaded one does, not as in training, which keeps no cache."""
        return super()._load_meta(*args, **kwargs).eval()

    def dispatch(self) -> None:
        """Load the weights; raises `CheckpointError` in one line when they cannot be."""
        from nnpedia.loading import reading_weights

        try:
            with reading_weights(str(self.repo_id)):
                super().dispatch()
        except CheckpointError:
            self.dispatched = False  # a later trace must not run what was loaded by half
            raise
