"""The command `train` of `stepwell-bench`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from ..tools import arguments
from . import report, training, training_curves
from .figure_output import print_figures
from .machine import describe


def add_training_arguments(made: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    made.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(training.MODELS)} (default: all)")
    made.add_argument("--threads", type=arguments.positive, default=1, help="threads of a step (default: %(default)s)")
    made.add_argument("--rounds", type=arguments.positive, default=10, help="turns per system (default: %(default)s)")
    made.add_argument(
        "--peers", default=training.PEERS[0], help=f"of {', '.join(training.PEERS)}, by commas (default: %(default)s)"
    )
    made.add_argument(
        "--curves",
        type=arguments.positive,
        metavar="STEPS",
        help="instead of times, compare the losses of this many steps: with eager PyTorch, a second run, two threads",
    )
    made.add_argument(
        "--rows", type=arguments.positive, default=4, help="with --curves: examples in a batch (default: %(default)s)"
    )


def measure_training(options: argparse.Namespace) -> int:
    """Measures training steps of models, or compares the losses of many steps; returns the exit code."""
    machine = describe()
    record: dict[str, Any] = {"schema": 1, "machine": asdict(machine)}
    if options.curves is not None:
        losses = list(training_curves.curves(options.models, options.curves, options.rows))
        record["rows"] = list(map(asdict, losses))
        tables = [report.curve_table(losses)]
    else:
        peers = [name for name in options.peers.split(",") if name]
        found = list(training.measure(options.models, peers, options.threads, options.rounds))
        record |= {"threads": options.threads, "rows": list(map(asdict, found))}
        tables = [report.training_table(found), report.training_means(found)]
    print_figures(options, json.dumps(record, indent=1), tables, str(machine))
    return 0
