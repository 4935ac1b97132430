"""Runs pipelines: upstream passes through MLIR's pass manager, with Python passes between them.

Consecutive upstream passes run in one pass manager. If the pipeline is instrumented or contains a nested Python pass,
the passes run one by one on one op after the other. Each can then be observed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.passmanager import PassDisplayMode, PassManager

from ...dialects import discardable
from ...dialects.dims import limits_of
from ...dialects.verifier import violations
from ...sizes.algebra import UndecidedError
from ...sizes.assumptions import assuming
from ...sizes.intervals import Interval
from ...support.errors import OptionError
from . import debug
from .base import Pass, PassError
from .diagnostics import MLIRError
from .elements import Nested, PassElement, Upstream, print_element
from .failure import CompileError
from .instrumentation import PassStep
from .options import PipelineError
from .rejections import explain_rejection
from .state import CompileState, Watcher
from .upstream import PreparedPipelines

_ANY = "any"


class PassFailure(CompileError):
    """A pass of a pipeline failed; the message names it and says why.

    Attributes:
        pass_name: the pass; "" if upstream does not report it.
        reason: the reason, without the name.
        location: the location, as precisely as it is known.
        is_reported: whether the diagnostic handlers of the context have already received the reason.
    """

    def __init__(self, pass_name: str, reason: str, location: ir.Location, is_reported: bool = False) -> None:
        super().__init__(f"pass '{pass_name}' failed: {reason}" if pass_name else reason)
        self.pass_name, self.reason = pass_name, reason
        self.location, self.is_reported = location, is_reported


class PipelineRunner:
    """Runs pipelines.

    Args:
        instrumentation: called before and after every pass.
        verify: whether to verify the IR after every pass.
        statistics: the format in which MLIR prints pass statistics to the standard error stream; None for none.
        note: called with the names of the passes about to run; None to note them for a supervisor.
        state: the state of the compile; None for a new one without parameters.
    """

    def __init__(
        self,
        instrumentation: Sequence[Watcher] = (),
        verify: bool = True,
        statistics: PassDisplayMode | None = None,
        note: Callable[[str], None] | None = None,
        state: CompileState | None = None,
    ) -> None:
        self.state = CompileState() if state is None else state
        recorder = self.state.recorder
        self.instrumentation = (*instrumentation, *(debug.watchers() if recorder is None else (recorder,)))
        # A repeated compile is verified after every pass: an earlier pass than the failing one may be at fault.
        self.verify = verify or self.state.is_recorded
        self.statistics, self.note = statistics, note or self.state.note_pass

    def run(self, anchor: str, elements: Sequence[PassElement], op: ir.Operation) -> None:
        """Runs the elements of a pipeline that is anchored on `anchor`.

        Raises:
            PassFailure: a pass failed.
            PipelineError: the pipeline is anchored on another op, or names passes or options that do not exist.
        """
        if anchor not in (op.name, _ANY):
            raise PipelineError(f"can't run '{anchor}' pass manager on '{op.name}' op")
        with op.context, assuming(_limits(op)):
            check(op.name, elements)
            self._run_elements(elements, op)

    def _run_elements(self, elements: Sequence[PassElement], op: ir.Operation) -> None:
        for is_native, group in itertools.groupby(elements, self._is_native):
            if is_native:
                self._run_upstream(list(group), op)
                continue
            for element in group:
                self._run_element(element, op)

    def _is_native(self, element: PassElement) -> bool:
        """Returns whether MLIR's pass manager can run the whole element by itself."""
        if isinstance(element, Nested):
            # Only MLIR knows which ops `any` matches.
            return element.anchor == _ANY or all(map(self._is_native, element.elements))
        return isinstance(element, Upstream) and not self.instrumentation

    def _run_element(self, element: PassElement, op: ir.Operation) -> None:
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

    def _run_step(self, step: PassStep, op: ir.Operation) -> None:
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

    def _run_upstream(self, elements: Sequence[PassElement], op: ir.Operation) -> None:
        self.note(_names(elements))
        pipelines = self.state.pipelines if self.statistics is None else PreparedPipelines()
        manager = pipelines.manager(f"{op.name}({_names(elements)})", self.verify)
        if self.statistics is not None:
            manager.enable_statistics(self.statistics)
        try:
            manager.run(op)
        except MLIRError as error:
            name = pipelines.failed_pass() or _names(elements)
            raise PassFailure(
                name, _message_of(error), _location_of(error, op), op.context.emit_error_diagnostics
            ) from error
        if self.verify:
            self._verify_dialect(_names(elements), op)

    def _run_python(self, instance: Pass, op: ir.Operation) -> None:
        self.note(instance.name)
        self.state.pass_name = instance.name
        try:
            with op.location:
                instance.run(op, self.state)
        except PassError as error:
            raise PassFailure(instance.name, str(error), error.location or op.location) from error
        except UndecidedError as error:
            raise PassFailure(instance.name, str(error), getattr(error, "location", op.location)) from error
        except OptionError as error:
            # Some options, such as the name of a target, are only read when the pass runs.
            raise PassFailure(instance.name, str(error), op.location) from error
        except Exception as error:  # passes are code, also of other packages
            reason = f"{type(error).__name__}: {_message_of(error)} (this is a bug in the pass)"
            raise PassFailure(instance.name, reason, getattr(error, "location", None) or op.location) from error
        if not self.verify:
            return
        try:
            op.verify()
        except MLIRError as error:
            reason = f"it left invalid IR: {_message_of(error)} (this is a bug in the pass)"
            raise PassFailure(instance.name, reason, _location_of(error, op)) from error
        self._verify_dialect(instance.name, op)

    def _verify_dialect(self, name: str, op: ir.Operation) -> None:
        """Checks the invariants of the stepwell dialect that MLIR's verifier does not know."""
        wrong = next(violations(op), None)
        if wrong is not None:
            raise PassFailure(name, f"it left invalid IR: {wrong.message} (this is a bug in the pass)", wrong.location)


def check(anchor: str, elements: Sequence[PassElement]) -> None:
    """Checks in the current context that every pass exists, accepts its options and can run on its op.

    Raises:
        PipelineError: a pass fails the check.
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
        PipelineError: MLIR rejects it.
    """
    try:
        PassManager.parse(f"{anchor}({element})")
    except ValueError as error:
        name = element.anchor if isinstance(element, Nested) else element.name
        raise PipelineError(explain_rejection(name, str(error))) from None


def wrong_anchor(name: str, wanted: str, anchor: str) -> str:
    """The message for a pass at the wrong nesting level, in MLIR's wording."""
    return (
        f"Can't add pass '{name}' restricted to '{wanted}' on a PassManager intended to run on '{anchor}', "
        "did you intend to nest?"
    )


def _expand(element: Upstream, anchor: str) -> Sequence[PassStep | Nested]:
    """The passes of an upstream pipeline such as `buffer-deallocation-pipeline`; a single pass stays as it is."""
    spelt_out = Nested.parse(str(PassManager.parse(f"{anchor}({element})"))).elements
    if len(spelt_out) == 1 and isinstance(spelt_out[0], Upstream) and spelt_out[0].name == element.name:
        return [element]
    return spelt_out


def _limits(op: ir.Operation) -> Mapping[str, Interval]:
    """The limits of the symbolic sizes of a module that is compiled for ranges."""
    if discardable.TABLE.is_on(op):  # all shapes are numbers
        return {}
    return limits_of(discardable.RANGES.read(op, {}))


def _children(op: ir.Operation, anchor: str) -> Iterator[ir.Operation]:
    """The ops called `anchor` directly inside `op`."""
    for region in op.regions:
        for block in region:
            yield from (inner.operation for inner in list(block.operations) if inner.operation.name == anchor)


def _names(elements: Sequence[PassElement]) -> str:
    """The elements as text, for messages that cannot name the exact pass."""
    return ",".join(map(print_element, elements))


def _message_of(error: Any) -> str:
    """The message of an exception; for an `MLIRError`, the diagnostics that no handler received."""
    if isinstance(error, MLIRError):
        return "; ".join(str(diagnostic) for diagnostic in error.error_diagnostics) or "see the diagnostics"
    return str(error)


def _location_of(error: Any, op: ir.Operation) -> ir.Location:
    """The location of the first diagnostic in an exception of the bindings; that of `op` if there is none."""
    return error.error_diagnostics[0].location if error.error_diagnostics else op.location
