"""Checks and times what `prepare` has made: `python -m stepwell.bench.gpu.run FOLDER [--bench] [--json FILE]`.

It needs numpy and cuda-bindings; for the peers, and to compare the large cases, torch. Where there is no device it says
so and ends well; with STEPWELL_CUDA=simulate the simulator checks the small cases.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime import artefact
from ...runtime.cuda import devices, dlpack
from ...runtime.cuda.device import Device
from ...runtime.cuda.errors import DeviceError
from ...runtime.cuda.executor import DeviceProgram
from ...runtime.errors import RuntimeFailure
from ...runtime.program import Program
from . import peers
from .data import contents, worst

_COLUMNS = ("name", "state", "difference", "microseconds", "torch", "ratio", "TFLOP/s", "GB/s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all cases of a folder; 0 if all are right, or there is no device."""
    parser = argparse.ArgumentParser(prog="run.py", description="Checks and times programs on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bench", action="store_true", help="time all cases, beside torch where it is installed")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names contain this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    given = parser.parse_args(arguments)
    try:
        device = devices.current()
    except DeviceError as error:
        print(f"skipped: {error}")
        return 0
    torch = None if devices.is_simulated() else _torch()
    plan = json.loads((given.folder / "cases.json").read_text())
    wanted = [case for case in plan["cases"] if given.only in case["name"] and (given.bench or case["data"])]
    facts: dict[str, Any] = {"schema": 1, "device": device.describe(), "target": plan["target"]}
    print(f"{facts['device']}, {len(wanted)} cases for {plan['target']}")
    if torch is not None and given.bench:
        facts["copy_bytes_per_second"] = peers.copy_bandwidth(torch)
        print(f"copies: {facts['copy_bytes_per_second'] / 1e9:.0f} GB/s")
    print("  ".join(_COLUMNS))
    results = []
    for case in wanted:
        result = _result(case, given.folder, device, torch, bench=given.bench)
        results.append(result)
        print(_row(case, result), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({**facts, "results": results}, indent=1))
    wrong = [result["name"] for result in results if result["state"] != "right"]
    print(
        f"{len(results) - len(wrong)} of {len(results)} are right" + (f"; wrong: {', '.join(wrong)}" if wrong else "")
    )
    return 1 if wrong else 0


def _torch() -> Any:
    """Torch, where it is there and sees the device."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _result(case: Mapping[str, Any], folder: Path, device: Device, torch: Any, *, bench: bool) -> dict[str, Any]:
    """What came of a case; a failure does not keep others from running."""
    result: dict[str, Any] = {"name": case["name"], "state": "failed", "reason": ""}
    try:
        (program,) = artefact.read(folder / case["artefact"]).programs
        loaded = DeviceProgram(program, device)
        if case["data"]:
            result["difference"] = _checked(program, loaded, folder / case["data"])
        elif torch is None:
            return {**result, "reason": "large cases are compared with torch, which is not here"}
        if bench:
            result |= _timed(case, program, loaded, torch)
    except (RuntimeFailure, ValueError) as error:
        return {**result, "reason": str(error)}
    result["state"] = "right" if result["difference"] <= case["tolerance"] else "wrong"
    return result


def _checked(program: Program, loaded: DeviceProgram, path: Path) -> float:
    """Runs a program on the data that were kept, twice, and tells how far off the worse result is."""
    with np.load(path) as kept:
        given = [kept[f"in.{info.name}"].astype(info.dtype) for info in program.inputs]
        expected = [kept[f"out.{info.name}"] for info in program.outputs]
    differences = []
    for _ in range(2):  # the second run may be another way: a graph of the first
        outputs = [np.empty([int(dim) for dim in info.shape], info.dtype) for info in program.outputs]
        guards = [np.empty((), bool) for _ in program.guards]
        loaded.run(given, [*outputs, *guards])
        differences.append(worst(outputs, expected))
    return max(differences)


def _timed(case: Mapping[str, Any], program: Program, loaded: DeviceProgram, torch: Any) -> dict[str, Any]:
    given = [contents([int(dim) for dim in info.shape], info.dtype, seed) for seed, info in enumerate(program.inputs)]
    seconds = loaded.timed(given)
    result: dict[str, Any] = {"seconds": seconds}
    if case["flops"]:
        result["flops_per_second"] = case["flops"] / seconds
    if case["nbytes"]:
        result["bytes_per_second"] = case["nbytes"] / seconds
    if torch is None or not case["peer"]:
        return result
    kind = getattr(torch, case["dtype"])
    tensors = [torch.from_numpy(array.astype(np.float32)).to("cuda", kind) for array in given]
    run = peers.function(torch, case["peer"], tensors)
    result["peer_seconds"] = peers.seconds(torch, run)
    result["ratio"] = result["peer_seconds"] / seconds
    if not case["data"]:
        ours = loaded.run_on_device([dlpack.adopt(tensor, "") for tensor in tensors])[0]
        theirs = run().float()
        gap = (torch.from_dlpack(ours).float() - theirs).abs().max()
        result["difference"] = float(gap / theirs.abs().max())
    return result


def _row(case: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    def number(key: str, scale: float, form: str) -> str:
        return format(result[key] * scale, form) if key in result else "-"

    cells = [
        case["name"],
        result["state"],
        number("difference", 1, ".1e"),
        number("seconds", 1e6, ".1f"),
        number("peer_seconds", 1e6, ".1f"),
        number("ratio", 1, ".2f"),
        number("flops_per_second", 1e-12, ".1f"),
        number("bytes_per_second", 1e-9, ".0f"),
    ]
    return "  ".join(cells) + (f"  {result['reason']}" if result["reason"] else "")


if __name__ == "__main__":
    sys.exit(main())
