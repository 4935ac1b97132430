"""`stepwell-explore`: every level of a compile in one HTML file."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..passes.infra.progress_note import SharedNote, signal_of
from ..runtime.program import Shape
from . import arguments, model_options, running, training_step
from .console import progress
from .flags import UsageError
from .model_options import Given
from .outputs import PAGE, OutputFile, Outputs, default_name
from .supervisor import run_child

if TYPE_CHECKING:
    from ..explain.explore.explorer import Exploration

NAME = "stepwell-explore"
_DESCRIPTION = """Compiles a model and writes every step into one HTML file: the graph, the IR after every pass,
what each pass changed, and machine code, all of it linked to the model's ops.

    stepwell-explore rec.onnx -o report.html --shape x=1x3x48x320
    stepwell-explore input.mlir -o report.html --pass-pipeline='builtin.module(canonicalize,cse)'

A compile that fails or crashes is shown up to that point, and the exit code is 1."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 if the compile failed, even if the file was written."""
    options = _parser().parse_args(argv)
    if argv is not None or not hasattr(os, "fork"):
        return running.run_with(NAME, _run, options)
    note = SharedNote()
    status = run_child(lambda: running.run_with(NAME, lambda options: _run(options, note), options))
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    message = f"native code crashed ({signal_of(status)})"
    if not note.text or status in (
        signal.SIGKILL,
        signal.SIGTERM,
    ):  # no pass has begun, or it was terminated from outside
        print(f"{NAME}: error: {message}", file=sys.stderr)
        if (print_record := running.record_printer(options)) is not None:
            print_record({"schema": 1, "kind": "compile", "reason": message, "crash": signal_of(status)})
        return 1
    return running.run_with(NAME, lambda options: _run(options, crash=(int(note.text), message)), options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", help=arguments.MODEL)
    parser.add_argument("-o", "--output", metavar="FILE", help="default: the model's name with .html")
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="run these passes on MLIR instead of compiling")
    parser.add_argument("--no-assembly", action="store_true", help="leave out machine code")
    parser.add_argument("--profile", action="store_true", help="run the model on random inputs and add measured times")
    model_options.add_model_options(parser)
    model_options.add_fields(parser, "fallback")
    training_step.add_training_options(parser)
    model_options.add_output_options(parser)
    return parser


def _ignore(text: str) -> None:
    pass


def _run(
    options: argparse.Namespace, note: Callable[[str], None] = _ignore, crash: tuple[int, str] | None = None
) -> int:
    from ..explain.explore.page import render  # not needed for --help, and slow to import

    outputs = Outputs(options.model, *arguments.files_of(options.input))
    output = outputs.claim("-o", options.output or default_name(options.model, ".html"), PAGE)
    if options.json and output.is_stdout:
        raise UsageError("--json and -o - both write to the standard output")
    exploration = _explore(options, note, crash)
    page = render(exploration.record).encode(errors="replace")  # file names may not be valid text
    output.write_bytes(page)
    summary = _summary(exploration, output, len(page))
    with outputs.messages():
        if options.json:
            print(json.dumps(summary))
        else:
            print(f"{output.path}: {len(page) / 1e6:.1f} MB, {summary['ops']} ops, {summary['passes']} passes")
    if exploration.error:
        print(f"{NAME}: error: {exploration.error}", file=sys.stderr)
    return 1 if exploration.error else 0


def _explore(options: argparse.Namespace, note: Callable[[str], None], crash: tuple[int, str] | None) -> Exploration:
    from ..explain.explore import explorer
    from ..explain.explore.recorder import CrashSite
    from ..passes.infra.pipeline import Pipeline

    site = None if crash is None else CrashSite(*crash)
    if options.pass_pipeline is not None:
        return explorer.explore_pipeline(options.model, Pipeline.parse(options.pass_pipeline), note, site)
    if training_step.is_training(options, "profile"):
        with progress(options, f"exploring the training step of {options.model}"):
            # Instrumentation would record the compiles of plans, too.
            fields = {"winograd": not options.no_winograd}
            step = training_step.step_module(options, fields)
            request = (options.model, None, options.target, not options.no_assembly, fields, note, site)
            return explorer.explore_model(*request, step=step)
    given = Given.read(options)
    if options.profile and options.target.startswith("cuda:"):
        raise UsageError("--profile does not support GPUs, see docs/profile.md")
    chosen = {"fallback": options.fallback, "dims": given.dims, "winograd": not options.no_winograd}
    shapes = _complete(options.model, given)
    request = (options.model, shapes, options.target, not options.no_assembly, chosen, note, site, given.arrays)
    with progress(options, f"exploring {options.model}"):
        exploration = explorer.explore_model(*request)
    executable = exploration.executable
    if options.profile and executable is not None:
        sizes, _ = model_options.sizes_of_artefact(executable)
        inputs = given.all_inputs(executable.inputs, np.random.default_rng(0), sizes)
        explorer.add_profile(exploration, inputs)
    return exploration


def _complete(model: str, given: Given) -> dict[str, Shape]:
    """Returns a shape for each input whose shape varies, after checking the given names."""
    from ..driver.sources.reading import read_source

    if not given.shapes:
        return {}
    return given.complete(read_source(model).interface()[0])


def _summary(exploration: Exploration, output: OutputFile, size: int) -> dict[str, Any]:
    pieces = exploration.record["pieces"]
    steps = [step for piece in pieces for step in piece["steps"]]
    return {
        "schema": 1,
        "file": str(output.path),
        "bytes": size,
        "seconds": exploration.record["seconds"],
        "pieces": len(pieces),
        "ops": sum(len(piece["graph"]["nodes"]) for piece in pieces),
        "kernels": sum(len(piece["kernels"]) for piece in pieces),
        "passes": len(steps),
        "changed": sum("state" in step for step in steps),
        "error": exploration.error,
    }


if __name__ == "__main__":
    sys.exit(main())
