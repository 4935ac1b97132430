"""One call that runs one kernel on numpy arrays: for trying out and testing what was generated."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..errors import SimulationError
from ..launch_plan import TensorMap
from .batch import Checks, Geometry, Observer
from .memory import UNDEFINED, GlobalMemory
from .simulate import SimulatedModule
from .tensor_maps import encode


def simulate(
    ptx: str,
    entry: str,
    geometry: Geometry,
    arguments: Sequence[np.ndarray | np.generic | TensorMap],
    outputs: Collection[int] = (),
    checks: Checks | None = None,
    observer: Observer | None = None,
) -> None:
    """Runs a kernel once on a device of its own.

    Args:
        ptx: the module.
        entry: the kernel's name.
        geometry: how many threads run it.
        arguments: what it takes, in order: an array stands for the address of a copy of it on the device, which is
            copied back at the end; a numpy scalar for itself; a tensor map for the array at the position among
            these arguments that the index of its buffer says.
        outputs: the positions of arrays that the kernel must write whole, and not read before.
        checks: what is looked for.
        observer: is told of every access of memory.

    Raises:
        SimulationError: the kernel does what it must not, or leaves a part of an output unwritten.
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
