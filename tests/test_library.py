"""What the library promises whoever writes an experiment: clear errors, and nothing silent."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from forged import FAMILIES, PROMPT, attentions, chooses_experts, each_family, full, load, spec
from reading import blocks_with, everything, has, in_order

from nnpedia import (
    LayoutError,
    OutsideTrace,
    ReadOnly,
    ReadTooLate,
    Unavailable,
)
from nnpedia.errors import AddressError
from nnpedia.misnamed import MissingHost
from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")


# -- where a value is not -----------------------------------------------------------------------


@each_family
def test_outside_a_trace_there_is_no_value(family: str) -> None:
    model = full(family)
    for host, name in ((model, "logits"), (model, "input_size"), (model, "next_token_probs")):
        with pytest.raises(OutsideTrace, match=rf"{name} exists only while the model runs.*model\.trace"):
            getattr(host, name)
    with pytest.raises(OutsideTrace, match=r"^model\.layers\[1\]: layer_output exists only"):
        _ = model.layers[1].layer_output
    with pytest.raises(OutsideTrace):
        model.layers[1].layer_output = torch.zeros(1)


def read_backwards(model: Any) -> None:
    with model.trace(PROMPT):
        _ = model.layers[1].layer_output
        _ = model.layers[0].layer_output


def read_backwards_in_an_invoke(model: Any) -> None:
    with model.trace() as tracer:
        with tracer.invoke("One"):
            _ = model.layers[0].layer_output
        with tracer.invoke(PROMPT):
            _ = model.layers[1].layer_output
            _ = model.layers[0].layer_output


@pytest.mark.parametrize("backwards", [read_backwards, read_backwards_in_an_invoke])
@each_family
def test_reading_backwards_says_which_of_the_two_comes_first(family: str, backwards: Any) -> None:
    """In the reader's names and in one line: no native path, no framework's word for it, no list of everything."""
    with pytest.raises(ReadTooLate) as caught:
        backwards(full(family))
    assert str(caught.value) == (
        "model.layers[0]: layer_output was asked for after model.layers[1].layer_output, and the forward reaches it "
        "before: read model.layers[0].layer_output first, then model.layers[1].layer_output; "
        "model.forward_order() lists the order within a block"
    )
    order = full(family).forward_order()
    assert order.index("layers.layer_input") < order.index("layers.layer_output") < order.index("model.logits")


def late(model: Any, second: Any, first: Any) -> str | None:
    """What is said of two values read the wrong way round; `None` where they are of one place and either way goes."""
    try:
        with model.trace(PROMPT):
            _ = getattr(host_at(model, second[0], second[1]), second[2])
            _ = getattr(host_at(model, first[0], first[1]), first[2])
    except ReadTooLate as error:
        return str(error)
    return None


@each_family
def test_any_two_values_the_wrong_way_round_are_told_the_right_way(family: str) -> None:
    """Neighbours of the order, on one block and of the model itself."""
    model = full(family)
    table = spec(family).values
    spots = [spot for spot in in_order(model) if isinstance(everything(model)[spot], torch.Tensor)]
    spots = [spot for spot in spots if table[spot[1]][spot[2]].at is not None]
    placed = {spot: model.position(host_at(model, spot[0], spot[1]), spot[2]) for spot in spots}
    assert sorted(spots, key=placed.__getitem__) == spots
    middle = len(spots) // 2
    told = 0
    for first, second in (spots[:2], spots[-2:], (spots[0], spots[-1]), spots[middle : middle + 2]):
        said = late(model, second, first)
        told += said is not None
        names = [f"{host_at(model, spot[0], spot[1]).place}.{spot[2]}" for spot in (first, second)]
        assert said is None or f"read {names[0]} first, then {names[1]}" in said
    assert told >= 2


@each_family
def test_the_order_it_gives_can_be_followed(family: str) -> None:
    """Every value of the order that a block has, read in one trace on that block, comes in that order."""
    model = full(family)
    clean = everything(model)
    for layer, block in enumerate(model.layers):
        with model.trace(PROMPT):
            for name in model.forward_order():
                host, value = name.split(".")
                if host == "model":
                    getattr(model, value)
                elif not isinstance(clean[layer, host, value], Unavailable):
                    getattr(block if host == "layers" else getattr(block, host), value)


def sdpa_and_eager_experts(family: str) -> Any:
    """The load that gives the least."""
    options = {"attn_implementation": attentions(family)[-1]}
    return load(family, **options, **({"experts_implementation": "eager"} if chooses_experts(family) else {}))


@each_family
def test_a_misspelt_assignment_is_refused_with_the_nearest_name(family: str) -> None:
    """Python would take it as a new attribute, and the experiment would find no effect."""
    model = full(family)
    with pytest.raises(AttributeError, match=r"no 'layer_outputt' to assign to; did you mean 'layer_output'"):  # noqa: SIM117
        with model.trace(PROMPT):
            model.layers[0].layer_outputt = 0
    with pytest.raises(AttributeError, match=r"layers\[0\] has no 'layer_outptu'; did you mean 'layer_output'"):
        _ = model.layers[0].layer_outptu


def block_with(model: Any, host: str, name: str) -> int:
    """A block that is built to have the value, else one that has its host; block 1 where that will do."""
    layers = [layer for layer in [1, 0, *range(2, model.num_layers)] if host_at(model, layer, host) is not None]
    return next((layer for layer in layers if is_built(host_at(model, layer, host), name)), layers[0])


def is_built(host: Any, name: str) -> bool:
    """Whether the modules that the value's address goes through are there."""
    value = getattr(type(host), name)
    try:
        return value.address is None or value.descend(host) is not None
    except AddressError:
        return False


def unavailable(model: Any, host: str, name: str) -> Unavailable:
    """The error of a value on the first block that has its host, raised at the line that asks for it."""
    reached = []
    with pytest.raises(Unavailable) as caught, model.trace(PROMPT):  # noqa: PT012 (which line raises is the point)
        reached.append("before")
        getattr(host_at(model, block_with(model, host, name), host), name)
        reached.append("after")
    assert reached == ["before"]
    return caught.value


@each_family
def test_scores_and_pattern_under_sdpa_name_the_load_that_has_them(family: str) -> None:
    """Where transformers would hand out an empty tuple or None."""
    if spec(family).values["self_attn"]["attention_scores"].absent is not None:
        pytest.skip("no softmax attention")
    if "sdpa" not in attentions(family):
        pytest.skip("transformers loads the class with eager attention only")
    for name in ("attention_scores", "attention_probabilities"):
        model = sdpa_and_eager_experts(family)
        error, layer = unavailable(model, "self_attn", name), block_with(model, "self_attn", name)
        assert error.value == name
        assert error.load == {"attn_implementation": "eager"}
        assert str(error) == (
            f"model.layers[{layer}].self_attn: {name} is not available: "
            "attn_implementation 'sdpa' does not compute it; "
            'load with attn_implementation="eager"'
        )


@pytest.mark.parametrize("family", [name for name in FAMILIES if chooses_experts(name)])
def test_expert_outputs_under_eager_experts_name_the_load_that_has_them(family: str) -> None:
    error = unavailable(sdpa_and_eager_experts(family), "mlp", "expert_outputs")
    assert error.load == {"experts_implementation": "grouped_mm"}
    assert 'load with experts_implementation="grouped_mm"' in str(error)


@each_family
def test_an_absent_value_gives_the_specs_reason(family: str) -> None:
    """And no load, since none would give it; reading and assigning alike. A host no block has is missing itself."""
    model = full(family)
    for host, table in spec(family).values.items():
        nowhere = host != "model" and all(host_at(model, layer, host) is None for layer in range(model.num_layers))
        for name, value in table.items():
            if nowhere:
                assert value.absent is not None
            elif value.absent is not None and host != "model":
                error = unavailable(model, host, name)
                assert error.reason == value.absent
                assert error.load == {}
        if nowhere:
            with pytest.raises(MissingHost, match=rf"^model\.layers\[0\]: this block has no {host}$"):
                getattr(model.layers[0], host)
    host = "layers" if host_at(model, 0, "mlp") is None else "mlp"
    first = {spot[2] for spot, value in everything(model).items() if spot[0] == 0 and not isinstance(value, Exception)}
    lacking = next(name for name in spec(family).values[host] if name not in first)
    with pytest.raises(Unavailable, match=lacking), model.trace(PROMPT):
        setattr(host_at(model, 0, host), lacking, torch.zeros(1))


def test_what_is_said_of_a_load_is_said_before_the_forward_is_asked() -> None:
    """An unknown attribute stays an AttributeError with the attribute's own name."""
    model = full("llama")
    with pytest.raises(AttributeError, match="attention_outptu"), model.trace(PROMPT):
        _ = model.layers[0].self_attn.attention_outptu


@each_family
def test_no_value_is_none_or_an_empty_tuple(family: str) -> None:
    for model in (full(family), sdpa_and_eager_experts(family)):
        for spot, value in everything(model).items():
            if spot[2] == "input_size":
                assert value == [1, len(PROMPT)]
            elif not isinstance(value, Unavailable):
                assert isinstance(value, torch.Tensor), spot
                assert value.numel() > 0


# -- assigning ----------------------------------------------------------------------------------


@each_family
def test_a_tensor_of_another_shape_is_refused_with_both_shapes(family: str) -> None:
    model = full(family)
    width = model.hidden_size
    with pytest.raises(LayoutError) as caught, model.trace(PROMPT):
        model.layers[0].layer_output = torch.zeros(1, 3, width)
    assert str(caught.value) == (
        f"model.layers[0]: layer_output is Residual [batch seq hidden_size], here [1, {len(PROMPT)}, {width}], "
        f"but the assigned tensor is [1, 3, {width}]"
    )
    with pytest.raises(LayoutError, match="takes a tensor, not a float"), model.trace(PROMPT):
        model.layers[0].layer_output = 0.0
    with pytest.raises(LayoutError, match=r"torch\.float32.*torch\.int64"), model.trace(PROMPT):
        model.layers[0].layer_output = torch.zeros(1, len(PROMPT), width, dtype=torch.long)


@each_family
def test_a_native_layout_is_not_taken_for_the_standard_one(family: str) -> None:
    """Heads side by side, or tokens in one line, are the model's layout: the value has its own."""
    model = full(family)
    flattened = {("self_attn", "attention_premix"): (-2, -1), ("linear_attn", "head_outputs"): (0, 1)}
    present = [(host, name) for host, name in flattened if has(family, host, name)]
    assert present
    for host, name in present:
        value = spec(family).values[host][name]
        layout = f"{value.layout} [{' '.join(spec(family).axes(value))}]"
        if host == "self_attn":
            assert layout == "HeadOutputs [batch seq num_heads head_dim]"
        mixer = host_at(model, blocks_with(family, host, name)[0], host)
        with pytest.raises(LayoutError, match=re.escape(layout)), model.trace(PROMPT):
            setattr(mixer, name, getattr(mixer, name).flatten(*flattened[host, name]))


@each_family
def test_derived_values_are_read_only(family: str) -> None:
    model = full(family)
    for name in ("input_size", "next_token_probs"):
        with pytest.raises(ReadOnly, match=f"model: {name} is derived"), model.trace(PROMPT):
            setattr(model, name, torch.zeros(1))


@each_family
def test_edits_in_place_reach_the_model_and_reads_see_them(family: str) -> None:
    """At every value that is a place, and also where it is laid out as a copy: slices, twice, and augmented."""
    model = full(family)
    places = [
        ("self_attn", "attention_premix"),
        ("self_attn", "attention_queries"),
        ("linear_attn", "premix"),
        ("linear_attn", "values"),
        ("layers", "layer_mid"),
    ]
    present = [(host, name) for host, name in places if has(family, host, name)]
    assert present
    for host, name in present:
        at = host_at(model, blocks_with(family, host, name)[0], host)
        with model.trace(PROMPT):
            before = getattr(at, name).clone().save()
            getattr(at, name)[:, 3:5] += 1
            getattr(at, name)[:, 3:5] *= getattr(at, name)[:, 3:5]
            again = getattr(at, name).clone().save()
            logits = model.logits.clone().save()
        expected = before.clone()
        expected[:, 3:5] = (before[:, 3:5] + 1) ** 2
        assert torch.equal(again, expected)
        with model.trace(PROMPT):
            setattr(at, name, expected)
            assigned = model.logits.clone().save()
        assert torch.equal(logits, assigned)
        assert not torch.equal(logits, everything(model)[None, "model", "logits"])


def test_assigned_values_take_the_models_dtype_and_others_keep_theirs() -> None:
    model = full("llama")
    with model.trace(PROMPT):
        model.layers[0].layer_output = model.layers[0].layer_output.double()
        after = model.layers[0].layer_output.clone().save()
        logits = model.logits.clone().save()
    assert after.dtype == torch.float32
    assert torch.equal(logits, everything(model)[None, "model", "logits"])


@each_family
def test_what_was_saved_is_not_changed_later(family: str) -> None:
    """A saved value stays what it was when it was read, whatever the model does in place afterwards."""
    model = full(family)
    kept: dict[Any, Any] = {}
    with model.trace(PROMPT):
        for spot in in_order(model):
            host = host_at(model, spot[0], spot[1])
            if host is None:
                continue
            try:
                kept[spot] = getattr(host, spot[2])
            except Unavailable:
                continue
    assert len(kept) > 40
    assert kept.keys() == {spot for spot, value in everything(model).items() if not isinstance(value, Exception)}
    for spot, value in kept.items():
        expected = everything(model)[spot]
        assert torch.equal(value, expected) if isinstance(value, torch.Tensor) else value == expected, spot
