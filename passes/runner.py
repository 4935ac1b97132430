"""Runs pipelines: upstream passes through MLIR's pass manager, Python passes between them.

Upstream passes that follow each other run in one pass manager. Where something watches the pipeline, or a Python pass
is nested, the passes run one by one on one op after the other, so that each can be looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlir import ir
from mlir.passmanager import PassDisplayMode, PassManager

from ..dialects.verifier import violations
from .base import ParameterPass, Pass, PassError
from .diagnostics import MLIRError
from .failure import CompileError, say_pass
from .instrumentation import Instrumentation, Step
from .options import PipelineError
from .pipeline import Element, Nested, Pipeline, Upstream, print_element
from .recorder import is_recording, watchers
from .state import CompileState
from .upstream import PreparedPipelines, explain_rejection, prepared

_ANY = "any"


class PassFailure(CompileError):
    """A pass of a pipeline failed; the message names it and says why.

    Attributes:
        pass_name: which pass; empty where upstream does not tell.
        reason: why, without the name.
        location: where, as well as it is known.
        is_reported: whether the reason has gone to the diagnostic handlers of the context already.
    """

    def __init__(self, pass_name: str, reason: str, location: ir.Location, is_reported: bool = False) -> None:
        super().__init__(f"pass '{pass_name}' failed: {reason}" if pass_name else reason)
        self.pass_name, self.reason = pass_name, reason
        self.location, self.is_reported = location, is_reported


class Runner:
    """Runs pipelines.

    Args:
        instrumentation: told before and after every pass.
        verify: whether to check the IR after every pass.
        statistics: whether MLIR prints, to the standard error stream, what its passes counted, and in which form.
        note: told which passes are about to run.
        state: what belongs to the module; None for a module alone.
    """

    def __init__(
        self,
        instrumentation: Sequence[Instrumentation] = (),
        verify: bool = True,
        statistics: PassDisplayMode | None = None,
        note: Callable[[str], None] = say_pass,
        state: CompileState | None = None,
    ) -> None:
        self.instrumentation = (*instrumentation, *watchers())
        # What is done again to see how it fails is looked at closely: the pass that is to blame may have come earlier.
        self.verify = verify or is_recording()
        self.statistics, self.note, self.state = statistics, note, state

    def run(self, pipeline: Pipeline, op: ir.Operation) -> None:
        """Runs `pipeline` on `op`.

        Raises:
            PassFailure: a pass failed.
            PipelineError: the pipeline is not one for `op`, or names passes or options that do not exist.
        """
        if pipeline.anchor not in (op.name, _ANY):
            raise PipelineError(f"can't run '{pipeline.anchor}' pass manager on '{op.name}' op")
        with op.context:
            check(op.name, pipeline.elements)
            self._run_elements(pipeline.elements, op)

    def _run_elements(self, elements: Sequence[Element], op: ir.Operation) -> None:
        for is_native, group in itertools.groupby(elements, self._is_native):
            if is_native:
                self._run_upstream(list(group), op)
                continue
            for element in group:
                self._run_element(element, op)

    def _is_native(self, element: Element) -> bool:
        """Whether MLIR's pass manager runs all of the element by itself."""
        if isinstance(element, Nested):
            # What `any` matches only MLIR knows.
            return element.anchor == _ANY or all(map(self._is_native, element.elements))
        return isinstance(element, Upstream) and not self.instrumentation

    def _run_element(self, element: Element, op: ir.Operation) -> None:
        if isinstance(element, Pass):
            self._run_step(element, op)
        elif isinstance(element, Nested):
            self._run_nested(element, op)
        else:
            for inner in _expand(element, op.name):
                self._run_nested(inner, op) if isinstance(inner, Nested) else self._run_step(inner, op)

    def _run_nested(self, nested: Nested, op: ir.Operation) -> None:
        for watcher in self.instrumentation:
            watcher.before_nested(nested)
        for child in _children(op, nested.anchor):
            self._run_elements(nested.elements, child)
        for watcher in reversed(self.instrumentation):
            watcher.after_nested(nested)

    def _run_step(self, step: Step, op: ir.Operation) -> None:
        for watcher in self.instrumentation:
            watcher.before_pass(step, op)
        try:
            self._run_python(step, op) if isinstance(step, Pass) else self._run_upstream([step], op)
        except PassFailure:
            for watcher in reversed(self.instrumentation):
                watcher.after_pass_failed(step, op)
            raise
        for watcher in reversed(self.instrumentation):
            watcher.after_pass(step, op)

    def _run_upstream(self, elements: Sequence[Element], op: ir.Operation) -> None:
        self.note(_names(elements))
        pipelines = prepared() if self.statistics is None else PreparedPipelines()
        manager = pipelines.manager(f"{op.name}({_names(elements)})", self.verify)
        if self.statistics is not None:
            manager.enable_statistics(self.statistics)
        try:
            manager.run(op)
        except MLIRError as error:
            name = pipelines.failed_pass() or _names(elements)
            raise PassFailure(name, _told(error), _place_of(error, op), op.context.emit_error_diagnostics) from error
        if self.verify:
            self._verify_dialect(_names(elements), op)

    def _run_python(self, instance: Pass, op: ir.Operation) -> None:
        self.note(instance.name)
        try:
            with op.location:
                if isinstance(instance, ParameterPass) and self.state is not None:
                    instance.run_with(op, self.state)
                else:
                    instance.run(op)
        except PassError as error:
            raise PassFailure(instance.name, str(error), error.location or op.location) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {_told(error)} (this is a bug in the pass)"
            raise PassFailure(instance.name, reason, getattr(error, "location", None) or op.location) from error
        if not self.verify:
            return
        try:
            op.verify()
        except MLIRError as error:
            reason = f"it left invalid IR: {_told(error)} (this is a bug in the pass)"
            raise PassFailure(instance.name, reason, _place_of(error, op)) from error
        self._verify_dialect(instance.name, op)

    def _verify_dialect(self, name: str, op: ir.Operation) -> None:
        """Checks what MLIR cannot know of the stepwell dialect."""
        wrong = next(violations(op), None)
        if wrong is not None:
            raise PassFailure(name, f"it left invalid IR: {wrong.message} (this is a bug in the pass)", wrong.location)


def check(anchor: str, elements: Sequence[Element]) -> None:
    """Checks in the current context that every pass exists, takes its options and can run on its op.

    Raises:
        PipelineError: one does not.
    """
    for element in elements:
        if isinstance(element, Nested) and element.anchor != _ANY:
            check(element.anchor, element.elements)
        elif isinstance(element, Pass):
            if element.anchor not in (anchor, _ANY):
                raise PipelineError(wrong_anchor(element.name, element.anchor, anchor))
        else:
            check_upstream(anchor, element)


def check_upstream(anchor: str, element: Upstream | Nested) -> None:
    """Checks in the current context that MLIR accepts the element inside `anchor`.

    Raises:
        PipelineError: it does not.
    """
    try:
        PassManager.parse(f"{anchor}({element})")
    except ValueError as error:
        name = element.anchor if isinstance(element, Nested) else element.name
        raise PipelineError(explain_rejection(name, str(error))) from None


def wrong_anchor(name: str, wanted: str, anchor: str) -> str:
    """The message for a pass at the wrong nesting, in MLIR's words."""
    return (
        f"Can't add pass '{name}' restricted to '{wanted}' on a PassManager intended to run on '{anchor}', "
        "did you intend to nest?"
    )


def _expand(element: Upstream, anchor: str) -> Sequence[Step | Nested]:
    """The passes of an upstream pipeline such as `buffer-deallocation-pipeline`; a pass stays as it is."""
    spelt_out = Pipeline.parse(str(PassManager.parse(f"{anchor}({element})"))).elements
    if len(spelt_out) == 1 and isinstance(spelt_out[0], Upstream) and spelt_out[0].name == element.name:
        return [element]
    return spelt_out


def _children(op: ir.Operation, anchor: str) -> Iterator[ir.Operation]:
    """The ops called `anchor` directly inside `op`."""
    for region in op.regions:
        for block in region:
            yield from (inner.operation for inner in list(block.operations) if inner.operation.name == anchor)


def _names(elements: Sequence[Element]) -> str:
    """The elements as text, where it is not known which of them it was."""
    return ",".join(map(print_element, elements))


def _told(error: Any) -> str:
    """What an exception says; one of the bindings has its diagnostics, where no handler was told them."""
    if isinstance(error, MLIRError):
        return "; ".join(str(diagnostic) for diagnostic in error.error_diagnostics) or "see the diagnostics"
    return str(error)


def _place_of(error: Any, op: ir.Operation) -> ir.Location:
    """The location in the first diagnostic of an exception of the bindings."""
    return error.error_diagnostics[0].location if error.error_diagnostics else op.location
