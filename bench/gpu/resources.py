"""Resources of kernels on a GPU, as its assembler reports them: `python -m stepwell.bench.gpu.resources MODEL`.

It needs no GPU. Exit code 1: a kernel spills registers, or the assembler rejects a module.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...driver import api
from ...runtime.cuda import assembler
from ...runtime.program import Program
from ...support.errors import ArtefactError, RuntimeFailure
from ...support.wording import quantity
from ...targets.nvidia.target import GpuTarget
from ...tools import arguments, model_options, running
from ...tools.console import print_table
from .. import models

NAME = "python -m stepwell.bench.gpu.resources"
_HEADERS = ("kernel", "class", "schedule", "threads", "registers", "shared", "spilled", "nodes")
_NUMBERS = ("threads", "registers", "shared", "spilled")


def main(argv: Sequence[str] | None = None) -> int:
    """Compiles models and assembles their kernels; returns 0 if none spills and no module is rejected."""
    parser = arguments.parser(NAME, __doc__ or "")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="as stepwell-bench names them, or an ONNX file")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="shape of a dynamic input"
    )
    parser.add_argument("--target", default="cuda:sm_80,cuda:sm_90a", help="GPUs (default: %(default)s)")
    model_options.add_fields(parser, "precision")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options = parser.parse_args(argv)
    return running.run_tool(NAME, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    tool = assembler.find_assembler()
    if tool is None:
        raise ArtefactError("there is no ptxas: install nvidia-cuda-nvcc")
    targets = options.target.split(",")
    for target in targets:
        GpuTarget.parse(target)
    records = []
    with tempfile.TemporaryDirectory() as scratch:
        for model in models.chosen(options.models, arguments.parse_shape_sets(options.shape)):
            for target in targets:
                records.append(_record(model, target, options.precision, Path(scratch), tool))
                if not options.json:
                    _print(records[-1])
    if options.json:
        print(json.dumps({"schema": 1, "models": records}, indent=1))
    return int(any(record["refused"] or record["spilling"] for record in records))


def _record(model: models.BenchModel, target: str, precision: str, scratch: Path, tool: Path) -> dict[str, Any]:
    """Returns the resources of a model's kernels on a GPU."""
    path = model.file(scratch)
    shapes = {name: array.shape for name, array in model.inputs(path).items()}
    start = time.perf_counter()
    # fallback="error": nodes on the host have no kernels, and must not be counted as fitting.
    options = api.Options(fallback="error", shapes=shapes, precision=precision)
    executable = api.compile(str(path), target, options=options)
    compiled = time.perf_counter()
    kernels: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    for program in executable.programs:
        _assemble(program, tool, kernels, refused)
    return {
        "model": model.name,
        "target": target,
        "precision": precision,
        "compile_seconds": compiled - start,
        "assemble_seconds": time.perf_counter() - compiled,
        "spilling": sum(kernel["spill_bytes"] > 0 for kernel in kernels),
        "refused": refused,
        "kernels": kernels,
    }


def _assemble(program: Program, tool: Path, kernels: list[dict[str, Any]], refused: list[dict[str, str]]) -> None:
    """Adds the resources of a program's kernels, or the reason why the assembler rejects a module."""
    plan = program.launches
    if plan is None:
        raise RuntimeFailure("a program has no launches: its target is not a GPU")
    launches = {launch.entry: launch for launch in plan.launches}
    infos = {info.name: info for info in program.kernels}
    facts = program.compile_facts
    for module in plan.modules:
        try:
            taken = assembler.resources(tool, program.objects[f"{module}.ptx"], program.target.cpu)
        except ArtefactError as error:
            refused.append({"module": module, "reason": str(error)})
            continue
        for item in taken:
            launch = launches[item.entry]
            info = infos[launch.kernel]
            kernels.append(
                {
                    "name": item.entry,
                    "class": info.kind,
                    "schedule": facts.details_of(info.name).schedule_name,
                    "nodes": list(dict.fromkeys(info.ops)),
                    "threads": launch.block[0] * launch.block[1] * launch.block[2],
                    "registers": item.registers,
                    "shared_bytes": item.shared_bytes + launch.shared_bytes,
                    "stack_bytes": item.stack_bytes,
                    "spill_bytes": item.spill_bytes,
                }
            )


def _print(record: Mapping[str, Any]) -> None:
    """Prints a table of a model's kernels, beginning with those that spill and those with the most registers."""
    kernels = sorted(record["kernels"], key=lambda item: (-item["spill_bytes"], -item["registers"]))
    print_table(_HEADERS, [_row(kernel) for kernel in kernels], _NUMBERS)
    for item in record["refused"]:
        print(f"{item['module']}: {item['reason']}", file=sys.stderr)
    print(
        f"{record['model']} for {record['target']}: {quantity(len(kernels), 'kernel')}, "
        f"{record['spilling']} of them spill, "
        f"{len(record['refused'])} modules are rejected; compiled in {record['compile_seconds']:.1f} s, "
        f"assembled in {record['assemble_seconds']:.1f} s\n"
    )


def _row(kernel: Mapping[str, Any]) -> list[str]:
    numbers = [str(kernel[key]) for key in ("threads", "registers", "shared_bytes", "spill_bytes")]
    return [kernel["name"], kernel["class"], kernel["schedule"], *numbers, _short(kernel["nodes"])]


def _short(nodes: Iterable[str]) -> str:
    text = " + ".join(nodes)
    return text if len(text) <= 40 else f"{text[:37]}..."


if __name__ == "__main__":
    sys.exit(main())
