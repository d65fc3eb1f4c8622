"""Addresses: where in a forward a value is read.

    output   input   output[0]   output[logits]     the host's own call
    args[1]   kwargs[input_ids]                      one argument of it
    o_proj.input   experts.args[2]                   a child's call
    @attention_interface_1.args[1]                   an operation inside the host's forward
    @attention_interface_1@softmax_0.input           an operation inside that operation
    router@forward_0.output                          an operation inside a child's forward
    ^post_attention_layernorm.output                 from the block the host stands in
    /norm.output                                     from the root

Operations carry the names nnsight's `.source` gives them: the called (or assigned) name and a
counter in execution order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from nnpedia.errors import AddressError

Access = Literal["output", "input", "args", "kwargs"]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+"
_GRAMMAR = re.compile(
    rf"""(?P<anchor>[\^/])?
         (?P<children>(?:{_NAME})(?:\.(?:{_NAME}))*?)??
         (?P<operations>(?:@[A-Za-z_][A-Za-z0-9_]*)*)
         (?P<dot>\.)?
         (?P<access>output|input|args|kwargs)
         (?P<index>(?:\[[A-Za-z0-9_]+\])*)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Address:
    """A parsed address; `str()` gives back the spelling it was parsed from."""

    text: str
    anchor: Literal["", "^", "/"]
    children: tuple[str, ...]
    operations: tuple[str, ...]
    access: Access
    index: tuple[str | int, ...]

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Address:
    """The address `text` spells; raises `AddressError` (the caller adds the place)."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise AddressError(
            f"{text!r} is not an address: write children, @operations and an access, "
            "such as o_proj.input, output[0], experts.args[2] or @attention_interface_1.args[1]"
        )
    children = tuple(match["children"].split(".")) if match["children"] else ()
    operations = tuple(name for name in match["operations"].split("@") if name)
    if bool(match["dot"]) != bool(children or operations):
        raise AddressError(f"{text!r} is not an address: a dot stands between a place and its {match['access']}")
    if match["anchor"] and not (children or operations or match["anchor"] == "^"):
        raise AddressError(f"{text!r} is not an address: name a child after {match['anchor']!r}")
    index = tuple(int(key) if key.isdigit() else key for key in re.findall(r"\[([A-Za-z0-9_]+)\]", match["index"]))
    if match["access"] in ("args", "kwargs") and not index:
        raise AddressError(f"{text!r} is not an address: say which, as in {match['access']}[…]")
    if match["access"] == "args" and not isinstance(index[0], int):
        raise AddressError(f"{text!r} is not an address: args are counted, kwargs are named")
    return Address(text, match["anchor"] or "", children, operations, match["access"], index)  # type: ignore[arg-type]


def in_words(address: Address) -> str:
    """The address as the page says it, such as `the child module o_proj's input`."""
    element = "".join(f", {'element' if isinstance(key, int) else 'field'} {key}" for key in _element(address))
    origin = {"": "", "^": "the block's ", "/": "the root's "}[address.anchor]
    child = ".".join(address.children)
    if not address.operations:
        what = {"output": "output", "input": "input"}.get(address.access, "inputs")
        if not address.children:
            return (f"{origin}own {what}" if origin else f"the module's own {what}") + element
        return f"{origin or 'the '}child module {child}'s {what}{element}"
    inner, *outer = reversed(address.operations)
    what = {"output": "the output", "input": "the input"}.get(address.access, "the arguments")
    inside = f"inside {origin}{child}'s forward" if child else f"inside {origin or 'the '}forward"
    chain = "".join(f" inside {operation}" for operation in outer)
    return f"{inside}: {what} of {inner}{chain}{element}"


def _element(address: Address) -> tuple[str | int, ...]:
    """The index as the page shows it; a keyword argument is named by its keyword."""
    return address.index
