"""`stepwell-opt`: runs upstream and Stepwell passes on MLIR text, with the flags and formats of `mlir-opt`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from mlir import ir

from ..dialects.stepwell import STEPWELL
from ..passes.diagnostics import DiagnosticPrinter, DiagnosticVerifier, Source
from ..passes.options import PipelineError
from ..passes.pipeline import Pipeline
from ..passes.runner import PassFailure, Runner
from . import flags
from .flags import CommandLine, Flag, UsageError

DEFAULT_MARKER = "// -----"


FLAGS = (
    Flag("o", "where to write the result", "file"),
    Flag("pass-pipeline", "the passes to run, as builtin.module(pass,func.func(pass,...))", "text"),
    Flag("split-input-file", "treat the parts between markers as files of their own", "marker", DEFAULT_MARKER),
    Flag("verify-diagnostics", "check the diagnostics against expected-* comments", "all|only-expected", "all"),
    Flag("verify-each", "verify after every pass (default: true)"),
    Flag("allow-unregistered-dialect", "accept ops of unknown dialects"),
    Flag("mlir-print-op-generic", "print the generic form of ops"),
    Flag("mlir-print-debuginfo", "print locations"),
    Flag("mlir-print-local-scope", "print attributes and types inline, without aliases"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    try:
        return _main(flags.parse(sys.argv[1:] if arguments is None else arguments, FLAGS))
    except (UsageError, PipelineError) as error:
        print(f"stepwell-opt: {error}", file=sys.stderr)
        return 1


def _main(line: CommandLine) -> int:
    text = line.values.get("pass-pipeline")
    pipeline = Pipeline(line.passes) if text is None else Pipeline.parse(text)
    name = line.positionals[0] if line.positionals else "-"
    contents = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    marker = line.values.get("split-input-file")
    if marker is None:
        sources = [Source(name, "<stdin>" if name == "-" else name, contents)]
    else:
        sources = _split(name, contents, marker)
    results = [_process(source, pipeline, line) for source in sources]
    output = f"{marker}\n".join(text for text, _ in results)
    if line.values.get("o", "-") == "-":
        sys.stdout.write(output)
    else:
        Path(line.values["o"]).write_text(output, encoding="utf-8")
    return 0 if all(is_good for _, is_good in results) else 1


def _split(name: str, text: str, marker: str) -> list[Source]:
    title = "<stdin>" if name == "-" else name
    sources, line = [], 1
    for chunk in re.split(rf"^{re.escape(marker)}.*\n", text, flags=re.MULTILINE):
        sources.append(Source("-", f"within split at {title}:{line} offset ", chunk))
        line += chunk.count("\n") + 1
    return sources


def _process(source: Source, pipeline: Pipeline, line: CommandLine) -> tuple[str, bool]:
    with ir.Context() as context:
        context.allow_unregistered_dialects = line.has("allow-unregistered-dialect")
        context.emit_error_diagnostics = True
        STEPWELL.load(context)
        verifier = None
        if "verify-diagnostics" in line.values:
            only_expected = line.values["verify-diagnostics"] == "only-expected"
            verifier = DiagnosticVerifier(source, sys.stderr, only_expected)
        handler = context.attach_diagnostic_handler(verifier or DiagnosticPrinter(source, sys.stderr))
        try:
            output, is_good = _run(source, pipeline, line)
        finally:
            handler.detach()
        if verifier is not None:
            return output, verifier.finish()
        return output, is_good


def _run(source: Source, pipeline: Pipeline, line: CommandLine) -> tuple[str, bool]:
    try:
        module = ir.Module.parse(source.text) if source.filename == "-" else ir.Module.parseFile(source.filename)
    except ir.MLIRError:
        return "", False
    try:
        Runner(verify=line.values.get("verify-each") not in ("0", "false")).run(pipeline, module.operation)
    except PassFailure as failure:
        if not failure.is_reported:
            failure.location.emit_error(str(failure))
        return "", False
    except PipelineError as error:
        print(f"stepwell-opt: {error}", file=sys.stderr)
        return "", False
    return str(
        module.operation.get_asm(
            print_generic_op_form=line.has("mlir-print-op-generic"),
            enable_debug_info=line.has("mlir-print-debuginfo"),
            use_local_scope=line.has("mlir-print-local-scope"),
        )
    ) + "\n", True


if __name__ == "__main__":
    sys.exit(main())
