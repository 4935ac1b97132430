"""Pipelines of upstream and Python passes, nested to any depth, with MLIR's textual form.

    builtin.module(stepwell-canonicalize,func.func(linalg-generalize-named-ops,cse),canonicalize{max-iterations=3})

is, in Python,

    Pipeline((
        CanonicalizePass(),
        Nested("func.func", ("linalg-generalize-named-ops", "cse")),
        "canonicalize{max-iterations=3}",
    ))

A string may hold one element or several separated by commas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mlir import ir

from .base import Pass
from .elements import Nested, PassElement, parsed, print_element
from .runner import PipelineRunner
from .state import CompileState, Watcher


@dataclass(frozen=True, init=False)
class Pipeline:
    """Passes that run in sequence on one op, normally a module."""

    elements: tuple[PassElement, ...]
    anchor: str

    def __init__(self, elements: Iterable[PassElement | str] = (), anchor: str = "builtin.module") -> None:
        object.__setattr__(self, "elements", tuple(parsed(elements)))
        object.__setattr__(self, "anchor", anchor)

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """Parses the textual form, `anchor(element,...)`.

        Raises:
            PipelineError: the text is invalid, or names an unknown pass or option of a Python pass.
        """
        nested = Nested.parse(text)
        return cls(nested.elements, nested.anchor)

    def __add__(self, other: Pipeline) -> Pipeline:
        return Pipeline(self.elements + other.elements, self.anchor)

    def without(self, names: Collection[str]) -> Pipeline:
        """The pipeline without the Python passes of these names."""
        kept = [item for item in self.elements if not (isinstance(item, Pass) and item.name in names)]
        return Pipeline(kept, self.anchor)

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(print_element, self.elements))})"

    def run(
        self,
        module: ir.Module | ir.Operation,
        instrumentation: Sequence[Watcher] = (),
        verify: bool = True,
        state: CompileState | None = None,
    ) -> None:
        """Runs the passes on a module, or on the op that the pipeline is anchored on.

        Args:
            module: op to transform in place.
            instrumentation: called before and after every pass.
            verify: whether to verify the IR after every pass.
            state: the state of the compile; None for a new one without parameters.

        Raises:
            PassFailure: a pass failed; the error names the pass, the location and the reason.
            PipelineError: an upstream pass or one of its options does not exist.
        """
        PipelineRunner(instrumentation, verify, state=state).run(self.anchor, self.elements, module.operation)
