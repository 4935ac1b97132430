"""One run of `stepwell-opt`: from the command line to the output, part by part."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from ..passes.infra.bindings import ir
from ..passes.infra.diagnostics import DiagnosticPrinter, DiagnosticVerifier, MLIRError, listening, report_violations
from ..passes.infra.sources import DEFAULT_MARKER, SHORTEST_MARKER, SourceText, read_source, split_source
from ..passes.infra.upstream import bare_context
from ..passes.ir.native import parse_flags
from ..passes.ir.resources import REPRODUCER, AsmResources, read_resources, reproducer_of, with_resources
from . import opt_flags
from .flags import CommandLine, UsageError
from .opt_pipeline import NativePipeline, PipelineText, is_native
from .opt_remarks import RemarkWriter, wants_remarks

if TYPE_CHECKING:
    from ..passes.infra.timing import Timing

_Handler = Callable[[Any], bool]
"""Receives diagnostics, from the bindings or from `native`; both have the same form."""

_HIDDEN = {"errors": ("warning", "remark"), "warnings": ("remark",)}
_OURS = b"stepwell"
_CRASHES = "mlir-pass-pipeline-crash-reproducer"
_MODULE = "builtin.module"


def run(program: str, arguments: Sequence[str], note: Callable[[str], None], one_by_one: bool = False) -> int:
    """Runs the tool and returns its exit code.

    Args:
        program: the name of the tool, for messages.
        arguments: the command line without it.
        note: called with what is about to run, for messages about crashes.
        one_by_one: whether to run and note each pass separately, and write nothing.

    Raises:
        UsageError: the command line is invalid.
        OSError: a file cannot be read or written.
    """
    if isinstance(sys.stderr, io.TextIOWrapper):  # shows lines of the input unchanged
        sys.stderr.reconfigure(encoding="utf-8", errors="surrogateescape")
    line = opt_flags.read_line(program, arguments)
    answer = opt_flags.answer(line)
    if answer is not None:
        print(answer, flush=True)
        return 0
    parse_flags(program, line.for_llvm)
    if one_by_one:
        line.values.pop(_CRASHES, None)
        line.values["o"] = [os.devnull]
    return Tool(program, line, note, one_by_one).run()


class Tool:
    """One run of the tool on an input.

    Args:
        program: its name.
        line: the parsed command line.
        note: called with what is about to run.
        one_by_one: whether to run and note each pass separately.
    """

    def __init__(self, program: str, line: CommandLine, note: Callable[[str], None], one_by_one: bool = False) -> None:
        self._program, self._line, self._note = program, line, note
        text = PipelineText.of(line)
        self._text = text._replace(is_native=False) if one_by_one else text
        self._remarks = RemarkWriter(program, line) if wants_remarks(line) else None
        self._has_colours = "--color" in line.for_llvm or "--color=true" in line.for_llvm

    def run(self) -> int:
        """Processes the input and writes the output; returns the exit code."""
        path = self._line.positionals[0] if self._line.positionals else "-"
        try:
            source = read_source(path)
        except OSError as error:
            print(f"cannot open input file '{path}': {error.strerror}", file=sys.stderr)
            return 1
        reproducer = self._line.get(_CRASHES)
        if reproducer and os.path.isfile(reproducer) and os.path.isfile(path) and os.path.samefile(reproducer, path):
            raise UsageError(
                f"{self._program}: for the --{_CRASHES} option: '{reproducer}' is the input and would be lost"
            )
        with ResultFile(self._line.get("o", "-") or "") as output:
            marker = self._marker()
            if marker is None:
                verifier = self._verifier(source)
                is_good = self._verified(verifier, self._process(source, verifier, output.write))
            else:
                is_good = self._process_parts(source, marker, output.write)
            output.is_kept = is_good
        return 0 if is_good else 1

    def _marker(self) -> str | None:
        marker = self._line.get("split-input-file")
        if marker is not None and 0 < len(marker) < SHORTEST_MARKER:
            message = f"for the --split-input-file option: '{marker}' is shorter than {SHORTEST_MARKER} characters!"
            raise UsageError(f"{self._program}: {message}")
        return DEFAULT_MARKER if marker == "" else marker

    def _process_parts(self, source: SourceText, marker: str, write: Callable[[bytes], None]) -> bool:
        separator = (self._line.get("output-split-marker", DEFAULT_MARKER) or "").encode() + b"\n"
        printer = self._printer(source)
        near_miss = partial(printer.point, severity="warning", message="near miss with file split marker")
        # One verifier checks all parts, whose locations have the file name "-", so unmet expectations come last.
        verifier = self._verifier(SourceText("-", source.title, source.contents))
        parts = list(split_source(source, marker, near_miss))
        is_good = True
        for number, part in enumerate(parts):
            if number:
                write(separator)
            is_good = self._process(part, verifier, write) and is_good
        return self._verified(verifier, is_good)

    def _printer(self, source: SourceText) -> DiagnosticPrinter:
        hidden = _HIDDEN.get(self._line.get("mlir-diagnostic-verbosity-level", "") or "", ())
        return DiagnosticPrinter(source, sys.stderr, hidden, self._has_colours)

    def _verifier(self, source: SourceText) -> DiagnosticVerifier | None:
        """Returns what checks the expectations in a source; None if there are none to check."""
        mode = self._line.get("verify-diagnostics")
        # `mlir-opt` lists unmet expectations even without --verify-diagnostics.
        if mode is None and b"expected-" not in source.contents:
            return None
        return DiagnosticVerifier(source, sys.stderr, mode == "only-expected")

    def _verified(self, verifier: DiagnosticVerifier | None, is_good: bool) -> bool:
        """Lists unmet expectations; returns whether the input was compiled, or failed as expected."""
        is_met = verifier is None or verifier.finish()
        return is_good and (is_met or self._line.get("verify-diagnostics") is None)

    def _process(self, source: SourceText, verifier: DiagnosticVerifier | None, write: Callable[[bytes], None]) -> bool:
        """Compiles one part of the input and writes the result; returns whether it succeeded or is to be verified."""
        context = self._context(source)
        if context is None:
            return False
        is_verified = verifier is not None and self._line.get("verify-diagnostics") is not None
        handler = verifier if verifier is not None and is_verified else self._printer(source)
        with context, listening(context, handler):
            return self._compile(source, handler, write) or is_verified

    def _context(self, source: SourceText) -> ir.Context | None:
        """Returns a new context with the dialects that the source may use; None, after a message, if loading fails."""
        context = bare_context()
        # Diagnostics go to our handler as they are emitted, and not into exceptions.
        context.emit_error_diagnostics = True
        if _OURS in source.contents or not self._text.is_native or "compile-to" in self._line.values:
            _load_stepwell(context)
        path = self._line.get("irdl-file")
        if path and not _load_irdl(context, path):
            return None
        context.allow_unregistered_dialects = self._line.has("allow-unregistered-dialect")
        return context

    def _compile(self, source: SourceText, handler: _Handler, write: Callable[[bytes], None]) -> bool:
        timing = self._timing()
        try:
            with _measured(timing, "Parser"), _reported(source):
                parsed = source.parse(not self._line.has("no-implicit-module"))
            root = parsed.operation
            if _OURS in source.contents and report_violations(root):
                return False
            if self._line.has("verify-roundtrip") and not self._is_stable(root):
                return False
            resources = read_resources(source.text) if b"external_resources" in source.contents else {}
            text = self._text
            if self._line.has("run-reproducer"):
                text = text.with_reproducer(reproducer_of(resources))
                resources.pop(REPRODUCER, None)
            if not self._transform(parsed, text, timing, handler):
                return False
            with _measured(timing, "Output"):
                output = self._output(root, source, resources)
            if output is not None:
                write(output)
            return output is not None
        except MLIRError:  # the parser has reported it
            return False
        finally:
            if timing is not None:
                is_list = self._line.get("mlir-timing-display") == "list"
                is_json = self._line.get("mlir-output-format") == "json"
                print(timing.report(is_list, is_json), end="", file=sys.stderr)

    def _timing(self) -> Timing | None:
        if not self._line.has("mlir-timing"):
            return None
        from ..passes.infra.timing import Timing

        return Timing()

    def _is_stable(self, root: ir.Operation) -> bool:
        """Returns whether the IR survives a round trip through bytecode; reports any difference."""
        buffer = io.BytesIO()
        root.write_bytecode(buffer)
        context = bare_context()
        path = self._line.get("irdl-file")
        if path:
            _load_irdl(context, path)
        context.allow_unregistered_dialects = root.context.allow_unregistered_dialects
        try:
            again = SourceText("", "", buffer.getvalue()).parse(root.name == _MODULE, context)
        except MLIRError:
            root.location.emit_error(f"'{root.name}' op failed to parse bytecode back, cannot verify round-trip.\n")
            return False
        before, after = (_reference_text(op) for op in (root, again.operation))
        if before == after:
            return True
        root.location.emit_error(
            f"'{root.name}' op roundTrip testing roundtripped module differs from reference:\n<<<<<<Reference\n"
            f"{before}\n=====\n{after}\n>>>>>roundtripped\n"
        )
        return False

    def _transform(
        self, parsed: ir.Module | ir.Operation, text: PipelineText, timing: Timing | None, handler: _Handler
    ) -> bool:
        is_plain = "compile-to" not in self._line.values and self._remarks is None
        if is_plain and is_native(text, self._line):
            return NativePipeline(self._line, text, self._note, handler).run(parsed.operation)
        from .opt_passes import PythonPipeline  # loads the dialect, numpy, and the runner of Python passes

        return PythonPipeline(self._program, self._line, text, self._note, timing, self._remarks).run(parsed)

    def _output(self, root: ir.Operation, source: SourceText, resources: AsmResources) -> bytes | None:
        """Returns the result as text, or as bytecode if requested; None, after a message, if that fails."""
        version = self._line.number("emit-bytecode-version")
        if self._line.has("emit-bytecode"):
            buffer = io.BytesIO()
            try:
                root.write_bytecode(buffer, version)
            except ValueError:  # a diagnostic has reported it
                return None
            return buffer.getvalue()
        if version is not None:
            ir.Location.unknown().emit_error("bytecode version while not emitting bytecode")
            return None
        if not resources and not source.is_part:
            return bytes(root.get_asm(binary=True)) + b"\n"  # pyright: ignore[reportArgumentType]
        text = str(root.get_asm())
        if source.is_part and self._line.has("mlir-print-debuginfo"):
            # The bindings parse a part under the name "-".
            text = text.replace('"-":', f'"{source.title}":')
        limit = self._line.number("mlir-elide-resource-strings-if-larger")
        return f"{with_resources(text, resources, limit)}\n".encode()


def _reported(source: SourceText) -> AbstractContextManager[None]:
    """Reports IR that MLIR's parser rejects without a message."""
    if _OURS not in source.contents:
        return nullcontext()
    from ..passes.infra.custom_forms import reported_custom_forms  # not loaded for IR without our ops

    return reported_custom_forms(source.filename, source.contents)


@contextmanager
def _measured(timing: Timing | None, name: str) -> Iterator[None]:
    """Adds the duration of a step to the timing report, if there is one."""
    started = time.perf_counter()
    try:
        yield
    finally:
        if timing is not None:
            timing.phase(name, time.perf_counter() - started)


def _reference_text(op: ir.Operation) -> str:
    return str(op.get_asm(print_generic_op_form=True, enable_debug_info=True))


def _load_stepwell(context: ir.Context) -> None:
    from ..dialects.registry import load_dialects
    from ..passes.infra.entry_points import load_entry_points

    load_entry_points()
    context.load_all_available_dialects()
    load_dialects(context)


def _load_irdl(context: ir.Context, path: str) -> bool:
    """Defines the dialects in an IRDL file; returns whether that succeeded, after a message if not."""
    from mlir._mlir_libs._mlirDialectsIRDL import load_dialects  # pyright: ignore[reportMissingModuleSource]

    try:
        source = read_source(path)
    except OSError as error:
        print(f"error: cannot open input file '{path}': {error.strerror}", file=sys.stderr)
        return False
    with context, listening(context, DiagnosticPrinter(source, sys.stderr)):
        try:
            load_dialects(source.parse())
        except (MLIRError, ValueError, RuntimeError):
            return False
    return True


class ResultFile:
    """The destination of the result: checked for write access before the work starts, written once it has succeeded.

    Attributes:
        is_kept: whether the work has succeeded.
    """

    def __init__(self, path: str) -> None:
        self._path, self._pieces, self.is_kept = path, [], False

    def __enter__(self) -> ResultFile:
        if self._path == "-":
            return self
        self._is_new = not os.path.exists(self._path)
        try:
            with open(self._path, "ab"):
                pass
        except OSError as error:
            raise UsageError(f"cannot open output file '{self._path}': {error.strerror}") from None
        return self

    def write(self, contents: bytes) -> None:
        """Adds a piece of the result; on the standard output it appears at once."""
        if self._path != "-":
            self._pieces.append(contents)
            return
        sys.stdout.buffer.write(contents)
        sys.stdout.flush()

    def __exit__(self, *_: object) -> None:
        if self._path == "-":
            return
        if self.is_kept:
            with open(self._path, "wb") as file:
                file.writelines(self._pieces)
        elif self._is_new:
            os.unlink(self._path)
