"""`stepwell`: lists the commands and leads to them."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from . import arguments

NAME = "stepwell"
TOOLS = {
    "compile": "turn a model into an artefact, or take it to a level on the way there",
    "run": "run a model, and compare what comes out with a reference",
    "explore": "see every level of a compile in one HTML file: graph, IR, diffs, machine code",
    "opt": "run passes on MLIR, as mlir-opt does",
    "bisect": "find the op, kernel and pass that make a model's numbers wrong",
    "bench": "measure models and kernels beside other systems",
    "reduce": "shrink a model that fails while it keeps failing in the same way",
    "cache": "list, explain, check and empty the cache of compiled models",
}
"""Every command, by its name behind `stepwell` (or `stepwell-`), and what it is for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that is named first, and returns its exit code."""
    arguments_given = list(sys.argv[1:] if argv is None else argv)
    chosen = _parser().parse_args(arguments_given[:1])
    command = importlib.import_module(f".{chosen.command}", __package__).main
    if argv is not None:
        return command(arguments_given[1:])
    sys.argv = [f"{NAME}-{chosen.command}", *arguments_given[1:]]
    return command()


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, TOOLS))
    lines = "\n".join(f"    {name:<{width}}  {summary}" for name, summary in TOOLS.items())
    description = f"Compiles models for machine learning, and explains itself.\n\n{lines}"
    parser = arguments.parser(NAME, description)
    parser.epilog = f"`{NAME} COMMAND --help` says more; each command has a name of its own too, as {NAME}-compile."
    parser.add_argument("command", choices=TOOLS, metavar="COMMAND", help="one of the above")
    return parser


if __name__ == "__main__":
    sys.exit(main())
