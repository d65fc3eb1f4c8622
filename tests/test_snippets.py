"""A snippet says where it failed, what it showed, and leaves nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_gpt2 import tiny_gpt2

from nnpedia import snippets
from nnpedia.fences import read_document
from nnpedia.record import SnippetFact
from nnpedia.snippets import run_fences

FILE = "families/tiny/notes.md"
PROMPT = "The Eiffel Tower"


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_gpt2()


def run(model: Any, *codes: str, above: str = "# Tiny\n\n## Section\n\n") -> list[SnippetFact]:
    """Run fences, given with or without an info string's options as `options|code`."""
    text = above
    for code in codes:
        options, _, body = code.rpartition("|")
        text += f"```python {options}".rstrip() + f"\n{body}\n```\n\n"
    return run_fences(read_document(FILE, text).fences, lambda load, on: model, PROMPT)


FAILING = {
    "assertion after the trace": (
        "with model.trace(prompt):\n    h = model.lm_head.output.save()\nassert h.shape[-1] == 3",
        3,
        "AssertionError: h.shape[-1] == 3 (left: 257, right: 3)",
    ),
    "inside the block": (
        "with model.trace(prompt):\n    h = model.lm_head.output.save()\n    x = 1 / 0\nprint(h)",
        3,
        "ZeroDivisionError: division by zero",
    ),
    "out of order": (
        "with model.trace(prompt):\n    a = model.transformer.h[1].output.save()\n"
        "    b = model.transformer.h[0].output.save()\nprint(a)",
        3,
        "OutOfOrderError",
    ),
    "in a function called in the block": (
        "def f(x):\n    y = x\n    return y.nope\nwith model.trace(prompt):\n    f(model.lm_head.output)\nprint(1)",
        3,
        "AttributeError: 'Tensor' object has no attribute 'nope'",
    ),
    "syntax": ("x = 1\ny = (2,\nz = 3", 2, "SyntaxError: '(' was never closed"),
    "in an invoke": (
        "with model.trace() as tracer:\n    with tracer.invoke(prompt):\n        a = model.lm_head.output.save()\n"
        "    with tracer.invoke(prompt):\n        b = model.lm_head.output.nope\nprint(a)",
        5,
        "AttributeError",
    ),
    "in an iteration": (
        "with model.generate(prompt, max_new_tokens=2) as tracer:\n    for step in tracer.iter[:]:\n"
        "        a = model.lm_head.output\n        a.nope\nprint(1)",
        4,
        "AttributeError",
    ),
    "in the model, for what a block wrote": (
        "x = 1\nwith model.trace(prompt):\n    model.transformer.h[0].output = torch.zeros(1, 2)\nprint(x)",
        2,
        "RuntimeError",
    ),
    "exit": ("import sys\nsys.exit(3)", 2, "SystemExit: 3"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failure_is_reported_at_its_line_of_the_page(model: Any, case: str) -> None:
    code, line, what = FAILING[case]
    padding = "# Tiny\n" + "\n" * 40
    (fact,) = run(model, code, above=padding)
    assert not fact.ok
    assert fact.error is not None
    first, _, rest = fact.error.partition("\n")
    number = fact.line + line - 1
    assert first.startswith(f"{FILE}:{number}: {what}")
    assert f"> {number:4} | {code.splitlines()[line - 1]}" in rest
    assert "site-packages" not in rest
    assert str(Path(__file__).parent) not in rest


def test_an_indented_fence_fails_at_its_line(model: Any) -> None:
    text = "# T\n\n!!! note\n\n    ```python\n    with model.trace(prompt):\n        1 / 0\n    ```\n"
    (fact,) = run_fences(read_document(FILE, text).fences, lambda load, on: model, PROMPT)
    assert (fact.error or "").startswith(f"{FILE}:7: ZeroDivisionError")


def test_two_blocks_at_one_place_are_not_confused(model: Any) -> None:
    """nnsight keeps a block by file and line; an edited page must run its new text."""
    first = run(model, "with model.trace(prompt):\n    a = model.lm_head.output.sum().save()\nassert a.shape == ()")
    second = run(model, "with model.trace(prompt):\n    a = model.lm_head.output.save()\nassert a.dim() == 3")
    assert [fact.error for fact in first + second] == [None, None]


def test_output_is_what_a_notebook_shows(model: Any) -> None:
    one, two, three = run(
        model,
        "print('text')\ntorch.arange(3) / 3",
        "with model.trace(prompt):\n    h = model.transformer.h[0].output.save()\nh.shape",
        "torch.zeros(3, 400)",
    )
    assert one.output == "text\ntensor([0.0000, 0.3333, 0.6667])\n"
    assert two.output == "torch.Size([1, 16, 16])\n"
    assert "..." in three.output
    assert max(map(len, three.output.splitlines())) <= 100


def test_output_is_capped(model: Any) -> None:
    (fact,) = run(model, "for _ in range(10_000):\n    print('x' * 99)")
    assert "cut here: 20000 of 1000000 characters" in fact.output
    assert len(fact.output) < 20_200


def test_the_same_snippet_gives_the_same_bytes(model: Any) -> None:
    codes = ("import random\nprint(torch.rand(3), random.random())", "torch.rand(3)")
    assert run(model, *codes) == run(model, *codes)
    drawn = run(model, "torch.rand(3)", "torch.rand(3)")
    assert drawn[0].output == drawn[1].output


def test_names_last_only_where_a_fence_continues(model: Any) -> None:
    facts = run(model, "a = 1\nassert a", "continues|assert a == 1\nb = 2", "continues|a + b", "a")
    assert [fact.ok for fact in facts] == [True, True, True, False]
    assert facts[2].output == "3\n"
    assert "NameError" in (facts[3].error or "")


def test_a_traced_function_of_the_fence_before_is_found(model: Any) -> None:
    define = (
        "def top(p):\n    with model.trace(p):\n        x = model.lm_head.output[0, -1].argmax().save()\n    return x\n"
        "assert top"
    )
    facts = run(model, define, "continues|assert top(prompt).dim() == 0", "continues|assert top(prompt).shape == (9,)")
    assert [fact.ok for fact in facts] == [True, True, False]


def test_a_fence_whose_forerunner_fails_is_not_run(model: Any) -> None:
    first, second = run(model, "a = 1 / 0", "continues|print(a)")
    assert not second.ran
    assert f"not run, as what it continues fails: {FILE}:{first.line}: ZeroDivisionError" in (second.error or "")


def test_a_snippet_that_says_nothing_is_an_error(model: Any) -> None:
    silent, assigned, checked = run(model, "x = 1", "y = None\ny", "torch.testing.assert_close(1, 1)")
    assert "neither asserts nor shows" in (silent.error or "")
    assert not assigned.ok
    assert (checked.ok, checked.asserts) == (True, 1)


def test_memory_addresses_are_refused(model: Any) -> None:
    for code in ("object()", "print(lambda: 1)"):
        (fact,) = run(model, code)
        assert "shows a memory address" in (fact.error or "")


CHANGES = {
    "weights changed: transformer.h.0.ln_1.weight": "model.transformer.h[0].ln_1.weight.data.mul_(2)",
    "weights changed: transformer.wpe.weight": "w = model.transformer.wpe.weight.data\nw[:] = w.flip(0)",
    "train/eval mode changed": "model.train()",
    "requires_grad changed": "model.lm_head.weight.requires_grad_(False)",
    "gradients are left on": (
        "from torch.nn.functional import layer_norm as f\nf(torch.ones(16), (16,), model.transformer.ln_f.weight).sum()"
        ".backward()"
    ),
    "hooks are left on transformer.h.1": "model.transformer.h[1]._module.register_forward_hook(lambda *a: None)",
    "edits are left in place": ("with model.edit(inplace=True):\n    model.transformer.h[0].output[:] = 0"),
    "the config changed: n_head": "model.config.n_head = 1",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_left_changed_is_an_error_and_the_next_snippet_gets_a_fresh_one(change: str) -> None:
    codes = "assert prompt", f"{CHANGES[change]}\nprint(1)", "assert prompt"
    text = "".join(f"```python\n{code}\n```\n\n" for code in codes)
    loads: list[object] = []

    def load(options: dict[str, str], on: str | None) -> Any:
        loads.append(on)
        return tiny_gpt2()

    before, changing, after = run_fences(read_document(FILE, text).fences, load, PROMPT)
    assert before.ok
    assert after.ok
    assert f"leaves the model other than it was: {change}" in (changing.error or "")
    assert len(loads) == 2


def test_a_change_undone_is_no_change(model: Any) -> None:
    code = "w = model.transformer.wpe.weight.data\nkept = w.clone()\nw.zero_()\nw.copy_(kept)\nassert w.any()"
    (fact,) = run(model, code)
    assert fact.error is None


def test_settings_are_put_back(model: Any) -> None:
    import torch

    seed = torch.get_rng_state()
    run(
        model,
        "torch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\ntorch.set_printoptions(precision=9)\n"
        "torch.rand(5)",
    )
    (fact,) = run(model, "assert torch.is_grad_enabled()\ntorch.ones(1) / 3")
    assert fact.output == "tensor([0.3333])\n"
    assert torch.get_default_dtype() is torch.float32
    assert torch.equal(torch.get_rng_state(), seed)
    assert FILE not in sys.modules["nnsight.tracing.globals"].SOURCES


def test_each_load_is_made_once(model: Any) -> None:
    loads: list[tuple[dict[str, str], str | None]] = []

    def load(options: dict[str, str], on: str | None) -> Any:
        loads.append((options, on))
        return model

    infos = ["", "attn_implementation=eager", "on=forge", "", "attn_implementation=eager", "continues"]
    text = "".join(f"```python {info}\nassert model\n```\n\n" for info in infos)
    facts = run_fences(read_document(FILE, text).fences, load, PROMPT)
    assert all(fact.ok for fact in facts)
    assert loads == [({}, None), ({"attn_implementation": "eager"}, None), ({}, "forge")]
    assert facts[5].load == {"attn_implementation": "eager"}


def test_a_load_that_fails_is_that_fences_error(model: Any) -> None:
    from nnpedia.errors import CheckpointError

    def load(options: dict[str, str], on: str | None) -> Any:
        if on:
            raise CheckpointError("no such checkpoint", where=on)
        return model

    text = "```python on=gone\nassert 1\n```\n\n```python\nassert model\n```\n"
    gone, fine = run_fences(read_document(FILE, text).fences, load, PROMPT)
    assert gone.error == f"{FILE}:2: no model to run on: CheckpointError: gone: no such checkpoint"
    assert not gone.ran
    assert fine.ok


def test_a_page_without_a_model_starts_from_nothing() -> None:
    text = "```python\nprint('model' in globals(), 'torch' in globals())\n```\n"
    (fact,) = run_fences(read_document("README.md", text).fences, lambda load, on: None, PROMPT)
    assert fact.output == "False False\n"


def test_reading_the_inside_of_a_forward_and_generating_leave_the_model_as_it_was(model: Any) -> None:
    facts = run(
        model,
        "with model.trace(prompt):\n    a = model.transformer.h[0].source.self_attn_0.output.save()\nassert a",
        "with model.generate(prompt, max_new_tokens=2) as tracer:\n    ids = tracer.result.save()\nids.shape",
        "for p in model.parameters():\n    p.requires_grad_(True)\nwith model.trace(prompt):\n"
        "    h = model.transformer.h[0].output\n    logits = model.lm_head.output\n"
        "    with logits.sum().backward():\n        g = h.grad.save()\n"
        "model.zero_grad()\ng.shape",
    )
    assert [fact.error for fact in facts] == [None, None, None]


def test_few_models_are_kept(model: Any) -> None:
    text = "".join(f"```python on=m{index}\nassert model\n```\n\n" for index in range(6))
    bench = snippets.Bench(lambda load, on: (model, on), PROMPT)
    found = read_document(FILE, text).fences
    for fence in found:
        snippets.run_fence(bench, found, fence)
    assert [model[1] for model in bench.models.values()] == ["m3", "m4", "m5"]
