"""`stepwell-bench`: times models here and in other systems, turn by turn, so that a noisy machine is noisy for all."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..runtime.program import Shape
from . import arguments, peers
from .console import Steps, duration, print_table, progress
from .flags import UsageError

NAME = "stepwell-bench"
HERE = "stepwell"
_TURN_SECONDS = 0.2
_CALLS_AT_MOST = 1000
# Thread pools spin for a while after their last loop (libomp 200 ms); the next system's turn waits until they sleep.
_PAUSE_SECONDS = 0.25
_DESCRIPTION = """Times models in Stepwell and in other systems on this machine.

Every system gets turns of about 0.2 s, one after the other, round by round; what counts is the median over all calls.
The ratio is the time of Stepwell divided by that of the other system: below 1 is faster."""


@dataclass(frozen=True)
class Result:
    """One system's time on one model.

    Attributes:
        model: its file.
        shapes: the inputs' shapes.
        threads: threads of a call.
        system: "stepwell" or a peer.
        ready_seconds: from the file to the first call.
        median_seconds: of a call.
        quartiles_seconds: the first and the third.
        calls: how many were timed.
        ratio: Stepwell's median divided by this one.
        difference: the largest absolute difference to Stepwell's outputs.
    """

    model: str
    shapes: Mapping[str, Shape]
    threads: int
    system: str
    ready_seconds: float
    median_seconds: float
    quartiles_seconds: tuple[float, float]
    calls: int
    ratio: float
    difference: float


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(argv)
    return arguments.run_tool(NAME, lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("models", nargs="+", metavar="model")
    parser.add_argument("--peers", default="onnxruntime", help=f"of {', '.join(peers.PEERS)} (default: %(default)s)")
    parser.add_argument("--threads", default="1", help="numbers of threads, such as 1,2 (default: %(default)s)")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="of a dynamic input")
    parser.add_argument("--rounds", type=arguments.positive, default=10, help="turns per system (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    return parser


def _run(options: argparse.Namespace) -> int:
    names = [name for name in options.peers.split(",") if name]
    unknown = [name for name in names if name not in peers.PEERS]
    if unknown:
        raise UsageError(f"--peers {unknown[0]}: there is no such system; there are {', '.join(peers.PEERS)}")
    threads = [_positive(part) for part in options.threads.split(",")]
    sets = arguments.parse_shape_sets(options.shape)
    cases = [(model, shapes, count) for model in options.models for shapes in sets for count in threads]
    results: list[Result] = []
    with progress("benchmark", total=len(cases) * (options.rounds + 1)) as steps:
        for model, shapes, count in cases:
            results += _measure(model, shapes, count, names, options.rounds, steps)
    print_table(
        ("model", "shapes", "threads", "system", "ready", "median", "quartiles", "ratio", "difference"),
        [_row(result) for result in results],
        numbers=("threads", "ready", "median", "ratio", "difference"),
    )
    if options.json is not None:
        Path(options.json).write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return 0


def _positive(text: str) -> int:
    try:
        return arguments.positive(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--threads: {error}") from None


def _measure(
    model: str, shapes: Mapping[str, Shape], threads: int, names: Sequence[str], rounds: int, steps: Steps
) -> list[Result]:
    """All systems on one model, at one number of threads."""
    steps.next(f"{Path(model).name}: compiling")
    if arguments.is_artefact(model) and names:
        raise UsageError(f"{model}: only Stepwell reads artefacts: give the ONNX file, or --peers=")
    interface = arguments.open_model(model, "cpu", threads)
    arguments.check_names(shapes, interface.inputs, "--shape")
    arguments.check_shapes(shapes, interface.inputs, "--shape")
    inputs = arguments.made_up_inputs(interface.inputs, shapes, np.random.default_rng(0))
    systems, ready = {}, {}
    for name, prepare in {HERE: peers.stepwell, **{name: peers.PEERS[name] for name in names}}.items():
        start = time.perf_counter()
        systems[name] = prepare(model, threads, inputs)
        ready[name] = time.perf_counter() - start
    outputs = {name: system.outputs() for name, system in systems.items()}
    times: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds):
        steps.next(f"{Path(model).name}: {threads} threads, round {number + 1} of {rounds}")
        for name, system in systems.items():
            times[name] += _turn(system.call, pause=threads > 1)
    here = statistics.median(times[HERE])
    return [
        Result(
            model=model,
            shapes={name: array.shape for name, array in inputs.items()},
            threads=threads,
            system=name,
            ready_seconds=ready[name],
            median_seconds=statistics.median(times[name]),
            quartiles_seconds=_quartiles(times[name]),
            calls=len(times[name]),
            ratio=here / statistics.median(times[name]),
            difference=_difference(outputs[HERE], outputs[name]),
        )
        for name in systems
    ]


def _turn(call: peers.Call, pause: bool) -> list[float]:
    """The times of one turn's calls; the first, which wakes threads and fills caches, does not count."""
    if pause:
        time.sleep(_PAUSE_SECONDS)
    call()
    times: list[float] = []
    end = time.perf_counter() + _TURN_SECONDS
    while len(times) < _CALLS_AT_MOST and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def _quartiles(times: Sequence[float]) -> tuple[float, float]:
    first, _, third = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return first, third


def _difference(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    pairs = zip(left, right, strict=True)
    return max((float(np.abs(a.astype(np.float64) - b).max(initial=0)) for a, b in pairs), default=0.0)


def _row(result: Result) -> tuple[str, ...]:
    first, third = result.quartiles_seconds
    is_here = result.system == HERE
    return (
        Path(result.model).name,
        " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in result.shapes.items()),
        str(result.threads),
        result.system,
        duration(result.ready_seconds),
        duration(result.median_seconds),
        f"{duration(first)} - {duration(third)}",
        "" if is_here else f"{result.ratio:.2f}",
        "" if is_here else f"{result.difference:.1e}",
    )


if __name__ == "__main__":
    sys.exit(main())
