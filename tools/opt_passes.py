"""Pipelines of `stepwell-opt` with Python passes or Python instrumentation: each pass runs by itself."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from .. import dialects  # noqa: F401  (before anything else imports MLIR)

# isort: split
from mlir import ir
from mlir.passmanager import PassDisplayMode

from ..passes.infra.base import PassError
from ..passes.infra.discovery import find_pass
from ..passes.infra.instrumentation import Instrumentation, PrintFlags, PrintIR, always, never
from ..passes.infra.options import PipelineError
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.reproducer import Reproducer
from ..passes.infra.runner import PassFailure, PipelineRunner, check
from ..passes.infra.state import CompileState
from ..passes.infra.timing import Timing
from ..support import environment
from .flags import CommandLine, UsageError
from .opt_pipeline import PipelineText, emit, single_passes
from .opt_remarks import RemarkWriter


class PythonPipeline:
    """A pipeline that Python runs.

    Args:
        program: the name of the tool, for messages.
        line: the parsed command line.
        text: the pipeline.
        note: called with the name of what is about to run.
        timing: measures the passes; None if nothing is measured.
        remarks: writes the remarks of the passes; None if none are requested.
    """

    def __init__(
        self,
        program: str,
        line: CommandLine,
        text: PipelineText,
        note: Callable[[str], None],
        timing: Timing | None,
        remarks: RemarkWriter | None = None,
    ) -> None:
        self._program, self._line, self._text, self._note, self._timing = program, line, text, note, timing
        self._remarks, self._state = remarks, self._new_state()

    def _new_state(self) -> CompileState:
        """Returns the state of a compile for `--target`.

        Raises:
            UsageError: there is no such target.
        """
        target = self._line.get("target") or ("cpu" if "compile-to" in self._line.values else None)
        if target is None:
            return CompileState()
        # Imported only here, because it loads LLVM.
        from ..driver.state import state_for

        try:
            return state_for(target)
        except ValueError as error:
            raise UsageError(f"{self._program}: {error}") from None

    def run(self, parsed: ir.Module | ir.Operation) -> bool:
        """Runs the pipeline on a module or another op; returns whether it succeeded, after messages if not."""
        root = parsed.operation
        try:
            if "compile-to" in self._line.values:
                self._run_phases(parsed)
            else:
                self._run_passes(root)
        except PipelineError as error:
            emit(str(error))
        except PassFailure as failure:
            self._report(failure)
        except PassError as error:
            (error.location or root.location).emit_error(str(error))
        else:
            return True
        finally:
            if self._remarks is not None:
                self._remarks.write(self._state.remarks)
        return False

    def _run_passes(self, root: ir.Operation) -> None:
        pipeline = self._pipeline(root.name)
        check(pipeline.anchor, pipeline.elements)
        if self._line.has("dump-pass-pipeline"):
            print(f"Pass Manager with {len(pipeline.elements)} passes:\n{pipeline}\n", file=sys.stderr)
        # With any instrumentation, each pass runs and is noted separately.
        instrumentation = self._instrumentation() or [Instrumentation()]
        options = self._text.verify_each, self._statistics(), self._note
        runner = PipelineRunner(instrumentation, *options, state=self._state)
        path = self._line.get("mlir-pass-pipeline-crash-reproducer")
        if not path:
            runner.run(pipeline.anchor, pipeline.elements, root)
            return
        # Written before and removed after the run, so that it remains if the pipeline crashes.
        reproducer = Reproducer(pipeline, not self._text.is_threaded, self._text.verify_each)
        Path(path).write_text(reproducer.print(str(root)), encoding="utf-8")
        runner.run(pipeline.anchor, pipeline.elements, root)
        Path(path).unlink()

    def _pipeline(self, anchor: str) -> Pipeline:
        text, passes = self._text.text, self._text.passes
        if text is not None and passes:
            raise PipelineError("'-pass-pipeline' option can't be used with individual pass options")
        if text is not None:
            return Pipeline.parse(text)
        native = Pipeline.parse(self._text.reproduced).elements if self._text.reproduced else ()
        return Pipeline([*native, *(_element(anchor, name, options) for name, options in passes)], anchor)

    def _instrumentation(self) -> list[Instrumentation]:
        """Returns the instrumentation that prints the requested IR, and that measures."""
        line = self._line
        before, after = self._selector("before"), self._selector("after")
        on_failure = line.has("mlir-print-ir-after-failure")
        instrumentation: list[Instrumentation] = [] if self._timing is None else [self._timing]
        if before is never and after is never and not on_failure:
            return instrumentation
        folder = line.get("mlir-print-ir-tree-dir")
        printing = PrintIR(
            before=before,
            after=after,
            only_on_change=line.has("mlir-print-ir-after-change"),
            on_failure=on_failure,
            module_scope=line.has("mlir-print-ir-module-scope"),
            flags=PrintFlags(),
            folder=Path(folder) if folder else None,
        )
        return [printing, *instrumentation]

    def _selector(self, when: str) -> Callable[[str], bool]:
        if self._line.has(f"mlir-print-ir-{when}-all"):
            return always
        values = self._line.values.get(f"mlir-print-ir-{when}", ())
        names = [name for value in values for name in value.split(",")]
        return names.__contains__ if names else never

    def _statistics(self) -> PassDisplayMode | None:
        if not self._line.has("mlir-pass-statistics"):
            return None
        is_list = self._line.get("mlir-pass-statistics-display") == "list"
        return PassDisplayMode.LIST if is_list else PassDisplayMode.PIPELINE

    def _run_phases(self, parsed: ir.Module | ir.Operation) -> None:
        # Imported only here, because it loads every pass.
        from ..driver import route

        if not isinstance(parsed, ir.Module):
            raise UsageError(f"{self._program}: --compile-to needs a module")
        start, end = self._line.get("compile-from") or "import", self._line.get("compile-to") or ""
        try:
            route.between(start, end, self._state.target)
        except ValueError as error:
            raise UsageError(f"{self._program}: {error}") from None
        self._state.instrumentation = self._instrumentation()
        route.run(parsed, self._state, start, end)

    def _report(self, failure: PassFailure) -> None:
        """Reports a failure, unless a diagnostic already has."""
        if not failure.is_reported:
            failure.location.emit_error(str(failure))
        path = self._line.get("mlir-pass-pipeline-crash-reproducer")
        if path:
            print(
                f"{self._program}: pass '{failure.pass_name}' failed: reproducer generated at `{path}`", file=sys.stderr
            )
        if environment.debug_level():
            traceback.print_exception(failure)


def _element(anchor: str, name: str, options: str) -> str:
    python_pass = find_pass(name)
    if python_pass is None:
        return single_passes(anchor, ((name, options),))
    element = f"{name}{{{options}}}" if options else name
    return element if python_pass.anchor in (anchor, "any") else f"{python_pass.anchor}({element})"
