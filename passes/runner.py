"""Runs pipelines: upstream passes through MLIR's pass manager, Python passes between them.

Upstream passes that follow each other run in one pass manager. Where something watches the pipeline, or a Python pass is
nested, the passes run one by one on one op after the other, so that each can be looked at.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlir import ir
from mlir.passmanager import PassManager

from .base import Pass, PassError
from .instrumentation import Instrumentation, Step
from .options import PipelineError
from .pipeline import Element, Nested, Pipeline, Upstream, print_element
from .upstream import explain_rejection

_ANY = "any"


class PassFailure(Exception):
    """A pass of a pipeline failed.

    Attributes:
        pass_name: which; empty where upstream does not tell.
        location: where, as well as it is known.
        diagnostics: what upstream said, when nobody else was listening.
        is_reported: whether the diagnostics of the context have told the reason already.
    """

    def __init__(self, pass_name: str, reason: str, location: ir.Location, diagnostics: Sequence[str] = (), is_reported: bool = False):
        super().__init__(f"pass '{pass_name}' failed: {reason}" if pass_name else reason)
        self.pass_name, self.location, self.diagnostics, self.is_reported = pass_name, location, diagnostics, is_reported


class Runner:
    """Runs pipelines under the given instrumentation."""

    def __init__(self, instrumentation: Sequence[Instrumentation] = (), verify: bool = True) -> None:
        self._instrumentation = instrumentation
        self._verify = verify

    def run(self, pipeline: Pipeline, op: ir.Operation) -> None:
        """Runs `pipeline` on `op`; see `Pipeline.run`."""
        if pipeline.anchor not in (op.name, _ANY):
            raise PipelineError(f"can't run '{pipeline.anchor}' pass manager on '{op.name}' op")
        with op.context:
            check(pipeline.anchor, pipeline.elements)
            self._run_elements(pipeline.elements, op)

    def _run_elements(self, elements: Sequence[Element], op: ir.Operation) -> None:
        for is_native, group in itertools.groupby(elements, self._is_native):
            if is_native:
                self._run_upstream(list(group), op)
                continue
            for element in group:
                self._run_element(element, op)

    def _is_native(self, element: Element) -> bool:
        """Whether MLIR's pass manager can run all of the element unwatched."""
        if isinstance(element, Nested):
            return all(map(self._is_native, element.elements))
        return isinstance(element, Upstream) and not self._instrumentation

    def _run_element(self, element: Element, op: ir.Operation) -> None:
        if isinstance(element, Nested):
            for child in _children(op, element.anchor):
                self._run_elements(element.elements, child)
            return
        for watcher in self._instrumentation:
            watcher.before_pass(element, op)
        try:
            if isinstance(element, Pass):
                self._run_python(element, op)
            else:
                self._run_upstream([element], op)
        except PassFailure:
            for watcher in reversed(self._instrumentation):
                watcher.after_pass_failed(element, op)
            raise
        for watcher in reversed(self._instrumentation):
            watcher.after_pass(element, op)

    def _run_upstream(self, elements: Sequence[Element], op: ir.Operation) -> None:
        manager = PassManager.parse(f"{op.name}({','.join(map(print_element, elements))})")
        manager.enable_verifier(self._verify)
        with tempfile.TemporaryDirectory() as folder:
            # The pass manager does not say which pass failed, but the file that it dumps then does, by its name.
            manager.enable_ir_printing(
                print_after_all=False, print_after_failure=True, tree_printing_dir_path=folder, large_elements_limit=0
            )
            try:
                manager.run(op)
            except ir.MLIRError as error:
                dumps = [path.stem.rpartition("_")[2] for path in Path(folder).rglob("*.mlir")]
                name = dumps[0] if dumps else str(elements[0]) if len(elements) == 1 else ""
                told = [str(diagnostic) for diagnostic in error.error_diagnostics]
                reason = told[0] if told else "see the diagnostics"
                raise PassFailure(name, reason, op.location, told, op.context.emit_error_diagnostics) from error

    def _run_python(self, instance: Pass, op: ir.Operation) -> None:
        try:
            with op.location:
                instance.run(op)
        except PassError as error:
            raise PassFailure(instance.name, str(error), error.location or op.location) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error} (this is a bug in the pass)"
            raise PassFailure(instance.name, reason, op.location) from error
        if self._verify:
            self._verify_after(instance, op)

    def _verify_after(self, instance: Pass, op: ir.Operation) -> None:
        try:
            op.verify()
        except ir.MLIRError as error:
            told = [str(diagnostic) for diagnostic in error.error_diagnostics]
            reason = f"it left invalid IR{': ' + told[0] if told else ''} (this is a bug in the pass)"
            raise PassFailure(instance.name, reason, op.location, told) from error


def check(anchor: str, elements: Sequence[Element]) -> None:
    """Checks in the current context that every pass exists, takes its options and can run on its op.

    Raises:
        PipelineError: one does not.
    """
    for element in elements:
        if isinstance(element, Nested):
            check(element.anchor, element.elements)
        elif isinstance(element, Upstream):
            try:
                PassManager.parse(f"{anchor}({element})")
            except ValueError as error:
                raise PipelineError(explain_rejection(element.name, str(error))) from None
        elif element.anchor not in (anchor, _ANY):
            raise PipelineError(wrong_anchor(element, anchor))


def wrong_anchor(instance: Pass, anchor: str) -> str:
    """The message for a Python pass at the wrong nesting, in MLIR's words."""
    return (
        f"Can't add pass '{instance.name}' restricted to '{instance.anchor}' on a PassManager intended to run on "
        f"'{anchor}', did you intend to nest?"
    )


def _children(op: ir.Operation, anchor: str) -> Iterator[ir.Operation]:
    """The ops called `anchor` directly inside `op`."""
    for region in op.regions:
        for block in region:
            yield from (inner.operation for inner in list(block.operations) if inner.operation.name == anchor)
