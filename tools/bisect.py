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
from ..support.wording import duration
from . import arguments, model_options, running
from .console import print_table, progress
from .flags import UsageError
from .model_options import Given
from .outputs import ARRAYS, COMMAND, IR, PARAMETERS, OutputFile, Outputs

if TYPE_CHECKING:
    from ..explain.bisect.result import Bisection, Fault

NAME = "stepwell-bisect"
_LARGER = 100
"""Factor between the first and the second set of generated inputs."""
_DESCRIPTION = """Finds what makes a model's numbers wrong: the op, the kernel, the pass and the rewrite in it.

    --inputs x.npz                      the inputs by name; or one .npy file, for a model of one input
    --input x=1x3x48x320xf32:random     as for stepwell-run

With --dims, the program for these ranges is examined, at the sizes of the inputs. Inputs that are not given are random:
in their fixed shape, that of --shape, or the largest sizes of --dims and those in the middle. One set has values in
[0, 1), another in [-100, 100). The cache is neither read nor written. The exit code is 0 if no number is
wrong, 1 if one is, 2 for wrong usage."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 if numbers are wrong."""
    options = _parser().parse_args(argv)
    return running.run_isolated(NAME, _run, options, options.target, argv)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", help=f"{arguments.MODEL}; MLIR in the phase import or graph")
    parser.add_argument("--inputs", metavar="FILE", help="the inputs: an .npz file, or an .npy file for a single input")
    parser.add_argument(
        "--seed", type=arguments.natural, default=0, help="seed of random inputs (default: %(default)s)"
    )
    parser.add_argument("--reference", choices=("onnxruntime", "numpy"), help="reference for the importer's results")
    parser.add_argument(
        "--rtol", type=arguments.amount, help="largest relative error that counts as rounding (default: 1e-4 for f32)"
    )
    parser.add_argument("--reproducer", metavar="FOLDER", help="folder for the reproducer (default: MODEL.bisect)")
    model_options.add_model_options(parser)
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    from ..driver.sources.reading import read_source
    from ..explain.bisect import reproduce
    from ..explain.bisect.model import Bisector

    start = time.perf_counter()
    folder = Path(options.reproducer or f"{Path(options.model).stem}.bisect")
    plugins = running.plugins_of(options)
    read = [options.model, options.inputs, *arguments.files_of(options.input), *plugins]
    files = _reproducer_files(folder, Outputs(*read))
    source = read_source(options.model)
    infos, _ = source.interface()
    sets = _input_sets(options, infos)
    with progress(options, f"bisecting {source.name}") as steps:
        chosen = options.target, options.reference, options.rtol, not options.no_winograd
        bisector = Bisector(*chosen, steps.next, arguments.parse_dims(options.dims))
        found = bisector.bisect_all(source, sets)
    command = ""
    if found.fault is not None:
        more = [f"--load-pass-plugin={','.join(plugins)}"] if plugins else []
        command = reproduce.write(found.fault, folder, lambda path, data: files[path.name].write_bytes(data), more)
    seconds = time.perf_counter() - start
    if options.json:
        print(json.dumps(_record(source.name, found, seconds, command)))
    else:
        _print(found, seconds, command)
    return 0 if found.fault is None else 1


def _reproducer_files(folder: Path, outputs: Outputs) -> dict[str, OutputFile]:
    """Claims the files of a reproducer by name; they may replace only an earlier reproducer."""
    from ..explain.bisect import reproduce

    kinds = {".mlir": IR, ".npz": ARRAYS, ".safetensors": PARAMETERS, ".txt": COMMAND}
    return {name: outputs.claim("--reproducer", folder / name, kinds[Path(name).suffix]) for name in reproduce.FILES}


def _record(model: str, found: Bisection, seconds: float, command: str) -> dict[str, object]:
    return {
        "schema": 1,
        "model": model,
        "fault": None if found.fault is None else found.fault.record(),
        "levels": [level.record() for level in found.levels],
        "command": command,
        "seconds": round(seconds, 3),
    }


def _input_sets(options: argparse.Namespace, infos: Sequence[TensorInfo]) -> list[dict[str, np.ndarray]]:
    """Returns the sets of inputs to try: given or generated, at the largest sizes and in the middle of ranges."""
    random = np.random.default_rng(options.seed)
    given = Given.read(options, random)
    stored = dict(_read(options.inputs, infos)) if options.inputs else {}
    known = {**stored, **given.arrays}
    found = _sets_of(Given(given.sets, given.dims, known), infos, random)
    middle = model_options.middle_sizes(given.dims)
    if middle != given.dims and given.sets == [{}] and any(info.name not in known for info in infos):
        found += _sets_of(Given(given.sets, middle, known), infos, random)
    return found


def _sets_of(given: Given, infos: Sequence[TensorInfo], random: np.random.Generator) -> list[dict[str, np.ndarray]]:
    """Returns a set of inputs of the given sizes, and one with larger values for generated floats."""
    from ..dialects.types import is_float

    known, inputs = given.arrays, given.all_inputs(infos, random)
    made_up = {name: array for name, array in inputs.items() if name not in known}
    larger = {name: _LARGER * (2 * array - 1) for name, array in made_up.items() if is_float(array.dtype)}
    larger = {name: array.astype(made_up[name].dtype) for name, array in larger.items()}
    return [inputs, *([{**inputs, **larger}] if larger else [])]


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
            print(
                f"infinities or NaN that the model itself computes (no fault) first appear at node {level.not_finite}"
            )
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
