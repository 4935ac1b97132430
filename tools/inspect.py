"""`stepwell-inspect`: shows the contents of an artefact."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..explain.contents import contents_of
from . import arguments, model_options, running
from .console import print_table

NAME = "stepwell-inspect"
_DESCRIPTION = """Shows the contents of an artefact (.stw): inputs and outputs; programs with their targets, shapes or
ranges of sizes, and memory; the nodes that run on the host; the size of each part. Every byte is checked.

    stepwell-inspect model.stw
    stepwell-inspect model.stw --kernels"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 if the artefact is damaged."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    parser.add_argument("artefact", help="an .stw file")
    parser.add_argument("--kernels", action="store_true", help="list the kernels of each program")
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    found = contents_of(Path(options.artefact))
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    made_by = f", made by Stepwell {found['made_by']}" if found["made_by"] else ""
    print(f"{found['file']}: {found['model']}, {_bytes(found['bytes'])}, schema {found['artefact_schema']}{made_by}\n")
    rows = [
        (role[:-1], each["name"], each["type"], _dims(each)) for role in ("inputs", "outputs") for each in found[role]
    ]
    print_table(("", "name", "type", "shape"), rows)
    _print_programs(found["programs"])
    if options.kernels:
        for index, program in enumerate(found["programs"]):
            _print_kernels(index, program)
    if found["host"]:
        print("\non the host:")
        rows = [(node["node"], node["op_type"], node["reason"]) for node in found["host"]]
        print_table(("node", "operator", "reason"), rows)
    parts = [f"{name} {_bytes(size)}" for name, size in found["members"].items() if size]
    kept = found["model_kept"]
    print(f"\nparts: {', '.join(parts)}")
    print("the model is kept: code for further shapes can be made" if kept else "the model itself is not kept")
    return 0


def _print_programs(programs: Sequence[Mapping[str, Any]]) -> None:
    headers = ("program", "target", "for", "kernels", "calls", "GFLOP", "parameters", "scratch", "code")
    rows = [
        (
            str(index),
            program["target"]["name"] + ("" if program["runs_here"] else " (not this machine)"),
            _sizes(program),
            str(len(program["kernels"])),
            str(program["calls"]),
            f"{program['flops'] / 1e9:.3g}",
            _bytes(program["parameters_bytes"]),
            _bytes(program["arena_bytes"]),
            _bytes(program["code_bytes"]),
        )
        for index, program in enumerate(programs)
    ]
    print()
    print_table(headers, rows, numbers=headers[3:])


def _print_kernels(index: int, program: Mapping[str, Any]) -> None:
    print(f"\nkernels of program {index}:")
    headers = ("kernel", "class", "schedule", "calls", "MFLOP", "moves", "nodes")
    rows = [
        (
            kernel["name"],
            kernel["class"],
            kernel["schedule"],
            str(kernel["calls"]),
            f"{kernel['flops'] / 1e6:.3g}",
            _bytes(kernel["bytes"]),
            ", ".join(kernel["nodes"]),
        )
        for kernel in program["kernels"]
    ]
    print_table(headers, rows, numbers=("calls", "MFLOP", "moves"))


def _sizes(program: Mapping[str, Any]) -> str:
    """The ranges of sizes that a program serves, or its shapes."""
    if program["ranges"] is not None:
        return " ".join(f"{name}={low}:{high}" for name, (low, high, _) in program["ranges"].items())
    shapes = " ".join(f"{name}={arguments.shape_text(shape)}" for name, shape in program["shapes"].items())
    piece = "" if program["piece"] is None else f"step {program['piece']}: "
    return piece + (shapes or "no inputs")


def _dims(info: Mapping[str, Any]) -> str:
    """Formats a shape: `1x3`, or `rows, 3` with named dimensions."""
    named = any(isinstance(dim, str) for dim in info["shape"])
    return (", " if named else "x").join(map(str, info["shape"])) or "scalar"


def _bytes(size: int) -> str:
    """Formats a size in the unit that keeps it short."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


if __name__ == "__main__":
    sys.exit(main())
