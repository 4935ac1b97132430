"""Execution of one kernel on numpy arrays in a single call, for tests of generated code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ....runtime.cuda.errors import SimulationError
from ....runtime.launch_plan import TensorMap
from .batch import Checks, GridGeometry
from .memory import UNDEFINED, GlobalMemory
from .observer import Observer
from .simulate import SimulatedModule
from .tensor_maps import encode


def simulate(
    ptx: str,
    entry: str,
    geometry: GridGeometry,
    arguments: Sequence[np.ndarray | np.generic | TensorMap],
    outputs: Collection[int] = (),
    checks: Checks | None = None,
    observer: Observer | None = None,
) -> None:
    """Runs a kernel once on a new device.

    Args:
        ptx: text of the module.
        entry: name of the kernel.
        geometry: launch geometry.
        arguments: arguments of the kernel, in order. An array is copied to the device, passed by address, and copied
            back at the end. A numpy scalar is passed by value. The buffer index of a tensor map refers to an array
            among these arguments.
        outputs: positions of arrays that the kernel must write completely, and must not read before.
        checks: the checks to apply.
        observer: receives every memory access.

    Raises:
        SimulationError: the kernel violates the PTX ISA, or leaves a part of an output unwritten.
    """
    memory = GlobalMemory(allow_undefined=checks is not None and not checks.undefined_reads)
    module = SimulatedModule(ptx, memory)
    passed: list[bytes | TensorMap] = []
    placed: dict[int, int] = {}
    for position, argument in enumerate(arguments):
        if isinstance(argument, np.generic):
            passed.append(argument.tobytes())
            continue
        if isinstance(argument, TensorMap):
            passed.append(argument)
            continue
        address = placed[position] = memory.allocate(argument.nbytes)
        if position not in outputs:
            memory.write(address, np.ascontiguousarray(argument))
        passed.append(np.uint64(address).tobytes())
    contents = [
        item if isinstance(item, bytes) else encode(item, placed[item.buffer.index] + item.buffer.offset)
        for item in passed
    ]
    module.launch(entry, geometry, contents, checks, observer)
    for position, address in placed.items():
        array = arguments[position]
        assert isinstance(array, np.ndarray)
        unwritten = memory.state[memory.part(address, array.nbytes)] == UNDEFINED
        if unwritten.any():
            first = int(np.argmax(unwritten))
            raise SimulationError(
                f"{entry} leaves {int(unwritten.sum())} of {array.nbytes} bytes of output {position} unwritten, "
                f"the first at byte {first}"
            )
        if array.flags.writeable:
            array[...] = memory.read(address, array.nbytes).view(array.dtype).reshape(array.shape)
