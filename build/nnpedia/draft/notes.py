"""Notes: a skeleton of `notes.md`, its pseudo-code told from what was seen, its snippets from the laws that hold."""

from __future__ import annotations

from nnpedia.draft.proving import Draft
from nnpedia.draft.sighting import Kind
from nnpedia.draft.tree import Sublayer

_HOSTS = {"attention": "self_attn", "recurrent": "linear_attn", "mlp": "mlp"}


def notes_of(draft: Draft) -> str:
    """The text of `notes.md`: the block in order, and a snippet for each identity that was proven."""
    sections = ["## The block, in order", "", "```", *_pseudo(draft), "```", ""]
    if _holds(draft, "layers", "residual_sum"):
        sections += _residual(draft)
    if _holds(draft, "self_attn", "pattern") and draft.said["self_attn", "attention_probabilities"].given:
        sections += _pattern(draft)
    if draft.readout is not None:
        sections += _readout()
    return "\n".join(sections).rstrip() + "\n"


# -- the pseudo-code ------------------------------------------------------------------------------------------------


def _pseudo(draft: Draft) -> list[str]:
    lines = [f"x = {_entering(draft)}", ""]
    for kind in draft.seen.kinds:
        if len(draft.seen.kinds) > 1:
            lines.append(f"blocks such as {kind.layers[0]}:")
        lines += [*_block(draft, kind), ""]
    readout = draft.readout or "lm_head(norm(hidden))"
    return [*lines, f"logits = {readout.replace('hidden)', 'x)')}"]


def _entering(draft: Draft) -> str:
    form = draft.laws.get(("model", "first_block_input"))
    if form is None:
        return "embed_tokens(input_ids), and what else enters the first block"
    return form.formula.partition(" == ")[0].replace("token_embeddings", "embed_tokens(input_ids)")


def _block(draft: Draft, kind: Kind) -> list[str]:
    parts = kind.block.sublayers
    if not parts:
        return [f"x = block(x)    # {kind.block.why or 'its sublayers were not told apart'}"]
    mixers = [_call(draft, kind, part) for part in parts if part.role != "mlp"]
    mlps = [_call(draft, kind, part) for part in parts if part.role == "mlp"]
    scaled = [f"x = x * {kind.block.scale}"] if kind.block.scale else []
    if kind.block.shape == "sequential":
        middle = [f"x = x + {' + '.join(mixers)}"] if mixers else []
        return [*middle, *(f"x = x + {call}" for call in mlps), *scaled]
    return [f"x = x + {' + '.join([*mixers, *mlps])}", *scaled]


def _call(draft: Draft, kind: Kind, part: Sublayer) -> str:
    role = "mlp" if part.role == "mlp" else "attention"
    inner = f"{draft.seen.names.norms.get(role, 'norm')}(x)" if part.norm else "x"
    said = f"{_HOSTS[part.role]}({inner})"
    if part.after:
        said = f"{part.after.removeprefix(f'{kind.block.path}.')}({said})"
    value = {"attention": "attention_output", "recurrent": "linear_attn_output", "mlp": "mlp_output"}[part.role]
    at = draft.said[_HOSTS[part.role], value].at
    return f"{at.place.scale} * {said}" if at is not None and at.place.scale else said


# -- the snippets ---------------------------------------------------------------------------------------------------


def _holds(draft: Draft, host: str, law: str) -> bool:
    return draft.laws.get((host, law)) is not None


def _residual(draft: Draft) -> list[str]:
    kind = next((one for one in draft.seen.kinds if one.block.of("attention") and one.block.of("mlp")), None)
    if kind is None:
        return []
    added = [(_HOSTS[part.role], part.role) for part in kind.block.sublayers]
    values = {"attention": "attention_output", "recurrent": "linear_attn_output", "mlp": "mlp_output"}
    added.sort(key=lambda one: ["recurrent", "attention", "mlp"].index(one[1]))
    reads = [f"    {host} = block.{host}.{values[role]}.save()" for host, role in added]
    total, scaled = f"x + {' + '.join(host for host, _ in added)}", ""
    if kind.block.scale:
        total, scaled = f"({total}) * block.{kind.block.scale}", ", times a number of its own"
    return [
        f"A block is its input and what its sublayers add to it{scaled}:", "", "```python",
        f"block = model.layers[{kind.layers[0]}]", "with model.trace(prompt):",
        "    x = block.layer_input.save()", *reads, "    out = block.layer_output.save()", "",
        f"assert torch.allclose({total}, out, atol=1e-4)", "```", "",
    ]  # fmt: skip


def _pattern(draft: Draft) -> list[str]:
    kind = next(one for one in draft.seen.kinds if one.block.of("attention"))
    sinks = "softmax_beside" in (form.formula if (form := draft.laws["self_attn", "pattern"]) else "")
    sums = "assert (pattern.sum(-1) < 1).all()" if sinks else "assert torch.allclose(pattern.sum(-1), torch.ones(()))"
    says = "what is missing went to its head's sink" if sinks else "a row of it sums to one"
    return [
        f"No query attends to what comes after it, and of the pattern {says}:", "",
        "```python attn_implementation=eager", "with model.trace(prompt):",
        f"    pattern = model.layers[{kind.layers[0]}].self_attn.attention_probabilities.save()", "",
        "assert not pattern.triu(1).any()", sums, "```", "",
    ]  # fmt: skip


def _readout() -> list[str]:
    return [
        "Reading out the last block's output gives the logits:", "", "```python", "with model.trace(prompt):",
        "    last = model.layers[-1].layer_output.save()", "    logits = model.logits.save()", "",
        "assert torch.allclose(model.project_on_vocab(last), logits, atol=1e-3)", "```", "",
    ]  # fmt: skip
