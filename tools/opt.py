"""`stepwell-opt`: runs upstream and Stepwell passes on MLIR, with the flags and formats of `mlir-opt`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from .. import dialects  # noqa: F401  (before anything else imports MLIR)

# isort: split
from mlir import ir

from ..dialects.stepwell import STEPWELL
from ..passes.base import PassError
from ..passes.diagnostics import DiagnosticPrinter, DiagnosticVerifier, MLIRError, listening, report_violations
from ..passes.instrumentation import Instrumentation
from ..passes.options import PipelineError
from ..passes.pipeline import Pipeline
from ..passes.reproducer import Reproducer, read_reproducer
from ..passes.runner import PassFailure, Runner, check
from ..passes.sources import Source, read_source, split_source
from ..passes.timing import Timing
from . import opt_flags
from .flags import CommandLine, UsageError, parse
from .supervisor import Supervisor

NAME = "stepwell-opt"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    supervisor = Supervisor()
    return supervisor.run(NAME, lambda: _main(sys.argv[1:] if arguments is None else arguments, supervisor))


def _main(arguments: Sequence[str], supervisor: Supervisor) -> int:
    try:
        line = parse(arguments, opt_flags.FLAGS)
        opt_flags.load_plugins(line)
        answer = _answer(line)
        if answer is None:
            return Tool(line, supervisor).run()
        print(answer, flush=True)
        return 0
    except (UsageError, PipelineError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    except MemoryError:
        print(f"{NAME}: there is not enough memory", file=sys.stderr)
        return 1
    except OSError as error:
        return _report_os_error(error)


def _report_os_error(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has had enough; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif error.filename is None:
        print(f"{NAME}: cannot read or write: {error.strerror}", file=sys.stderr)
    else:
        print(f"{NAME}: cannot open file '{error.filename}': {error.strerror}", file=sys.stderr)
    return 1


def _answer(line: CommandLine) -> str | None:
    """The answer to a question about the tool itself."""
    if line.has("version"):
        return f"Stepwell {version('stepwell')} on MLIR {version('xtc-mlir-python-bindings')}"
    if line.has("help"):
        return opt_flags.help_text()
    if line.has("list-passes"):
        return opt_flags.list_passes().rstrip()
    if line.has("show-dialects"):
        return "Available Dialects: " + ",".join(_dialects())
    return None


def _dialects() -> list[str]:
    """The names of all dialects. MLIR lists them only where it refuses one."""
    context = ir.Context()
    STEPWELL.load(context)
    with context:
        try:
            ir.Module.parse("no_such_dialect.op")
        except MLIRError as error:
            listed = str(error).partition("Available dialects: ")[2].partition(";")[0]
            return [name.partition(" (")[0].strip() for name in listed.split(",")]
    return []


@dataclass(frozen=True)
class Tool:
    """One run of the tool."""

    line: CommandLine
    supervisor: Supervisor

    def run(self) -> int:
        """Processes the input and writes the output; returns the exit code."""
        reproducer = None if self.line.has("run-reproducer") else self._from_flags()
        source = read_source(self.line.positionals[0] if self.line.positionals else "-")
        reproducer = reproducer or read_reproducer(source.text)
        marker = self.line.values.get("split-input-file")
        parts = [source] if marker is None else list(split_source(source, marker))
        results = [self._process(part, reproducer) for part in parts]
        separator = self.line.values.get("output-split-marker", marker or "")
        self._write(f"{separator}\n".encode().join(output for output, _ in results))
        return 0 if all(is_good for _, is_good in results) else 1

    def _from_flags(self) -> Reproducer:
        """The pipeline with how to run it, checked before anything is read."""
        pipeline = self._pipeline()
        with ir.Context():
            check(pipeline.anchor, pipeline.elements)
        return Reproducer(pipeline, self.line.has("mlir-disable-threading"), self.line.has("verify-each", default=True))

    def _pipeline(self) -> Pipeline:
        text = self.line.values.get("pass-pipeline")
        if text is None:
            return Pipeline(opt_flags.nest(self.line.passes))
        if self.line.passes:
            raise UsageError("'-pass-pipeline' option can't be used with individual pass options")
        return Pipeline.parse(text)

    def _process(self, source: Source, reproducer: Reproducer) -> tuple[bytes, bool]:
        """The output for one part of the input, and whether all went as it should."""
        context = ir.Context()
        context.allow_unregistered_dialects = self.line.has("allow-unregistered-dialect")
        # Diagnostics go to our handler as they come, and not into exceptions.
        context.emit_error_diagnostics = True
        STEPWELL.load(context)
        mode = self.line.values.get("verify-diagnostics")
        with context:
            if mode is None:
                printer = DiagnosticPrinter(source, sys.stderr)
                with listening(context, printer):
                    return self._compile(source, reproducer, printer)
            verifier = DiagnosticVerifier(source, sys.stderr, mode == "only-expected")
            with listening(context, verifier):
                output, _ = self._compile(source, reproducer, None)
            return output, verifier.finish()

    def _compile(self, source: Source, reproducer: Reproducer, printer: DiagnosticPrinter | None) -> tuple[bytes, bool]:
        timing = Timing() if self.line.has("mlir-timing") else None
        try:
            root = source.parse(not self.line.has("no-implicit-module"))
        except MLIRError:
            if printer is not None and not printer.had_error:  # MLIR says nothing of an op in a syntax that it has not
                printer.print(ir.Location.file(source.filename, 1, 1), "error", "cannot be parsed", show_line=False)
            return b"", False
        if report_violations(root.operation):
            return b"", False
        try:
            self._transform(root, reproducer, timing)
        except PassFailure as failure:
            self._report(failure, printer)
            return b"", False
        except PassError as error:
            (error.location or root.operation.location).emit_error(str(error))
            return b"", False
        finally:
            if timing is not None:
                print(timing.report(self.line.values.get("mlir-timing-display") == "list"), file=sys.stderr)
        return opt_flags.output_of(root.operation, self.line), True

    def _transform(self, root: ir.Module | ir.Operation, reproducer: Reproducer, timing: Timing | None) -> None:
        watchers = [*opt_flags.instrumentation(self.line), *([] if timing is None else [timing])]
        if "compile-to" in self.line.values:
            self._run_phases(root, watchers)
            return
        if self.line.has("dump-pass-pipeline"):
            count = len(reproducer.pipeline.elements)
            print(f"Pass Manager with {count} passes:\n{reproducer.pipeline}\n", file=sys.stderr)
        runner = Runner(watchers, reproducer.verify_each, opt_flags.statistics(self.line), self.supervisor.note)
        path = self.line.values.get("mlir-pass-pipeline-crash-reproducer")
        if path is None:
            runner.run(reproducer.pipeline, root.operation)
            return
        # Written before and removed after: so it is there however badly the pipeline ends.
        Path(path).write_text(reproducer.print(str(root)), encoding="utf-8")
        runner.run(reproducer.pipeline, root.operation)
        Path(path).unlink()

    def _run_phases(self, root: ir.Module | ir.Operation, watchers: Sequence[Instrumentation]) -> None:
        # Not needed otherwise, and it loads every pass there is.
        from ..lowering import phases

        if not isinstance(root, ir.Module):
            raise UsageError("--compile-to needs a module")
        values = self.line.values
        start, target = values.get("compile-from", "import"), values.get("target", "cpu")
        try:
            phases.between(start, values["compile-to"], target)
        except ValueError as error:
            raise UsageError(str(error)) from None
        phases.run(root, target, start, values["compile-to"], watchers)

    def _report(self, failure: PassFailure, printer: DiagnosticPrinter | None) -> None:
        """Tells of a failure what the diagnostics have not told."""
        if not failure.is_reported:
            failure.location.emit_error(str(failure))
        elif printer is not None and not printer.had_error:
            failure.location.emit_error(f"pass '{failure.pass_name}' failed without saying why")
        elif printer is not None:
            print(f"{NAME}: pass '{failure.pass_name}' failed", file=sys.stderr)
        path = self.line.values.get("mlir-pass-pipeline-crash-reproducer")
        if path is not None and printer is not None:
            print(f"{NAME}: reproducer generated at `{path}`", file=sys.stderr)
        if os.environ.get("STEPWELL_DEBUG", "0") != "0":
            traceback.print_exception(failure)

    def _write(self, output: bytes) -> None:
        path = self.line.values.get("o", "-")
        if path != "-":
            Path(path).write_bytes(output)
            return
        sys.stdout.buffer.write(output)
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
