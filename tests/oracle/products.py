"""Attention that a class computes itself, watched by the products and the softmax it asks torch for.

Whatever a module calls its tensors, softmax attention is a product of queries with keys, a softmax and a product of the
pattern with values. Each is credited to the module whose forward runs at that moment.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm")


class Products(TorchFunctionMode):
    """Keeps every product of two batched tensors and every softmax, by the module whose forward asked for it.

    Attributes:
        running: The modules whose forward runs, innermost last.
        seen: Module to what it asked for, in order: its kind, what went in, what came out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.running: list[nn.Module] = []
        self.seen: dict[nn.Module, list[tuple[str, tuple[Tensor, ...], Tensor]]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        factors: tuple[Tensor, ...] = ()
        if name in PRODUCTS:
            factors = tuple(x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))[-2:]
            if not all(x.dim() > 2 for x in factors):  # a projection
                factors = ()
        elif name == "softmax":
            factors = (args[0],)
        kept = tuple(x.detach().clone() for x in factors)
        result = func(*args, **kwargs)
        if kept and self.running:
            entry = ("softmax" if name == "softmax" else "product", kept, result.detach().clone())
            self.seen.setdefault(self.running[-1], []).append(entry)
        return result

    def attentions(self, batch: int) -> dict[nn.Module, dict[str, Tensor]]:
        """The modules that asked for a product, a softmax and a product, and what these are in an attention."""
        found = {}
        for module, entries in self.seen.items():
            if [kind for kind, _, _ in entries] == ["product", "softmax", "product"]:
                (_, (queries, keys), _), (_, (scores,), pattern), (_, (_, values), heads) = entries
                quantities = {
                    "queries": queries, "keys": keys.mT, "values": values, "scores": scores, "pattern": pattern,
                    "heads": heads,
                }  # fmt: skip
                apart = {name: x if x.dim() == 4 else x.unflatten(0, (batch, -1)) for name, x in quantities.items()}
                found[module] = {**apart, "heads": apart["heads"].transpose(1, 2)}
        return found
