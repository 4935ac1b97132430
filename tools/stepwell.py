"""`stepwell`: lists the commands and runs them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence

from ..support.version import VERSION
from . import arguments

NAME = "stepwell"
TOOLS = {
    "compile": "compile a model to an artefact, or to an earlier level",
    "run": "run a model and compare its outputs with a reference",
    "quantize": "make a float model narrow, and account for the error",
    "tune": "search for faster schedules of a model's kernels, and explain what was found",
    "inspect": "show the contents of an artefact: inputs, targets, shapes, kernels, sizes",
    "explore": "see every level of a compile in one HTML file: graph, IR, diffs, machine code",
    "opt": "run passes on MLIR, as mlir-opt does",
    "bisect": "find the op, kernel and pass that make a model's numbers wrong",
    "chat": "chat with a language model in the terminal",
    "serve": "serve a language model by HTTP, with OpenAI's API and a page to chat",
    "bench": "measure models and kernels beside other systems",
    "reduce": "shrink a model that fails while it keeps failing in the same way",
    "cache": "list, explain, check and empty the cache of compiled models",
}
"""Summary of every command, by its name after `stepwell` (or `stepwell-`)."""
MODULES = {"bench": "..bench.command"}
"""The modules of commands that are in other folders."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command named by the first argument, and returns its exit code."""
    arguments_given = list(sys.argv[1:] if argv is None else argv)
    if arguments_given == ["--json"]:
        print(json.dumps({"schema": 1, "version": VERSION, "commands": TOOLS}))
        return 0
    parser = _parser()
    parser.speaks_json = "--json" in arguments_given
    chosen = parser.parse_args(arguments_given[:1])
    command = importlib.import_module(MODULES.get(chosen.command, f".{chosen.command}"), __package__).main
    if argv is not None:
        return command(arguments_given[1:])
    sys.argv = [f"{NAME}-{chosen.command}", *arguments_given[1:]]
    return command()


def _parser() -> arguments.Parser:
    width = max(map(len, TOOLS))
    lines = "\n".join(f"    {name:<{width}}  {summary}" for name, summary in TOOLS.items())
    description = f"Compiles models for machine learning, and explains itself.\n\n{lines}"
    parser = arguments.parser(NAME, description)
    parser.epilog = (
        f"`{NAME} COMMAND --help` prints the options of a command; each is also a program, such as {NAME}-compile."
    )
    parser.add_argument("--json", action="store_true", help="print the commands as one JSON object")
    parser.add_argument("command", choices=TOOLS, metavar="COMMAND", help="one of the above")
    return parser


if __name__ == "__main__":
    sys.exit(main())
