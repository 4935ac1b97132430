"""How long each kernel takes inside the running model."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from mlir import ir

from ..compilation import Compilation
from ..lowering.vector_to_llvm.time_kernels import KERNELS, TIMES
from ..passes.pipeline import Pipeline
from ..runtime import loader, orc
from ..runtime.program import KernelInfo, Program, aligned_empty
from ..runtime.workspace import LoadedProgram, Workspace
from ..source import ModelSource


@dataclass(frozen=True)
class KernelTime:
    """A kernel's part of one call of the model.

    Attributes:
        kernel: its row in the program's table.
        calls: how often it runs.
        seconds: all of its calls together, the median over calls of the model.
    """

    kernel: KernelInfo
    calls: int
    seconds: float


@dataclass(frozen=True)
class Profile:
    """Where the time of a model goes.

    Attributes:
        seconds: of a call, the median; it holds two readings of the clock per kernel.
        between_seconds: of a call outside of kernels, the median.
        kernels: the slowest first.
    """

    seconds: float
    between_seconds: float
    kernels: list[KernelTime]


def profile(path: Path, inputs: Mapping[str, np.ndarray], threads: int, calls: int) -> Profile:
    """Compiles a model with clocks around its kernels, and runs it."""
    timed: list[str] = []

    def add_clocks(phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        if phase == "llvm":
            Pipeline(("stepwell-time-kernels",)).run(module)
            timed.extend(ir.StringAttr(name).value for name in ir.ArrayAttr(module.operation.attributes[KERNELS]))

    shapes = {name: array.shape for name, array in inputs.items()}
    program = Compilation(reached=add_clocks).program(ModelSource.read(path), shapes)
    loaded = LoadedProgram(program, loader.load(program), [_aligned(array) for array in program.parameters.values()])
    address = cast(orc.NativeCode, loaded.code.owner).address(TIMES)
    table = np.ctypeslib.as_array((ctypes.c_int64 * (2 * len(timed))).from_address(address)).reshape(-1, 2)
    totals, nanoseconds, counts = _run(loaded, [inputs[info.name] for info in program.inputs], threads, calls, table)
    between = np.median(np.array(totals) - np.sum(nanoseconds, axis=1) / 1e9)
    kernels = _kernels(program, timed, np.median(nanoseconds, axis=0), counts)
    return Profile(float(np.median(totals)), float(between), kernels)


def _run(
    loaded: LoadedProgram, arrays: list[np.ndarray], threads: int, calls: int, table: np.ndarray
) -> tuple[list[float], list[np.ndarray], np.ndarray]:
    workspace, totals, nanoseconds, counts = Workspace(), [], [], table[:, 1]
    # The first call wakes threads and fills caches.
    for _ in range(calls + 1):
        outputs = loaded.new_outputs()
        table[:] = 0
        start = time.perf_counter()
        workspace.run(loaded, arrays, outputs, threads)
        totals.append(time.perf_counter() - start)
        nanoseconds.append(table[:, 0].copy())
        counts = table[:, 1].copy()
    return totals[1:], nanoseconds[1:], counts


def _kernels(program: Program, timed: list[str], nanoseconds: np.ndarray, counts: np.ndarray) -> list[KernelTime]:
    names = np.array(timed)
    found = []
    for info in program.kernels:
        places = names == info.name
        # A kernel whose parts wait for each other is called part by part when threads share it.
        calls = int(counts[places].sum()) * info.calls // max(1, int(places.sum()))
        if calls:
            found.append(KernelTime(info, calls, float(nanoseconds[places].sum()) / 1e9))
    return sorted(found, key=lambda item: -item.seconds)


def _aligned(array: np.ndarray) -> np.ndarray:
    dense = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
    dense[...] = array
    return dense
