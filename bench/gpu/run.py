"""Checks and times the cases of `prepare`: `python -m stepwell.bench.gpu.run FOLDER [--bench] [--json FILE]`.

It needs numpy and cuda-bindings; torch for the peers, and to check the large cases. Without a device it reports that
and succeeds; with STEPWELL_CUDA=simulate the simulator checks the small cases.

Cases run in a child process (worker.py); after a failure the next cases get a new one. `--sanitize` runs the small
cases under NVIDIA's compute-sanitizer instead.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.artefact import reader
from ...runtime.cuda import devices, dlpack
from ...runtime.cuda.device import Device
from ...runtime.cuda.errors import DeviceError
from ...runtime.cuda.executor import DeviceProgram
from ...runtime.program import Program
from ...support.wording import quantity
from . import peers, sanitize, worker
from .data import contents, worst

_COLUMNS = ("name", "state", "difference", "microseconds", "torch", "ratio", "ORT", "TFLOP/s", "GB/s", "% of copy")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all cases of a folder; returns 0 if all are correct, or there is no device."""
    parser = argparse.ArgumentParser(prog="run.py", description="Checks and times programs on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bench", action="store_true", help="time all cases, and torch if it is installed")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names contain this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    text = "also write the results below this folder, in a folder with the device's name"
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help=text)
    parser.add_argument("--sanitize", action="store_true", help="run the small kernels under compute-sanitizer")
    text = "start no case after this many seconds (default: %(default)s)"
    parser.add_argument("--seconds", type=float, default=540, help=text)
    text = "time limit of a case in seconds (default: %(default)s)"
    parser.add_argument("--patience", type=float, default=120, metavar="SECONDS", help=text)
    parser.add_argument("--worker", nargs="*", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    try:
        device = devices.current()
    except DeviceError as error:
        print(f"skipped: {error}")
        return 0
    plan = json.loads((given.folder / "cases.json").read_text())
    wanted = {case["name"]: case for case in plan["cases"] if _is_wanted(case, given)}
    if given.worker is not None:
        torch = None if devices.is_simulated() else _torch()
        names = [name for name in given.worker if name in wanted]
        worker.serve(names, lambda name: _result(wanted[name], given.folder, device, torch, bench=given.bench))
        return 0
    if given.sanitize:
        return sanitize.check(given.folder, list(wanted))
    facts: dict[str, Any] = {"schema": 1, "device": device.describe(), "target": plan["target"]}
    print(f"{facts['device']}, {quantity(len(wanted), 'case')} for {plan['target']}")
    torch = None if devices.is_simulated() or not given.bench else _torch()
    if torch is not None:
        facts["copy_bytes_per_second"] = peers.copy_bandwidth(torch)
        print(f"copies: {facts['copy_bytes_per_second'] / 1e9:.0f} GB/s")
    print("  ".join(_COLUMNS), flush=True)
    results, file = [], given.json
    if given.keep is not None:
        file = given.keep / re.sub(r"\W+", "-", facts["device"].lower()).strip("-") / "gpu.json"
        file.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + given.seconds
    if (
        devices.is_simulated()
    ):  # without a time limit or child process: the simulator is slow, and a kernel cannot corrupt it
        made = (_result(case, given.folder, device, None, bench=given.bench) for case in wanted.values())
    else:
        made = worker.results(_command(given), list(wanted), given.patience, deadline)
    for result in made:
        if "copy_bytes_per_second" in facts and "bytes_per_second" in result:
            result["share_of_copy"] = result["bytes_per_second"] / facts["copy_bytes_per_second"]
        results.append(result)
        print(_row(result), flush=True)
        if file is not None:  # keeps the results so far whatever happens next
            file.write_text(json.dumps({**facts, "results": results}, indent=1))
    return _summary(results)


def _is_wanted(case: Mapping[str, Any], given: argparse.Namespace) -> bool:
    return given.only in case["name"] and bool(given.bench or case["data"])


def _command(given: argparse.Namespace) -> Callable[[Sequence[str]], Sequence[str]]:
    """Returns a function that gives the command of a worker process for some cases."""
    flags = ["--bench"] if given.bench else []
    return lambda names: [*worker.python(), str(given.folder), *flags, "--worker", *names]


def _summary(results: Sequence[Mapping[str, Any]]) -> int:
    by_state = {
        state: [result["name"] for result in results if result["state"] == state]
        for state in ("wrong", "failed", "not run")
    }
    bad = "".join(f"; {state}: {', '.join(names)}" for state, names in by_state.items() if names)
    right = sum(result["state"] in ("right", "timed") for result in results)
    print(f"{right} of {len(results)} are right{bad}")
    return 1 if bad else 0


def _torch() -> Any:
    """Returns torch if it is installed and has access to the device, else None."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _result(case: Mapping[str, Any], folder: Path, device: Device, torch: Any, *, bench: bool) -> dict[str, Any]:
    """Runs a case and returns its result; a failure does not affect other cases."""
    result: dict[str, Any] = {"name": case["name"], "state": "failed", "reason": ""}
    try:
        (program,) = reader.read(folder / case["artefact"]).programs
        loaded = DeviceProgram(program, device)
        if case["data"]:
            result["difference"] = _checked(program, loaded, folder / case["data"])
        elif torch is None and "onnx" not in case:
            return {**result, "reason": "large cases are compared with torch, which is not installed"}
        if bench:
            result |= _timed(case, program, loaded, torch, folder)
    except Exception as error:  # any failure leaves the other cases to run
        return {**result, "reason": f"{type(error).__name__}: {error}"}
    if "difference" not in result:
        return {**result, "state": "timed"}
    result["state"] = "right" if result["difference"] <= case["tolerance"] else "wrong"
    return result


def _checked(program: Program, loaded: DeviceProgram, path: Path) -> float:
    """Runs a program twice on the stored data; returns the larger error."""
    with np.load(path) as kept:
        given = [kept[f"in.{info.name}"].astype(info.dtype) for info in program.inputs]
        expected = [kept[f"out.{info.name}"] for info in program.outputs]
    differences = []
    for _ in range(2):  # the second run may differ: it may replay a graph of the first
        outputs = [np.empty([int(dim) for dim in info.shape], info.dtype) for info in program.outputs]
        guards = [np.empty((), bool) for _ in program.guards]
        loaded.run(given, [*outputs, *guards])
        differences.append(worst(outputs, expected))
    return max(differences)


def _timed(
    case: Mapping[str, Any], program: Program, loaded: DeviceProgram, torch: Any, folder: Path
) -> dict[str, Any]:
    given = [contents([int(dim) for dim in info.shape], info.dtype, seed) for seed, info in enumerate(program.inputs)]
    seconds = loaded.timed(given)
    result: dict[str, Any] = {"seconds": seconds}
    if case["flops"]:
        result["flops_per_second"] = case["flops"] / seconds
    if case["nbytes"]:
        result["bytes_per_second"] = case["nbytes"] / seconds
    if "onnx" in case:
        return result | _beside(case, program, given, torch, folder, seconds)
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


def _beside(
    case: Mapping[str, Any],
    program: Program,
    given: Sequence[np.ndarray],
    torch: Any,
    folder: Path,
    seconds: float,
) -> dict[str, Any]:
    """Times the peers on a whole model; failures of a peer are reported as the reason, and are not errors."""
    found: dict[str, Any] = {"reason": ""}
    named = {info.name: array for info, array in zip(program.inputs, given, strict=True)}

    def of_torch() -> float:
        if torch is None:
            raise LookupError("torch is not installed, or has no device")
        tensors = [torch.from_numpy(array).to("cuda") for array in given]
        return peers.compiled_model(torch, case["torch"], tensors, case["precision"])

    peers_ = {"peer_seconds": of_torch}
    if case["precision"] == "f32":
        peers_["onnxruntime_seconds"] = lambda: peers.onnxruntime_model(folder / case["onnx"], named)
    for key, run in peers_.items():
        try:
            found[key] = run()
        except Exception as error:  # reported as the reason
            found["reason"] += f"{key.removesuffix('_seconds')}: {type(error).__name__}: {str(error)[:200]}; "
    if "peer_seconds" in found:
        found["ratio"] = found["peer_seconds"] / seconds
    return found


def _row(result: Mapping[str, Any]) -> str:
    def number(key: str, scale: float, form: str) -> str:
        return format(result[key] * scale, form) if key in result else "-"

    cells = [
        result["name"],
        result["state"],
        number("difference", 1, ".1e"),
        number("seconds", 1e6, ".1f"),
        number("peer_seconds", 1e6, ".1f"),
        number("ratio", 1, ".2f"),
        number("onnxruntime_seconds", 1e6, ".1f"),
        number("flops_per_second", 1e-12, ".1f"),
        number("bytes_per_second", 1e-9, ".0f"),
        number("share_of_copy", 100, ".0f"),
    ]
    return "  ".join(cells) + (f"  {result['reason']}" if result["reason"] else "")


if __name__ == "__main__":
    sys.exit(main())
