"""What a spec is written in: addresses, layouts and formulas; each says what it means, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nnpedia import address, formula
from nnpedia.errors import AddressError, LayoutError, SpecError
from nnpedia.layout import expect, parse_pattern

# -- addresses ----------------------------------------------------------------------------------

ADDRESSES = {
    "output": ("", (), (), "output", ()),
    "input": ("", (), (), "input", ()),
    "output[0]": ("", (), (), "output", (0,)),
    "output[logits]": ("", (), (), "output", ("logits",)),
    "output[0][1]": ("", (), (), "output", (0, 1)),
    "o_proj.input": ("", ("o_proj",), (), "input", ()),
    "a.b.0.output": ("", ("a", "b", "0"), (), "output", ()),
    "experts.args[2]": ("", ("experts",), (), "args", (2,)),
    "experts.kwargs[top_k_weights]": ("", ("experts",), (), "kwargs", ("top_k_weights",)),
    "args[1]": ("", (), (), "args", (1,)),
    "@f_1.args[1]": ("", (), ("f_1",), "args", (1,)),
    "@f_1@g_0.input": ("", (), ("f_1", "g_0"), "input", ()),
    "router@forward_0.output": ("", ("router",), ("forward_0",), "output", ()),
    "^norm.output": ("^", ("norm",), (), "output", ()),
    "^input": ("^", (), (), "input", ()),
    "^@f_0.output[0]": ("^", (), ("f_0",), "output", (0,)),
    "/model.norm.output": ("/", ("model", "norm"), (), "output", ()),
    "output_proj.output": ("", ("output_proj",), (), "output", ()),
    "input_layernorm.input": ("", ("input_layernorm",), (), "input", ()),
    "output.output": ("", ("output",), (), "output", ()),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_its_parts_and_spells_itself(text: str) -> None:
    parsed = address.parse(text)
    assert (parsed.anchor, parsed.children, parsed.operations, parsed.access, parsed.index) == ADDRESSES[text]
    assert str(parsed) == text


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "o_proj", "o_proj.", ".output", "o_proj..input", "o_proj.outputs", "Output", "output[", "output[]",
        "output[-1]", "output[a b]", "args", "kwargs", "args[x]", "@f_1", "@.output", "@@f.output", "@f_1output",
        "o_projoutput", "^", "/output", "/input", "^^norm.output", "a/b.output", "a b.output", "output\n", "0x.output",
        "o_proj.input; import os", "__import__('os').output", "é.output", "a" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match="is not an address") as caught:
        address.parse(text)
    assert "\n" not in str(caught.value)


def test_a_long_address_does_not_take_long() -> None:
    """No matter how a spec is spelled, its reading is linear in its length."""
    import time

    start = time.perf_counter()
    for text in ("a." * 20000 + "x", "@a" * 20000 + "!", "output" + "[0]" * 20000 + "!"):
        with pytest.raises(AddressError):
            address.parse(text)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("output", "the module's own output"),
        ("o_proj.input", "the child module o_proj's input"),
        ("experts.args[2]", "the child module experts's inputs, element 2"),
        ("@f_1.args[1]", "inside the forward: the arguments of f_1, element 1"),
        ("@f_1@g_0.input", "inside the forward: the input of g_0 inside f_1"),
        ("router@forward_0.output", "inside router's forward: the output of forward_0"),
        ("output[logits]", "the module's own output, field logits"),
        ("^post_norm.output", "the block's child module post_norm's output"),
        ("/norm.output", "the root's child module norm's output"),
        ("experts@f_1@g_0.output", "inside experts's forward: the output of g_0 inside f_1"),
    ],
)
def test_an_address_is_put_into_words(text: str, words: str) -> None:
    assert address.in_words(address.parse(text)) == words


# -- layouts ------------------------------------------------------------------------------------

PATTERNS = [
    ("(batch seq) top_k -> batch seq top_k", ("batch", "seq", "top_k")),
    ("batch seq (num_heads head_dim) -> batch seq num_heads head_dim", ("batch", "seq", "num_heads", "head_dim")),
    ("seq batch hidden_size -> batch seq hidden_size", ("batch", "seq", "hidden_size")),
    ("(batch num_heads) query key -> batch num_heads query key", ("batch", "num_heads", "query", "key")),
    ("batch num_heads seq head_dim -> batch seq num_heads head_dim", ("batch", "seq", "num_heads", "head_dim")),
]


@pytest.mark.parametrize(("text", "axes"), PATTERNS)
def test_a_pattern_undoes_itself(text: str, axes: tuple[str, ...]) -> None:
    pattern = parse_pattern(text, axes)
    sizes = dict(zip(axes, (2, 3, 5, 7), strict=False))
    standard = torch.arange(float(torch.tensor([sizes[axis] for axis in axes]).prod())).reshape(
        [sizes[a] for a in axes]
    )
    native = pattern.merge(standard, standard)
    assert native.dim() == len(pattern.native)
    assert torch.equal(pattern.split(native, sizes), standard)
    assert pattern.mixes_rows == text.startswith("(batch")


def test_each_number_of_a_split_is_where_the_pattern_says() -> None:
    """Heads are the outer axis of heads side by side; tokens run within prompts."""
    heads = parse_pattern(*PATTERNS[1]).split(torch.arange(12.0).reshape(1, 1, 12), {"num_heads": 3, "head_dim": 4})
    assert heads[0, 0, 1].tolist() == [4, 5, 6, 7]
    flat = parse_pattern(*PATTERNS[0]).split(torch.arange(6.0).reshape(6, 1), {"batch": 2, "seq": 3})
    assert flat[1, :, 0].tolist() == [3, 4, 5]


def test_a_wrong_shape_names_both() -> None:
    axes, sizes = ("batch", "seq", "hidden_size"), {"hidden_size": 4, "seq": 3}
    expect("x", "Residual", axes, (2, 3, 4), sizes)
    for shape in ((2, 3), (2, 3, 5), (2, 4, 4), (1, 2, 3, 4)):
        with pytest.raises(LayoutError) as caught:
            expect("x", "Residual", axes, shape, sizes)
        assert str(caught.value) == f"x is Residual [batch seq=3 hidden_size=4], but the tensor there is {list(shape)}"


# -- formulas -----------------------------------------------------------------------------------


def test_a_formula_computes_what_it_says() -> None:
    names = {"a": 7, "config.b": 2, "double": lambda x: 2 * x}
    for text, value in [
        ("a + config.b * 3", 13), ("(a + config.b) * 3", 27), ("a // config.b", 3), ("a / config.b", 3.5),
        ("-a", -7), ("a - -config.b", 9), ("config.b ** 3", 8), ("double(a - 1)", 12), ("double(double(a))", 28),
    ]:  # fmt: skip
        parsed = formula.parse(text)
        assert formula.evaluate(parsed.left, names.__getitem__) == value
    assert formula.parse("double(a) + config.b == a", law=True).names() == ["double", "a", "config.b"]


@pytest.mark.parametrize(
    "text",
    [
        "", "1 +", "a b", "a == b", "__import__('os')", "a.__class__", "().__class__", "a._b", "_a", "a[0]", "'text'",
        "lambda: 1", "[a for a in b]", "f(x=1)", "f(*a)", "f(**a)", "a if b else c", "a and b", "not a", "a < b",
        "a @ b", "a % b", "a << b", "{a}", "(a, b)", "f'{a}'", "a := 1", "await a", "yield", "f()()", "f().g",
        "(a.b)()[0]", "True", "None", "1j", "...", "~a", "+a", "import os", "a; b", "a\nb", "(" * 400 + "a" + ")" * 400,
        "-" * 490 + "a", "a" + " + a" * 1000,
    ],
)  # fmt: skip
def test_what_is_no_formula_is_refused(text: str) -> None:
    """Nothing but names, numbers, arithmetic and calls; nothing private, nothing deep or long."""
    if text in ("-" * 490 + "a",):
        try:
            parsed = formula.parse(text)
        except SpecError:
            return
        assert formula.evaluate(parsed.left, lambda name: 1) == 1
        return
    with pytest.raises(SpecError) as caught:
        formula.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["a", "a == b == c", "a != b", "a == b.__class__", "a = b", "a == 'x'"])
def test_what_is_no_law_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        formula.parse(text, law=True)


def test_a_power_in_a_spec_cannot_stop_the_build() -> None:
    """9 ** 9 ** 9 would never end; a size is small."""
    from nnpedia.sizes import size

    assert size(["config.a ** 2"], None, _Config(a=3)) == 9
    assert size(["config.b", "config.a"], None, _Config(a=3)) == 3
    assert size(["config.a / 2", "config.a // 2"], None, _Config(a=7)) == 3
    assert size(["config.missing // 2"], None, _Config(a=7)) is None


class _Config:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
