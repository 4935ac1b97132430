"""`stepwell-run`: runs a model once, on given or generated inputs, and compares its outputs with a reference."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import memory
from ..runtime.cache.cache import default_cache
from ..runtime.devices import peaks
from ..runtime.executable import Executable
from ..runtime.profile.text import tables_of
from ..support.packages import require_package
from ..support.wording import duration
from . import arguments, model_options, running, values
from .console import line_width, print_table, progress
from .flags import UsageError
from .model_options import Given
from .outputs import ARRAYS, MEMORY, TRACE, OutputFile, Outputs

if TYPE_CHECKING:
    from ..explain.precision import OutputError

NAME = "stepwell-run"
_DISTURBED = """stepwell-run: warning: other processes used the machine while its peaks were measured, so shares of the
roofline are too high; the peaks are not kept, and are measured again by the next --profile"""
_DESCRIPTION = """Runs a model: an artefact (.stw), or a model of any format that Stepwell compiles.

    --input x=@x.npy                    the contents of a file
    --input x=1x3x48x320xf32:random     generated: random (in [0, 1), or 0 and 1), zeros, ones, range, or a number
    --input rate=i64:16000              a scalar
    --input words=2xstring:hello        strings; random words if no contents are given

Inputs that are not given are random: in their fixed shape, the shape of --shape, at the largest sizes of --dims, or in
the only shape that an artefact has code for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 after an error, or if an output differs from the reference."""
    options = _parser().parse_args(argv)
    return running.run_isolated(NAME, _run, options, options.target, argv)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", help=f".stw artefact, or {arguments.MODEL}")
    parser.add_argument("--output", metavar="FILE.npz", help="write the outputs there; - for stdout")
    parser.add_argument("--expect", metavar="FILE.npz", help="compare the outputs with these, by name")
    parser.add_argument("--rtol", type=arguments.amount, default=1e-3, help="relative tolerance (default: %(default)s)")
    parser.add_argument("--atol", type=arguments.amount, default=1e-4, help="absolute tolerance (default: %(default)s)")
    parser.add_argument(
        "--seed", type=arguments.natural, default=0, help="seed of random inputs (default: %(default)s)"
    )
    parser.add_argument("--threads", type=arguments.positive, help="threads of a call (default: one for each core)")
    parser.add_argument("--profile", metavar="FILE.json", help="write a profile, for ui.perfetto.dev")
    parser.add_argument(
        "--memory",
        metavar="FILE.svg",
        help="write the layout of scratch memory: .svg, .png, .pdf, or .json",
    )
    parser.add_argument(
        "--calls", type=arguments.positive, default=20, help="number of calls to profile (default: %(default)s)"
    )
    group = parser.add_argument_group("distance of a language model, a .gguf file or a Hugging Face folder")
    group.add_argument("--kld", metavar="TEXT.txt", help="print how far its probabilities are from --original's there")
    group.add_argument("--original", metavar="MODEL", help="the model with the same tokens that it was made from")
    model_options.add_model_options(parser)
    text = "; the outputs are compared with those of float32"
    model_options.add_fields(
        parser, "fallback", "precision", "low_rank", "batch_invariant", "checked", "tuning", precision=text
    )
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.kld is not None or options.original is not None:
        return _compare(options)
    if arguments.is_artefact(options.model):
        given = {
            "--precision": options.precision != "f32",
            "--dims": options.dims,
            "--no-winograd": options.no_winograd,
            "--checked": options.checked,
            "--tuning": options.tuning,
        }
        settled = [option for option, is_given in given.items() if is_given]
        if settled:
            raise UsageError(
                f"{settled[0]} cannot be changed for an artefact: it was fixed when the model was compiled"
            )
    written = Outputs(options.model, options.expect, *arguments.files_of(options.input))
    files = _claim(written, options)
    with written.messages():
        return _run_into(files, options)


def _compare(options: argparse.Namespace) -> int:
    """Prints the distance of a language model from its original."""
    if options.kld is None or options.original is None:
        raise UsageError("--kld TEXT.txt and --original MODEL are given together")
    for package in ("gguf", "tokenizers"):
        require_package(package, "a language model", "lm")
    from ..lm.divergence import measure_divergence  # slow to import

    try:
        text = Path(options.kld).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--kld {options.kld}: {error}") from None
    found = measure_divergence(options.model, options.original, text, options.threads)
    if options.json:
        running.print_json({"schema": 1, **asdict(found)})
    else:
        print_table(("figure", "value"), found.figures())
    return 0


def _claim(written: Outputs, options: argparse.Namespace) -> dict[str, OutputFile]:
    """Claims the requested files, by option."""
    if options.memory is not None and Path(options.memory).suffix not in memory.SUFFIXES:
        raise UsageError(f"--memory {options.memory}: name a file with one of the endings {', '.join(memory.SUFFIXES)}")
    requested = {
        "--output": (options.output, ARRAYS),
        "--profile": (options.profile, TRACE),
        "--memory": (options.memory, MEMORY),
    }
    files = {
        option: written.claim(option, path, kind) for option, (path, kind) in requested.items() if path is not None
    }
    if options.json and written.use_stdout:
        raise UsageError("--json and a file called - both write to the standard output")
    return files


def _run_into(files: Mapping[str, OutputFile], options: argparse.Namespace) -> int:
    random = np.random.default_rng(options.seed)
    reduced = options.precision != "f32"
    given = Given.read(options, random)
    expected = None if options.expect is None else _read_arrays(options.expect)
    with progress(options, f"compiling {options.model}"):
        start = time.perf_counter()
        executable = _open(options)
        inputs = _inputs(executable, given, random)
        executable.prepare({name: array.shape for name, array in inputs.items()}, inputs)
        ready = time.perf_counter() - start
    with progress(options, "running"):
        start = time.perf_counter()
        arrays = executable.outputs_for(inputs)
        took = time.perf_counter() - start
    profile = None
    if options.profile is not None:
        with progress(options, "profiling"):
            profile = executable.profile(inputs, options.calls)
            if not any(program.target.device == "cuda" for program in executable.programs):
                limits = peaks.known(executable.threads, default_cache())
                profile = profile.beside(limits)
                if limits.is_disturbed:
                    print(_DISTURBED, file=sys.stderr)
        files["--profile"].write_text(json.dumps(profile.trace()))
    if options.memory is not None:
        if not executable.programs:
            raise UsageError("--memory: all of the model's nodes run on the host, which plans no memory")
        program = max(executable.programs, key=lambda program: program.arena_bytes)
        with files["--memory"].writing() as path:
            memory.save(program, path)
    outputs = values.flatten(dict(zip((info.name for info in executable.outputs), arrays, strict=True)))
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
        print_table(("output", "type", "shape", "min", "mean", "max"), [values.row(*item) for item in outputs.items()])
        print(f"ready after {duration(ready)}, run in {duration(took)} with {executable.threads} threads")
    if reduced and not options.json:
        _print_errors(options.precision, errors)
    if profile is not None and not options.json:
        print(f"\n{tables_of(profile.record(), width=line_width())}\n")
        print(f"{options.profile}: open it at ui.perfetto.dev or chrome://tracing")
    if options.output is not None:
        with files["--output"].writing() as path, open(path, "wb") as file:
            np.savez(file, allow_pickle=False, **values.storable(outputs))
    for name, (good, text) in verdicts.items():
        stream = sys.stderr if options.json or not good else sys.stdout
        print(f"{name}: {'matches' if good else 'DIFFERS'}: {text}", file=stream)
    return 0 if all(good for good, _ in verdicts.values()) else 1


def _record(
    executable: Executable,
    outputs: values.Flat,
    seconds: Mapping[str, float],
    verdicts: Mapping[str, tuple[bool, str]],
) -> dict[str, Any]:
    """Returns the record of a run that `--json` prints."""
    compared = [{"output": name, "matches": good, "text": text} for name, (good, text) in verdicts.items()]
    return {
        "schema": 1,
        "model": executable.name,
        "threads": executable.threads,
        "seconds": dict(seconds),
        "outputs": [values.record(name, array) for name, array in outputs.items()],
        "compared": compared,
    }


def _errors(outputs: Sequence[Any], model: str, inputs: Mapping[str, np.ndarray]) -> Sequence[OutputError]:
    from ..explain.precision import errors_of  # loads the compiler, which a run of an artefact does not need

    return errors_of(outputs, model, inputs)


def _print_errors(name: str, errors: Sequence[OutputError]) -> None:
    print(f"\nproducts in {name}, compared with float32:")
    headers = ("output", "largest difference", "of the largest value", "root mean square, relative", "lost")
    rows = [
        (error.name, f"{error.largest:.3g}", f"{error.relative:.3g}", f"{error.rms:.3g}", str(error.lost))
        for error in errors
    ]
    print_table(headers, rows, numbers=headers[1:])


def _open(options: argparse.Namespace) -> Executable:
    """Loads an artefact, or compiles anything else."""
    from .. import compile, load  # slow to import, and --help should not wait for it

    if arguments.is_artefact(options.model):
        return load(options.model, threads=options.threads)
    chosen = model_options.compile_options(options)
    return compile(options.model, target=options.target, threads=options.threads, options=chosen)


def _inputs(executable: Executable, given: Given, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Returns contents for every input; missing ones are generated, for an artefact in a shape that it has code for."""
    given.check_names(executable.inputs)
    sizes, shapes = model_options.sizes_of_artefact(executable)
    if not given.dims:
        model_options.require_choice(executable, given.shapes)
    open_shapes = {name: shape for name, shape in shapes.items() if name not in given.shapes}
    made = Given([{**given.shapes, **open_shapes}], given.dims, given.arrays)
    return made.all_inputs(executable.inputs, random, sizes)


def _read_arrays(path: str) -> dict[str, np.ndarray]:
    loaded = arguments.load_arrays(Path(path), f"--expect {path}", ".npz")
    if isinstance(loaded, np.ndarray):
        raise UsageError(f"--expect {path}: it holds one array without a name; give an .npz file")
    return loaded


def _verdicts(
    outputs: values.Flat, expected: Mapping[str, np.ndarray], rtol: float, atol: float
) -> dict[str, tuple[bool, str]]:
    """Returns whether each output is close to its reference, and the difference as text."""
    known = {name: array for name, array in outputs.items() if array is not None}
    unknown = sorted(set(expected) - set(known))
    if unknown:
        raise UsageError(f"--expect: the model has no output '{unknown[0]}'; it has {', '.join(known)}")
    return {name: values.difference(known[name], expected[name], rtol, atol) for name in expected}


if __name__ == "__main__":
    sys.exit(main())
