"""A spec that says a wrong thing is found out by the forward, at the line that says it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from forged import PROMPT, folder

from nnpedia import StandardizedTransformer
from nnpedia.cache import families_folder
from nnpedia.family import load_family
from nnpedia.verify import verify

pytestmark = pytest.mark.usefixtures("one_thread")

NEEDLESS = "    attention_queries: {needs: {attn_implementation: [eager]}}\n"
NEEDY = "    attention_scores: {needs: {}}\n"

#: What is said of llama's attention or MLP, and what the forward answers to it.
WRONG = {
    "a load that is not needed": ("self_attn", NEEDLESS, r"attention_queries is there under sdpa, though"),
    "a need left out": ("self_attn", NEEDY, r"under sdpa: .*attention_scores is not available"),
    "keys for values": (
        "self_attn",
        '    attention_values: {at: "@attention_interface_1.args[2]"}\n',
        r"mix\(attention_prob",
    ),
    "another norm": ("layers", "    mlp_norm_output: {at: input_layernorm.output}\n", r"mlp_norm_output"),
    "an operation that is not there": (
        "layers",
        '    layer_mid: {at: "@hidden_states_9.output"}\n',
        r"layer_mid .*no operation 'hidden_states_9'.*hidden_states_1",
    ),
    "a child that is not there": ("mlp", "    mlp_neurons: {at: down.input}\n", r"no child 'down'.*down_proj"),
    "a wrong shape": ("mlp", "    mlp_activation: {at: down_proj.output}\n", r"Neurons \[.*intermediate_size="),
    "a place without effect": ("model", "    token_embeddings: {at: norm.input}\n", r"token_embeddings"),
}


def wrong_family(tmp_path: Path, host: str, said: str) -> Path:
    """A copy of llama under the same name, with something wrong said of a value; the families folder."""
    copied = tmp_path / "families"
    copied.mkdir()
    shutil.copy(families_folder() / "vocabulary.yml", copied)
    shutil.copytree(families_folder() / "llama", copied / "llama")
    file = copied / "llama" / "family.yml"
    text = file.read_text()
    assert "\nvalues:" not in text
    file.write_text(f"{text}values:\n  {host}:\n{said}")
    return copied


def loader(families: Path) -> Any:
    def load(options: dict[str, str]) -> Any:
        model = StandardizedTransformer(folder("llama"), families=families, **options)
        model.dispatch()
        return model

    return load


@pytest.mark.parametrize("kind", WRONG)
def test_verification_finds_it_at_its_line(tmp_path: Path, kind: str) -> None:
    host, said, complaint = WRONG[kind]
    families = wrong_family(tmp_path, host, said)
    checked = verify(load_family(families / "llama"), loader(families), PROMPT)
    line = (families / "llama" / "family.yml").read_text().splitlines().index(said.rstrip()) + 1
    found = [f"{problem.where} {problem.what}" for problem in checked.problems]
    assert found
    assert any(re.search(complaint, text) for text in found), found
    assert any(f"llama/family.yml:{line}" in text for text in found), found


def test_an_order_that_is_not_the_forwards_is_found_at_its_line(tmp_path: Path) -> None:
    said = "  mlp: [mlp_output, mlp_neurons]\n"
    families = wrong_family(tmp_path, "mlp", "    mlp_output: {at: output}\n")
    file = families / "llama" / "family.yml"
    file.write_text(f"{file.read_text()}order:\n{said}")
    problems = verify(load_family(families / "llama"), loader(families), PROMPT).problems
    assert [(problem.where.rpartition(":")[2], problem.what) for problem in problems] == [
        (
            str(file.read_text().count("\n")),
            "in the forward of block 0, mlp_neurons comes before mlp_output, not after it: say so in `order`",
        )
    ]


def test_support_asks_the_forward_and_not_the_spec(tmp_path: Path) -> None:
    """What a spec declares of loads is what is being tested, so it is not believed."""
    families = wrong_family(tmp_path, "self_attn", NEEDLESS + NEEDY)
    model = StandardizedTransformer(folder("llama"), families=families, attn_implementation="sdpa")
    rows = {row.name: row for row in model.support(layer=0)}
    assert rows["attention_queries"].available
    assert not rows["attention_scores"].available
    assert rows["attention_scores"].reason
    assert not rows["attention_probabilities"].available
    assert dict(rows["attention_probabilities"].load) == {"attn_implementation": "eager"}
