"""`stepwell-run`: runs a model once, on given or made-up inputs, and compares what comes out with a reference."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import memory
from ..runtime import peaks
from ..runtime.cache import default_cache
from ..runtime.executable import Executable
from . import arguments
from .console import duration, print_table, progress
from .flags import UsageError
from .profile_tables import print_profile

if TYPE_CHECKING:
    from ..explain.precision import OutputError

NAME = "stepwell-run"
_DESCRIPTION = """Runs a model: an artefact (.stw), an ONNX file, or MLIR (.mlir).

    --input x=@x.npy                    the contents of a file
    --input x=1x3x48x320xf32:random     made up: random (uniform in [0, 1), or 0 and 1), zeros, ones, range, or a number
    --input rate=i64:16000              a scalar

Inputs that are not given are made up at random where their shape is fixed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 where something went wrong or an output differs from the reference."""
    options = _parser().parse_args(argv)
    if argv is not None:
        return arguments.run_tool(NAME, lambda: _run(options), arguments.tells(options))
    return arguments.run_supervised_tool(NAME, lambda: _run(options), options.target, arguments.tells(options))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="contents of an input")
    parser.add_argument("--output", metavar="FILE.npz", help="write the outputs there")
    parser.add_argument("--expect", metavar="FILE.npz", help="compare the outputs with these, by name")
    parser.add_argument("--rtol", type=arguments.amount, default=1e-3, help="relative tolerance (default: %(default)s)")
    parser.add_argument("--atol", type=arguments.amount, default=1e-4, help="absolute tolerance (default: %(default)s)")
    parser.add_argument("--seed", type=arguments.natural, default=0, help="of random inputs (default: %(default)s)")
    parser.add_argument("--threads", type=arguments.positive, help="threads of a call (default: one for each core)")
    parser.add_argument("--profile", metavar="FILE.json", help="write where the time goes, for ui.perfetto.dev")
    parser.add_argument(
        "--memory",
        metavar="FILE.svg",
        help="write what lies where in scratch memory: .svg, .png, .pdf, or .json",
    )
    parser.add_argument("--calls", type=arguments.positive, default=20, help="to profile (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="the outputs, or the profile, as one JSON object")
    arguments.add_fallback(parser)
    arguments.add_precision(parser, "; the outputs are compared with those of float32")
    parser.add_argument("--target", default="cpu", help="what to compile for (default: this machine)")
    return parser


def _run(options: argparse.Namespace) -> int:
    random = np.random.default_rng(options.seed)
    reduced = options.precision != "f32"
    if reduced and arguments.is_artefact(options.model):
        raise UsageError("--precision: that of an artefact was settled when it was compiled")
    given = dict(arguments.parse_input(text, random) for text in options.input)
    expected = None if options.expect is None else _read_arrays(options.expect)
    with progress(f"compiling {options.model}"):
        start = time.perf_counter()
        executable = arguments.open_model(
            options.model, options.target, options.threads, fallback=options.fallback, precision=options.precision
        )
        inputs = _inputs(executable, given, random)
        executable.prepare({name: array.shape for name, array in inputs.items()})
        ready = time.perf_counter() - start
    with progress("running"):
        start = time.perf_counter()
        results = executable(**inputs)
        took = time.perf_counter() - start
    profile = None
    if options.profile is not None:
        with progress("profiling"):
            profile = executable.profile(inputs, options.calls)
            if not any(program.target.is_gpu for program in executable.programs):
                profile = profile.beside(peaks.known(executable.threads, default_cache()))
        profile.save(options.profile)
    if options.memory is not None:
        program = max(executable.programs, key=lambda program: program.arena_bytes)
        memory.save(program, options.memory)
    arrays = results if isinstance(results, tuple) else (results,)
    outputs = dict(zip((info.name for info in executable.outputs), arrays, strict=True))
    errors = _errors(arrays, options.model, inputs) if reduced else ()
    verdicts = {} if expected is None else _verdicts(outputs, expected, options.rtol, options.atol)
    if options.json and profile is not None:
        print(json.dumps(profile.record()))
    elif options.json:
        record = _record(executable, outputs, {"ready": ready, "call": took}, verdicts)
        measured = {error.name: error.record() for error in errors}
        record["outputs"] = [entry | measured.get(entry["name"], {}) for entry in record["outputs"]]
        print(json.dumps(record | {"precision": options.precision}))
    else:
        print_table(("output", "type", "shape", "min", "mean", "max"), [_row(*item) for item in outputs.items()])
        print(f"ready after {duration(ready)}, run in {duration(took)} with {executable.threads} threads")
    if reduced and not options.json:
        _print_errors(options.precision, errors)
    if profile is not None and not options.json:
        print_profile(profile.record())
        print(f"{options.profile}: open it at ui.perfetto.dev or chrome://tracing")
    if options.output is not None:
        np.savez(options.output, allow_pickle=False, **outputs)
    for name, (good, text) in verdicts.items():
        stream = sys.stderr if options.json or not good else sys.stdout
        print(f"{name}: {'matches' if good else 'DIFFERS'}: {text}", file=stream)
    return 0 if all(good for good, _ in verdicts.values()) else 1


def _record(
    executable: Executable,
    outputs: Mapping[str, np.ndarray],
    seconds: Mapping[str, float],
    verdicts: Mapping[str, tuple[bool, str]],
) -> dict[str, Any]:
    """What `--json` prints of a run."""
    compared = [{"output": name, "matches": good, "text": text} for name, (good, text) in verdicts.items()]
    return {
        "schema": 1,
        "model": executable.name,
        "threads": executable.threads,
        "seconds": dict(seconds),
        "outputs": [_output(name, array) for name, array in outputs.items()],
        "compared": compared,
    }


def _output(name: str, array: np.ndarray) -> dict[str, Any]:
    """An output's figures; JSON has no number for those of no finite values."""
    finite = array[np.isfinite(array)].astype(np.float64)
    figures = {"min": finite.min(), "mean": finite.mean(), "max": finite.max()} if finite.size else {}
    return {
        "name": name,
        "type": array.dtype.name,
        "shape": list(array.shape),
        **{key: float(figures[key]) if key in figures else None for key in ("min", "mean", "max")},
        "not_finite": array.size - finite.size,
    }


def _errors(outputs: Sequence[Any], model: str, inputs: Mapping[str, np.ndarray]) -> Sequence[OutputError]:
    from ..explain.precision import errors_of  # compiles, which a run of an artefact does not

    return errors_of(outputs, model, inputs)


def _print_errors(name: str, errors: Sequence[OutputError]) -> None:
    print(f"\nproducts in {name}, compared with float32:")
    headers = ("output", "largest difference", "of the largest value", "root mean square, relative", "lost")
    rows = [
        (error.name, f"{error.largest:.3g}", f"{error.relative:.3g}", f"{error.rms:.3g}", str(error.lost))
        for error in errors
    ]
    print_table(headers, rows, numbers=headers[1:])


def _inputs(
    executable: Executable, given: Mapping[str, np.ndarray], random: np.random.Generator
) -> dict[str, np.ndarray]:
    arguments.check_names(given, executable.inputs, "--input")
    arguments.check_shapes(given, executable.inputs, "--input")
    absent = [info for info in executable.inputs if info.name not in given]
    return {**given, **arguments.made_up_inputs(absent, {}, random)}


def _read_arrays(path: str) -> dict[str, np.ndarray]:
    loaded = arguments.load_arrays(Path(path), f"--expect {path}", ".npz")
    if isinstance(loaded, np.ndarray):
        raise UsageError(f"--expect {path}: it holds one array without a name; give an .npz file")
    return loaded


def _row(name: str, array: np.ndarray) -> tuple[str, ...]:
    shape = "x".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return name, array.dtype.name, shape, "", "", ""
    values = array.astype(np.float64)
    return name, array.dtype.name, shape, *(f"{value:.6g}" for value in (values.min(), values.mean(), values.max()))


def _verdicts(
    outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], rtol: float, atol: float
) -> dict[str, tuple[bool, str]]:
    """Whether each output is near enough to its reference, and how far it is."""
    unknown = sorted(set(expected) - set(outputs))
    if unknown:
        raise UsageError(f"--expect: the model has no output '{unknown[0]}'; it has {', '.join(outputs)}")
    return {name: _difference(outputs[name], expected[name], rtol, atol) for name in expected}


def _difference(array: np.ndarray, reference: np.ndarray, rtol: float, atol: float) -> tuple[bool, str]:
    if array.shape != reference.shape:
        return False, f"shape {array.shape}, expected {reference.shape}"
    if not array.size:
        return True, "empty"
    left, right = array.astype(np.float64), reference.astype(np.float64)
    wrong = ~np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    distance = np.where(wrong | np.isfinite(left), np.abs(left - right), 0.0)
    text = f"largest difference {np.nanmax(distance, initial=0.0):.3g}"
    if not wrong.any():
        return True, text
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    first = f"first at {place}: {left[place]:.6g}, expected {right[place]:.6g}"
    return False, f"{text}; {wrong.sum()} of {wrong.size} elements, {first}"


if __name__ == "__main__":
    sys.exit(main())
