"""`stepwell-bisect`: finds the op, kernel and pass that make a model's numbers wrong."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..runtime.program import TensorInfo
from . import arguments
from .console import duration, print_table, progress
from .flags import UsageError

if TYPE_CHECKING:
    from ..explain.bisect.result import Bisection, Fault

NAME = "stepwell-bisect"
_DESCRIPTION = """Finds what makes a model's numbers wrong: the op, the kernel, the pass and the rewrite in it.

    --inputs x.npz                      the inputs by name; or one .npy file, for a model of one input
    --input x=1x3x48x320xf32:random     as of stepwell-run

Inputs that are not given are made up at random where their shape is fixed. The exit code is 0 where no number is
wrong, 1 where one is, 2 where the command is wrong."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 where numbers are wrong."""
    options = _parser().parse_args(argv)
    if argv is not None:
        return arguments.run_tool(NAME, lambda: _run(options), arguments.tells(options))
    return arguments.run_supervised_tool(NAME, lambda: _run(options), options.target, arguments.tells(options))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", help="an .onnx file, or an .mlir file in the phase import or graph")
    parser.add_argument("--inputs", metavar="FILE", help="the inputs: an .npz file, or an .npy file of the only one")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="contents of an input")
    parser.add_argument("--seed", type=arguments.natural, default=0, help="of random inputs (default: %(default)s)")
    parser.add_argument("--reference", choices=("onnxruntime", "numpy"), help="what the importer is compared with")
    parser.add_argument("--rtol", type=arguments.amount, help="relative error that is rounding (default: 1e-4 for f32)")
    parser.add_argument("--target", default="cpu", help="what to compile for (default: this machine)")
    parser.add_argument("--no-winograd", action="store_true", help="compile without Winograd's method")
    parser.add_argument("--reproducer", metavar="FOLDER", help="where to write it (default: MODEL.bisect)")
    parser.add_argument("--plugin", action="append", default=[], metavar="MODULE", help="import this first: own passes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> int:
    from ..explain.bisect import reproduce
    from ..explain.bisect.model import Bisector
    from ..passes.discovery import load_plugin
    from ..source import ModelSource

    for plugin in options.plugin:
        load_plugin(plugin)
    start = time.perf_counter()
    source = ModelSource.read(options.model)
    infos, _ = source.interface()
    inputs = _inputs(options, infos)
    with progress(f"bisecting {source.name}") as steps:
        bisector = Bisector(options.target, options.reference, options.rtol, not options.no_winograd, steps.next)
        found = bisector.bisect(source, inputs)
    command = ""
    if found.fault is not None:
        folder = Path(options.reproducer or f"{Path(options.model).stem}.bisect")
        command = reproduce.write(found.fault, folder)
        command += "".join(f" --plugin {plugin}" for plugin in options.plugin if command)
    seconds = time.perf_counter() - start
    if options.json:
        print(json.dumps(_record(source.name, found, seconds, command)))
    else:
        _print(found, seconds, command)
    return 0 if found.fault is None else 1


def _record(model: str, found: Bisection, seconds: float, command: str) -> dict[str, object]:
    return {
        "schema": 1,
        "model": model,
        "fault": None if found.fault is None else found.fault.record(),
        "levels": [level.record() for level in found.levels],
        "command": command,
        "seconds": round(seconds, 3),
    }


def _inputs(options: argparse.Namespace, infos: Sequence[TensorInfo]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(options.seed)
    given = dict(_read(options.inputs, infos)) if options.inputs else {}
    given |= dict(arguments.parse_input(text, random) for text in options.input)
    arguments.check_names(given, infos, "--input")
    arguments.check_shapes(given, infos, "--input")
    return {**given, **arguments.made_up_inputs([info for info in infos if info.name not in given], {}, random)}


def _read(path: str, infos: Sequence[TensorInfo]) -> Mapping[str, np.ndarray]:
    loaded = arguments.load_arrays(Path(path), f"--inputs {path}", ".npz or .npy")
    if not isinstance(loaded, np.ndarray):
        return loaded
    if len(infos) != 1:
        raise UsageError(f"--inputs {path}: one array, but the model takes {len(infos)}; give an .npz file")
    return {infos[0].name: loaded}


def _print(found: Bisection, seconds: float, command: str) -> None:
    rows = [
        (level.name, str(level.checked), f"{level.largest.relative:.2g}", level.note or level.place)
        for level in found.levels
    ]
    print_table(("level", "compared", "error", "at"), rows, numbers=("compared", "error"))
    for level in found.levels:
        if level.not_finite:
            print(f"infinities or NaN, which are the model's own and no fault, begin at node {level.not_finite}")
    if found.fault is None:
        print(f"no difference beyond rounding ({duration(seconds)})")
        return
    _print_fault(found.fault)
    if command:
        print(f"reproduce with: {command}")
    print(f"found in {duration(seconds)}")


def _print_fault(fault: Fault) -> None:
    facts = {
        "pass": fault.pass_name,
        "pattern": fault.pattern,
        "kernel": fault.kernel,
        "node": ", ".join(fault.nodes),
        "op": fault.op_type,
        "value": fault.value,
        "error": str(fault.difference),
        "note": fault.note,
    }
    print(f"wrong at the level {fault.level}:")
    for name, text in facts.items():
        if text:
            print(f"  {name:<8} {text}")


if __name__ == "__main__":
    sys.exit(main())
