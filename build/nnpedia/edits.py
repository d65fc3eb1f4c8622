"""Edits: what `model.edit()` keeps, made in every forward of a run.

nnsight runs the block of an edit once in a run. A generation makes a forward for each token, so an edit
would be of the prompt alone, and the tokens after it would come from the model as it was.
"""

from __future__ import annotations

import ast
from itertools import count

from nnsight.intervention.interleaver import Mediator, OutOfOrderError


class RepeatedEdit(Mediator):
    """The block of an edit, run again in each later forward of the run.

    A block that loops over `tracer.iter` or `tracer.all()` says itself in which forwards it is made.
    """

    def _run(self) -> None:
        for forward in count():
            if forward and not self._begun(forward):
                return
            try:
                super()._run()
            except Exception as error:
                if forward:
                    error.add_note(
                        f"this edit is made in every forward, and failed in forward {forward} of a generation, on what "
                        "follows the prompt; write `for _ in tracer.iter[:1]:` in its block to edit the prompt alone"
                    )
                raise

    def _begun(self, forward: int) -> bool:
        """Wait for a forward to begin; false when the run has ended without it."""
        self.iteration = forward
        try:
            Mediator.value("model.input")
        except OutOfOrderError:
            return False
        return True


def repeat(edits: list[Mediator]) -> None:
    """Make the edits of a model ones that repeat, where their blocks do not loop themselves."""
    for edit in edits:
        if type(edit) is Mediator and not _loops(edit.node):
            edit.__class__ = RepeatedEdit


def _loops(block: ast.AST | None) -> bool:
    """Whether a block speaks of the steps of its own tracer."""
    if not isinstance(block, ast.With):
        return False
    bound = [each.optional_vars for each in block.items if each.optional_vars is not None]
    names = {node.id for each in bound for node in ast.walk(each) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("iter", "all")
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        for each in block.body
        for node in ast.walk(each)
    )
