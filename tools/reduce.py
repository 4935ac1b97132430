"""`stepwell-reduce`: shrinks a model that fails while it keeps failing in the same way."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.large_file import LargeFile, contents_of
from . import arguments, model_options, running
from .console import print_table, status
from .flags import UsageError
from .model_options import Given

if TYPE_CHECKING:
    from ..explain.reduce.case import Case
    from ..explain.reduce.run import ReductionRequest, Result
    from ..explain.reduce.search import Search

NAME = "stepwell-reduce"
_KEPT = ("dims", "target", "pass_pipeline", "load_pass_plugin", "wrong_numbers", "reference", "rtol", "seed", "test")
_KEPT_MORE = ("allow_unregistered_dialect", "match", "input", "no_winograd")
_DESCRIPTION = """Shrinks a model that fails, while it keeps failing in the same way; formats of other packages as MLIR.

A first run determines the failure to keep: the pass, and the message without names, numbers and shapes.
    stepwell-reduce model.onnx                                      it does not compile, or the compiler crashes
    stepwell-reduce kernel.mlir --pass-pipeline='builtin.module(...)'  passes fail on it
    stepwell-reduce model.onnx --wrong-numbers                      its outputs differ from ONNX Runtime's
    stepwell-reduce model.onnx --test ./is_interesting.sh           a command exits with 0

Every step is kept in a new folder reduce-1, reduce-2, ...; the smallest model is best.onnx or best.mlir there.
Exit code 0: reduced, or already minimal; 1: it does not fail; 2: wrong usage."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 if the model does not fail."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("model", nargs="?", help=arguments.MODEL)
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="for MLIR: passes to run instead of compiling")
    parser.add_argument("--allow-unregistered-dialect", action="store_true", help="accept ops of unknown dialects")
    parser.add_argument(
        "--wrong-numbers", action="store_true", help="keep the fault that makes outputs differ from the reference"
    )
    parser.add_argument(
        "--reference", choices=("onnxruntime", "numpy"), default="onnxruntime", help="source of the reference outputs"
    )
    parser.add_argument(
        "--rtol",
        type=arguments.amount,
        default=1e-2,
        help="smallest difference, as a share of the largest value (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=arguments.natural, default=0, help="seed of the inputs' contents (default: %(default)s)"
    )
    parser.add_argument("--test", metavar="COMMAND", help="a file is interesting if this exits with 0; {} is the file")
    parser.add_argument(
        "--match", default="", metavar="REGEX", help="keep failures whose message matches, not the first one"
    )
    parser.add_argument("--once", action="store_true", help="only report how it fails")
    parser.add_argument("--resume", metavar="FOLDER", help="continue an interrupted reduction")
    parser.add_argument(
        "-o", "--output", metavar="DIR", default=".", help="parent of reduce-1 (default: the current folder)"
    )
    parser.add_argument("--seconds", type=arguments.amount, help="stop after this time, with the best result so far")
    parser.add_argument(
        "--timeout", type=arguments.amount, default=300, help="time limit of a trial in seconds (default: %(default)s)"
    )
    parser.add_argument("--memory", type=arguments.positive, default=8192, help="memory limit of a trial in megabytes")
    parser.add_argument("--jobs", type=arguments.positive, default=1, help="number of concurrent trials")
    model_options.add_model_options(parser)
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    from ..explain.reduce.case import ReduceError
    from ..explain.reduce.folder import read_settings
    from ..passes.infra.options import PipelineError

    try:
        if options.resume is not None:
            settings = read_settings(Path(options.resume))
            for key in (*_KEPT, *_KEPT_MORE):
                setattr(options, key, settings.get(key, getattr(options, key)))
            for plugin in running.plugins_of(options):
                running.load_plugin(plugin)
        return _reduce(options)
    except (ReduceError, PipelineError) as error:
        raise UsageError(str(error)) from error


def _reduce(options: argparse.Namespace) -> int:
    from ..explain.reduce import run

    request = _request(options)
    if options.resume is not None:
        with _progress(options) as progressed:
            return _report(options, run.resume(request, Path(options.resume), progressed))
    case = _case(options)
    if options.once:
        found = run.once(request, case)[1]
        if not found:
            _check_run(options, request, case)
        if options.json:
            status = "fails" if found else "does not fail"
            print(json.dumps({"schema": 1, "status": status, "failures": [item.record() for item in found]}))
        else:
            print("\n".join(item.text for item in found) or "it does not fail")
        return 1 if found else 0
    with _progress(options) as progressed:
        result = run.reduce(request, case, progressed)
    if result is None:
        _check_run(options, request, case)
        print(
            f"{NAME}: {options.model} does not fail{' with a message that matches' if options.match else ''}",
            file=sys.stderr,
        )
        if options.json:
            print(json.dumps({"schema": 1, "status": "does not fail"}))
        return 1
    return _report(options, result)


def _request(options: argparse.Namespace) -> ReductionRequest:
    from ..explain.reduce import observe
    from ..explain.reduce.child import Limits
    from ..explain.reduce.run import ReductionRequest
    from ..passes.infra.pipeline import Pipeline

    plugins = options.load_pass_plugin
    compiling = observe.CompileTest(
        options.target, arguments.parse_dims(options.dims), winograd=not options.no_winograd, plugins=plugins
    )
    test: Any = compiling
    if options.test is not None:
        test = observe.CommandTest(options.test)
    elif options.pass_pipeline is not None:
        Pipeline.parse(options.pass_pipeline)
        test = observe.PassesTest(options.allow_unregistered_dialect, plugins)
    elif options.wrong_numbers:
        from ..explain.reduce.wrong_numbers import NumbersTest

        given = tuple(options.input)
        arrays = Given.read(options, np.random.default_rng(options.seed)).arrays
        test = NumbersTest(compiling, options.reference, options.rtol, options.seed, given, arrays)
    settings = {key: getattr(options, key) for key in (*_KEPT, *_KEPT_MORE)}
    limits = Limits(options.timeout, options.memory)
    return ReductionRequest(test, options.match, limits, options.jobs, options.seconds, Path(options.output), settings)


def _case(options: argparse.Namespace) -> Case:
    import onnx

    from ..explain.reduce.case import Case
    from ..explain.reduce.imported import imported_text

    if options.model is None:
        raise UsageError("give a model, or --resume")
    path = Path(options.model)
    is_onnx = path.suffix == ".onnx"
    if options.pass_pipeline is not None and is_onnx:
        raise UsageError("--pass-pipeline is not for .onnx files")
    if options.wrong_numbers and not is_onnx:
        raise UsageError("--wrong-numbers is for .onnx files")
    given = Given.read(options)
    shapes = given.shapes
    if options.wrong_numbers and given.dims:
        from ..driver.sources.reading import read_source

        # Programs for ranges are wrong more often below the upper bounds, where inputs are padded.
        middle = Given(given.sets, model_options.middle_sizes(given.dims), given.arrays)
        shapes = {**middle.shapes_of_sizes(read_source(path).interface()[0]), **shapes}
    if is_onnx:
        LargeFile.at(path)
        # Includes weights that are stored in other files, so that each step is one file.
        return Case("onnx", onnx.load(path).SerializeToString(), "", shapes)
    # A module of text is reduced as it is, maybe before the fault that makes it invalid.
    text = contents_of(path) if path.suffix == ".mlir" else imported_text(path, shapes)
    return Case("mlir", text, options.pass_pipeline or "", shapes)


def _check_run(options: argparse.Namespace, request: ReductionRequest, case: Case) -> None:
    """Checks that a model that does not fail was compiled at all, and compared with the reference if requested.

    Raises:
        UsageError: it was not compiled, because shapes are missing.
        ReduceError: it was not compared, because the reference does not run it.
    """
    from ..driver.sources.reading import read_source
    from ..explain.reduce.wrong_numbers import NumbersTest

    if options.test is None and options.pass_pipeline is None and not options.dims:
        infos, _ = read_source(case.data).interface()
        arguments.check_shapes(case.shapes, [info for info in infos if info.kind == "tensor"], "--shape")
    if isinstance(request.test, NumbersTest):
        request.test.check_reference(case)


@contextmanager
def _progress(options: argparse.Namespace) -> Iterator[Callable[[Search], None]]:
    from ..explain.reduce.run import size_of

    with status(options, "the first run") as show:

        def progressed(search: Search) -> None:
            unit, count = next(iter(size_of(search.case).items()))
            show(f"{count} {unit} left, {search.trials} trials, {search.accepted} steps")

        yield progressed


def _report(options: argparse.Namespace, result: Result) -> int:
    if options.json:
        print(json.dumps(result.record()))
        return 0
    unit = next(iter(result.before))
    rows = [(name, f"{result.before[name]:,}", f"{result.after[name]:,}") for name in result.before]
    print_table(("", "before", "after"), rows, numbers=("before", "after"))
    print(f"{result.status}: {result.after[unit]} {unit} left after {result.trials} trials, {result.seconds:.1f} s")
    print(f"fails with: {result.failure.text}")
    print(f"smallest: {result.path}")
    print(f"reproduce with: {result.command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
