"""Order: in which order one forward reaches the values."""

from __future__ import annotations

from nnpedia.family import Family


def forward_order(family: Family) -> list[str]:
    """`host.name` of every value the family has, in the order a forward reaches them."""
    have = {
        host: [f"{host}.{name}" for name, spec in table.items() if spec.absent is None]
        for host, table in family.values.items()
    }
    order: list[str] = []
    for name in family.values["layers"]:  # a block without a norm or an MLP input has its sublayers all the same
        order += [value for value in have["layers"] if value == f"layers.{name}"]
        if name == "attention_norm_output":
            order += [*have.get("linear_attn", []), *have.get("self_attn", [])]
        if name == "mlp_input":
            order += have.get("mlp", [])
    before = ("model.input_ids", "model.attention_mask", "model.input_size", "model.token_embeddings")
    root = have.get("model", [])
    return [name for name in root if name in before] + order + [name for name in root if name not in before]
