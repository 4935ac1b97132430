"""Compiles a model, or runs a pipeline on MLIR, and records every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from ...dialects.registry import load_dialects
from ...driver import api
from ...driver.caching.fingerprint import fingerprint
from ...driver.context import compiler_context
from ...lowering.target import Target
from ...machines.gpus import FLOAT32
from ...passes.infra.pipeline import Pipeline
from ...runtime.devices.cuda_estimates import peaks_of
from ...runtime.devices.roofline import roofline_of
from ...runtime.executable import Executable
from ...runtime.profile.profiler import profile
from ...runtime.program import CodeTarget, Shape
from ...targets.registry import target_of
from .machine_code import add_assembly
from .onnx_nodes import nodes_of
from .recorder import CrashSite, ModuleRecord, PassRecorder

SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""
_PROFILED_CALLS = 20
"""Number of timed calls of a profile: a choice."""


@dataclass(frozen=True)
class Exploration:
    """The contents of a page, as plain data.

    Attributes:
        record: the data, with keys as docs/explore.md lists them.
        executable: the compiled model; None if there is none.
        error: the error that ended the compile; "" if none did.
    """

    record: dict[str, Any]
    executable: Executable | None = field(default=None, compare=False)
    error: str = ""


def explore_model(
    path: str | Path,
    shapes: Mapping[str, Shape] | None = None,
    target: str = "cpu",
    assembly: bool = True,
    options: Mapping[str, Any] | None = None,
    note: Callable[[str], None] = lambda text: None,
    crash: CrashSite | None = None,
    contents: Mapping[str, np.ndarray] | None = None,
    step: bytes | None = None,
) -> Exploration:
    """Compiles a model and records every step.

    Errors are part of the record, unless they occur before the first compile.

    Args:
        path: an ONNX file, or MLIR that was printed at some phase.
        shapes: shapes of the inputs that have no fixed shape.
        target: the target of the code.
        assembly: whether to include the machine code of each kernel.
        options: further fields of `Options`.
        note: called with the progress of the work, in a form that `CrashSite` takes.
        crash: where a previous attempt crashed; this one stops there.
        contents: contents of some inputs, for models whose sizes depend on contents.
        step: the module of a training step of the model, which is compiled in its place.

    Raises:
        SourceError, ModelError: the model cannot be read, or has nothing to compile.
    """
    machine = target_of(target)

    def finished(piece: ModuleRecord, module: ir.Operation) -> None:
        if assembly:
            add_assembly(piece, module, target)

    recorder = PassRecorder(finished, note, crash, target)
    chosen = api.Options(cache=False, instrumentation=[recorder], **(options or {}))
    started, executable, error = time.perf_counter(), None, ""
    try:
        executable = api.compile(path if step is None else step, target=target, options=chosen)
        if shapes or not executable.programs:
            executable.prepare(shapes or {}, contents)
    except Exception as failure:  # shown by the exploration, after the passes that ran before it
        if not recorder.pieces:
            raise
        error = _note_failure(recorder, failure)
    record = _record(Path(path).name, recorder, error, time.perf_counter() - started, machine)
    record["target"] = f"{machine.cpu} ({machine.triple})"
    record["nodes"] = nodes_of(Path(path))
    if executable is not None:
        _add_report(record["pieces"], executable.report().record()["programs"])
    return Exploration(record, executable, error)


def add_profile(exploration: Exploration, inputs: Mapping[str, np.ndarray]) -> None:
    """Adds the measured time of each kernel to the record, by running the model on some inputs."""
    if exploration.executable is None:
        return
    rows = profile(exploration.executable, inputs, _PROFILED_CALLS, warmup=2).record()["kernels"]
    seconds = {row["kernel"]: row["seconds"] / row["calls"] for row in rows if row["calls"]}
    for piece in exploration.record["pieces"]:
        for kernel in piece["kernels"]:
            if kernel["symbol"] in seconds:
                kernel["seconds"] = seconds[kernel["symbol"]]


def explore_pipeline(
    path: str | Path,
    pipeline: Pipeline,
    note: Callable[[str], None] = lambda text: None,
    crash: CrashSite | None = None,
) -> Exploration:
    """Runs a pipeline on an MLIR file and records every step; see `explore_model` for `note` and `crash`.

    Raises:
        PipelineError: the pipeline is invalid.
        ir.MLIRError: the file is invalid.
    """
    recorder = PassRecorder(note=note, crash=crash)
    started, error = time.perf_counter(), ""
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.parseFile(str(path))
        try:
            pipeline.run(module, [recorder])
        except Exception as failure:  # shown by the exploration, after the passes that ran before it
            if not recorder.pieces:
                raise
            error = _note_failure(recorder, failure)
        record = _record(Path(path).name, recorder, error, time.perf_counter() - started, Target.host())
    return Exploration(record, None, error)


def _add_report(pieces: list[dict[str, Any]], programs: list[dict[str, Any]]) -> None:
    """Adds the report of each program to its piece, if every piece became one program."""
    if len(pieces) != len(programs):
        return
    for piece, program in zip(pieces, programs, strict=True):
        piece["report"] = {key: program[key] for key in ("ops", "kernels", "recomputation")}


def _note_failure(recorder: PassRecorder, failure: Exception) -> str:
    """Records an error in the last piece, with the model's nodes that it concerns."""
    piece = recorder.pieces[-1]
    message = str(failure).strip() or type(failure).__name__
    place = getattr(failure, "location", None)
    places = piece.texts.locations[piece.texts.location(f"({place})")] if place is not None else []
    piece.failure = {"pass": "", "phase": "", **(piece.failure or {}), "message": message, "places": places}
    return message


def _record(name: str, recorder: PassRecorder, error: str, seconds: float, target: Target) -> dict[str, Any]:
    pieces = [_piece(piece, index, target) for index, piece in enumerate(recorder.pieces)]
    return {
        "schema": SCHEMA,
        "model": name,
        "compiler": fingerprint(),
        "seconds": round(seconds, 3),
        "error": error,
        "pieces": pieces,
    }


def _piece(piece: ModuleRecord, index: int, target: Target) -> dict[str, Any]:
    return {
        "name": f"piece {index + 1}",
        "graph": piece.graph,
        "first": piece.first,
        "steps": piece.steps,
        "kernels": _kernels(piece, target),
        "assembly": piece.assembly,
        "renamed": piece.renamed,
        "chunks": piece.texts.chunks,
        "locations": piece.texts.locations,
        "places": piece.texts.places,
        "failure": piece.failure,
    }


def _kernels(piece: ModuleRecord, target: Target) -> list[dict[str, Any]]:
    """Returns the calls of kernels, with a lower bound of the time of each in seconds."""
    estimate = _estimate_of(target)
    found = []
    for call in piece.calls:
        least = estimate(call["flops"], call["bytes"])
        symbol = piece.renamed.get(call["kernel"], call["kernel"])
        found.append({**call, "symbol": symbol, "estimate": float(np.format_float_scientific(least, 3))})
    return found


def _estimate_of(target: Target) -> Callable[[float, float], float]:
    """Returns a function that estimates the seconds of a kernel from its operations and bytes, to rank kernels."""
    if target.device == "cuda":
        peaks = peaks_of(CodeTarget(target.triple, target.cpu))
        return lambda flops, size: peaks.seconds(FLOAT32, flops, size)[0]
    limit = roofline_of(CodeTarget(target.triple, target.cpu, target.features), target.vector_bytes, 1)
    return lambda flops, size: limit.seconds(flops, size, limit.vector_bits)[0]
