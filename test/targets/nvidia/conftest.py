"""Runs one kernel on the PTX simulator, from linalg on tensors down, and checks its registers with ptxas."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.runtime.cuda.assembler import find_assembler, resources
from stepwell.runtime.launch_plan import BufferSlice, Launch, TensorMap
from stepwell.targets.nvidia.launches.emitters import recorded_schedule, schedule_attribute
from stepwell.targets.nvidia.launches.plan import launch_of
from stepwell.targets.nvidia.ptx import emit_ptx
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.harness import simulate
from stepwell.targets.nvidia.target import GpuTarget

ELEMENTS = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
}
WARP, BANKS_BYTES = 32, 128


@dataclass
class Simulated:
    """The result of a simulated kernel, its code and its schedules.

    Attributes:
        result: new contents of its destination.
        ptx: its PTX code.
        schedules: schedules of its launches.
        launches: number of launches.
        conflicts: number of extra passes of shared memory accesses due to bank conflicts, by instruction.
    """

    result: np.ndarray
    ptx: str
    schedules: list[str]
    launches: int
    conflicts: Counter[str]


class _Banks:
    """Counts bank conflicts."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def accessed(self, memory, offsets, width, access):
        if memory.name != "shared":
            return
        # A group of this many lanes passes at once, also if some are inactive; one pass takes one word of every bank.
        group = access.threads // min(WARP, BANKS_BYTES // width)
        words = offsets[:, None] // 4 + np.arange(-(-width // 4))
        pairs = np.unique(np.stack([np.broadcast_to(group[:, None], words.shape).ravel(), words.ravel()]), axis=1)
        met, passes = np.unique(pairs[0] * 32 + pairs[1] % 32, return_counts=True)
        most = np.zeros(int(group.max()) + 1, np.int64)
        np.maximum.at(most, met // 32, passes - 1)
        self.found[access.what] += int(most.sum())


@pytest.fixture
def simulated() -> Callable[..., Simulated]:
    """Compiles the single kernel of a module, with changed numbers in its schedule, and runs it on arrays."""

    def run(
        text: str,
        *inputs: np.ndarray,
        target: str = "cuda:sm_80",
        start: str = "kernels",
        numbers: Mapping[str, int | str] | None = None,
    ) -> Simulated:
        with compiler_context() as context:
            load_dialects(context)
            module = ir.Module.parse(text)
            route.run(module, state_for(target), start, "tiled")
            for function in module.body.operations if numbers else ():
                _change_schedule(function.operation, numbers or {})
            route.run(module, state_for(target), "tiled", "gpu")
            functions = [op.operation for op in module.body.operations]
            (kernel,) = [function for function in functions if "stepwell.launches" in function.attributes]
            types = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).inputs
            shapes = [(list(ir.ShapedType(kind).shape), str(ir.ShapedType(kind).element_type)) for kind in types]
            launches = [ir.DictAttr(item) for item in ir.ArrayAttr(kernel.attributes["stepwell.launches"])]
            sizes = [math.prod(shape) * np.dtype(ELEMENTS[element]).itemsize for shape, element in shapes]
            operands = [BufferSlice("input", place, 0, size) for place, size in enumerate(sizes)]
            launches = [launch_of("kernel", item, operands) for item in launches]
            schedule = ir.StringAttr(ir.DictAttr(kernel.attributes["stepwell.schedule"])["name"]).value
            route.run(module, state_for(target), "gpu")
            (code,) = emit_ptx(module, GpuTarget.parse(target)).values()
        ptx = code.decode()
        arrays = [np.ascontiguousarray(item).copy() for item in inputs]
        arrays += [np.zeros(shape, ELEMENTS[element]) for shape, element in shapes[len(inputs) :]]
        banks = _Banks()
        for launch in launches:
            geometry = GridGeometry(launch.grid, launch.block, launch.cluster, launch.shared_bytes)
            given, outputs = _given(launch, arrays)
            simulate(ptx, launch.entry, geometry, given, outputs, observer=banks)
        return Simulated(arrays[len(inputs)], ptx, schedule.split("+"), len(launches), banks.found)

    return run


def _change_schedule(function: ir.Operation, numbers: Mapping[str, int | str]) -> None:
    if "stepwell.schedule" in function.attributes:
        name, known = recorded_schedule(function)
        function.attributes["stepwell.schedule"] = schedule_attribute(name, {**known, **numbers})


def _given(launch: Launch, arrays: list[np.ndarray]) -> tuple[list[np.ndarray | TensorMap], list[int]]:
    """Returns the arguments of a launch, and which of them are its result: the last buffer."""
    given: list[np.ndarray | TensorMap] = []
    places: dict[int, int] = {}
    for item in launch.arguments:
        if isinstance(item, TensorMap):
            given.append(replace(item, buffer=replace(item.buffer, index=places[item.buffer.index])))
            continue
        assert isinstance(item, BufferSlice)
        places[item.index] = len(given)
        given.append(arrays[item.index].reshape(-1).view(np.uint8)[item.offset : item.offset + item.bytes])
    return given, [max(place for place, item in enumerate(given) if not isinstance(item, TensorMap))]


@pytest.fixture
def spills() -> Callable[[str], int]:
    """Returns a function that counts the bytes of registers that ptxas spills for some PTX."""
    assembler = find_assembler()
    if assembler is None:
        pytest.skip("there is no ptxas to ask: install nvidia-cuda-nvcc")

    def count(ptx: str) -> int:
        found = re.search(r"\.target (\S+)", ptx)
        assert found
        return sum(kernel.spill_bytes for kernel in resources(assembler, ptx.encode(), found[1]))

    return count
