"""`stepwell-quantize`: makes a float model narrow, and accounts for the error."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ..driver.sources.reading import read_source
from ..quantization.float_model import QuantizationError
from ..quantization.options import Method, QuantizationOptions, RangeMethod, WeightMethod
from ..quantization.quantize import quantize
from ..quantization.report import COLUMNS
from . import arguments, model_options, running
from .console import print_table, progress
from .flags import UsageError
from .model_options import Given
from .outputs import QUANTIZED, QUANTIZED_REPORT, Outputs, default_name

NAME = "stepwell-quantize"
_DESCRIPTION = """Quantises the products of a float model whose weights are constants, and writes an ONNX model that
other runtimes run too. The model is an .onnx, .pt2 or .mlir file.

    stepwell-quantize model.onnx --calibration samples/                       8 bits, ranges from typical inputs
    stepwell-quantize model.onnx --calibration samples/ --max-error 0.01      as few products in float as that needs
    stepwell-quantize model.onnx --method weights --bits 4 --algorithm gptq --calibration samples/

The calibration is a file .npz with the inputs of one call by name, or a folder of such files."""
_RANDOM = """stepwell-quantize: warning: there is no --calibration, so ranges and errors are those of random inputs;
give the inputs of typical calls"""
_RANDOM_SAMPLES = 4
"""Number of random calls that replace a calibration: a choice."""


def main(argv: list[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 after an error, or if a budget is not met."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    known = QuantizationOptions()
    parser.add_argument("model", help=arguments.MODEL)
    parser.add_argument(
        "-o", "--output", metavar="FILE.onnx", help="the quantised model (default: MODEL.quantized.onnx)"
    )
    parser.add_argument("--calibration", action="append", default=[], metavar="PATH", help="an .npz file or a folder")
    parser.add_argument("--report", metavar="FILE", help="write the account of the error there: .html or .json")
    group = parser.add_argument_group("how to quantise")
    group.add_argument(
        "--method",
        choices=get_args(Method),
        default=known.method,
        help="static: activations by calibration; dynamic: activations by call; weights: only these, in blocks "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--ranges", choices=get_args(RangeMethod), default=known.ranges, help="range of an activation (static)"
    )
    group.add_argument("--percentile", type=float, default=known.percentile, help="of --ranges percentile")
    group.add_argument("--bits", type=int, choices=(4, 8), default=known.bits, help="of weights in blocks")
    group.add_argument("--block", type=arguments.positive, default=known.block, help="weights that share a scale")
    group.add_argument("--symmetric", action="store_true", help="blocks without zero points")
    group.add_argument(
        "--algorithm", choices=get_args(WeightMethod), default=known.algorithm, help="how weights in blocks are rounded"
    )
    group.add_argument(
        "--smooth", type=float, default=known.smooth, metavar="0..1", help="move outliers of activations into weights"
    )
    group.add_argument("--no-cures", action="store_true", help="try no other forms for products with detected faults")
    group.add_argument("--exclude", action="append", default=[], metavar="NODE", help="a node that stays in float")
    budget = parser.add_argument_group("budget: the products that cost most become wider until it is met")
    budget.add_argument("--max-error", type=float, metavar="E", help="error of the outputs: root mean square, relative")
    budget.add_argument("--max-kld", type=float, metavar="D", help="Kullback-Leibler divergence of the first output")
    budget.add_argument("--target-size", type=arguments.positive, metavar="BYTES", help="size of the weights")
    budget.add_argument(
        "--samples", type=arguments.positive, default=known.samples, help="samples to measure on (default: %(default)s)"
    )
    shapes = parser.add_argument_group("without --calibration")
    shapes.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="shape of an input")
    shapes.add_argument("--dims", action="append", default=[], metavar="NAME=512", help="size of a dimension")
    shapes.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="contents of an input")
    arguments.add_plugins(parser)
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    calibration = [path for given in options.calibration for path in _files(Path(given))]
    written = Outputs(options.model, *calibration, *arguments.files_of(options.input))
    output = options.output or default_name(options.model, ".quantized.onnx")
    model_file = written.claim("--output", output, QUANTIZED)
    report_file = None
    if options.report is not None:
        if Path(options.report).suffix not in (".html", ".json"):
            raise UsageError(f"--report {options.report}: name a file with one of the endings .html, .json")
        report_file = written.claim("--report", options.report, QUANTIZED_REPORT)
    chosen = QuantizationOptions(
        method=options.method,
        ranges=options.ranges,
        percentile=options.percentile,
        bits=options.bits,
        block=options.block,
        symmetric=options.symmetric,
        algorithm=options.algorithm,
        smooth=options.smooth,
        cures=not options.no_cures,
        exclude=tuple(options.exclude),
        max_error=options.max_error,
        max_kld=options.max_kld,
        target_bytes=options.target_size,
        samples=options.samples,
    )
    samples = [_arrays(path) for path in calibration] or _random_samples(options)
    with written.messages():
        with progress(options, f"quantising {options.model}"):
            made = quantize(options.model, samples, chosen)
        model_file.write_bytes(made.model.SerializeToString())
        report = made.report
        if report_file is not None:
            is_page = report_file.path.suffix == ".html"
            report_file.write_text(report.to_html() if is_page else json.dumps(report.record(), indent=1))
        if options.json:
            print(json.dumps({**report.record(), "output": str(output)}))
        else:
            print_table(COLUMNS, report.rows())
            print(f"{output}: {report.summary}")
    return 0 if report.is_met else 1


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"--calibration {path}: there is no such file or folder")
    found = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    if not found:
        raise UsageError(f"--calibration {path}: the folder has no .npz file")
    return found


def _arrays(path: Path) -> Mapping[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, AttributeError, OSError, KeyError) as error:
        raise QuantizationError(f"--calibration {path}: not an .npz file of arrays by input: {error}") from None


def _random_samples(options: argparse.Namespace) -> list[dict[str, Any]]:
    print(_RANDOM, file=sys.stderr)
    random = np.random.default_rng(0)
    given = Given.read(options, random)
    infos, _ = read_source(options.model).interface()
    return [given.all_inputs(infos, random) for _ in range(_RANDOM_SAMPLES)]
