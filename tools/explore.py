"""`stepwell-explore`: every level of a compile in one HTML file."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..passes.note import SharedNote, signal_of
from . import arguments
from .flags import UsageError
from .supervisor import run_child

if TYPE_CHECKING:
    from ..explain.explore.explorer import Exploration

NAME = "stepwell-explore"
_DESCRIPTION = """Compiles a model and writes all that happened into one HTML file: the graph, the IR after every
pass, what each pass changed, and machine code, all of it by the model's ops.

    stepwell-explore rec.onnx -o report.html --shape x=1x3x48x320
    stepwell-explore input.mlir -o report.html --pass-pipeline='builtin.module(canonicalize,cse)'

A compile that fails, or even crashes, is shown as far as it came, and the exit code is 1."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 where the compile failed, though the file may be there."""
    options = _parser().parse_args(argv)
    tell = arguments.tells(options)
    if argv is not None or not hasattr(os, "fork"):
        return arguments.run_tool(NAME, lambda: _run(options), tell)
    note = SharedNote()
    status = run_child(lambda: arguments.run_tool(NAME, lambda: _run(options, note), tell))
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    message = f"native code crashed ({signal_of(status)})"
    if not note.text or status in (signal.SIGKILL, signal.SIGTERM):  # no pass has begun, or somebody ended it
        print(f"{NAME}: error: {message}", file=sys.stderr)
        if tell is not None:
            tell({"schema": 1, "reason": message, "crash": signal_of(status)})
        return 1
    return arguments.run_tool(NAME, lambda: _run(options, crash=(int(note.text), message)), tell)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", help="an ONNX file, or MLIR")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: the model's name with .html")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="of a dynamic input")
    parser.add_argument("--target", default="cpu", help="cpu (this machine), x86-64-v3, ... (default: %(default)s)")
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="run this on MLIR, instead of compiling")
    parser.add_argument("--no-assembly", action="store_true", help="leave out machine code")
    parser.add_argument("--profile", action="store_true", help="run the model on random inputs: measured times")
    arguments.add_fallback(parser)
    parser.add_argument("--json", action="store_true", help="say as JSON what was written")
    return parser


def _ignore(text: str) -> None:
    pass


def _run(
    options: argparse.Namespace, note: Callable[[str], None] = _ignore, crash: tuple[int, str] | None = None
) -> int:
    from ..explain.explore.page import render  # not needed for --help, and what comes with it takes a while

    exploration = _explore(options, note, crash)
    path = Path(options.output or Path(options.model).with_suffix(".html").name)
    # Names of files may be no text.
    path.write_text(render(exploration.record), encoding="utf-8", errors="replace")
    summary = _summary(exploration, path)
    if options.json:
        print(json.dumps(summary))
    else:
        print(f"{path}: {summary['bytes'] / 1e6:.1f} MB, {summary['ops']} ops, {summary['passes']} passes")
    if exploration.error:
        print(f"{NAME}: error: {exploration.error}", file=sys.stderr)
    return 1 if exploration.error else 0


def _explore(options: argparse.Namespace, note: Callable[[str], None], crash: tuple[int, str] | None) -> Exploration:
    from ..explain.explore import explorer
    from ..explain.explore.recorder import CrashSite
    from ..passes.pipeline import Pipeline

    site = None if crash is None else CrashSite(*crash)
    if options.pass_pipeline is not None:
        return explorer.explore_pipeline(options.model, Pipeline.parse(options.pass_pipeline), note, site)
    sets = arguments.parse_shape_sets(options.shape)
    if len(sets) > 1:
        raise UsageError("takes one --shape for each input")
    if options.profile and options.target.startswith("cuda:"):
        raise UsageError("--profile: code for GPUs has none, see docs/profile.md")
    chosen = {"fallback": options.fallback}
    assembly = not options.no_assembly
    exploration = explorer.explore_model(options.model, sets[0], options.target, assembly, chosen, note, site)
    if options.profile and exploration.executable is not None:
        inputs = arguments.made_up_inputs(exploration.executable.inputs, sets[0], np.random.default_rng(0))
        explorer.add_profile(exploration, inputs)
    return exploration


def _summary(exploration: Exploration, path: Path) -> dict[str, Any]:
    pieces = exploration.record["pieces"]
    steps = [step for piece in pieces for step in piece["steps"]]
    return {
        "schema": 1,
        "file": str(path),
        "bytes": path.stat().st_size,
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
