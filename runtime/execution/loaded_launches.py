"""Calls of loaded GPU programs: inputs and outputs are numpy arrays or tensors on the device."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sizes.bounds import table_of
from ...sizes.expressions import evaluate
from ...support.errors import ArtefactError
from ..cuda import devices
from ..cuda.dlpack import DeviceArray
from ..cuda.executor import DeviceProgram
from ..cuda.launch_checks import check_plan
from ..program import Program, Shape
from .results import crops_of
from .workspace import LoadedProgram, status_of

if TYPE_CHECKING:
    from .recorder import CallRecorder
    from .workspace import Workspace


class LoadedLaunches(LoadedProgram):
    """A program on a device, or on the simulator if `STEPWELL_CUDA=simulate`."""

    def __init__(self, program: Program, recorder: CallRecorder | None = None) -> None:
        """Checks the plan, and loads code and parameters onto the device.

        Args:
            program: the program.
            recorder: receives the time of each step on the device, for runs with arrays of the host.

        Raises:
            ArtefactError: the plan is invalid or leaves its own buffers.
            DeviceError: there is no device that runs it.
        """
        assert program.launches is not None
        outputs = [*(info.nbytes for info in program.outputs), *(array.nbytes for array in status_of(program))]
        sizes = [info.nbytes for info in program.inputs], outputs, [item.nbytes for item in program.parameters.values()]
        try:
            check_plan(program.launches, *sizes)
        except ValueError as error:
            raise ArtefactError(str(error)) from error
        self.program, self._recorder = program, recorder
        self.code_on_device = DeviceProgram(program, devices.current())
        kinds = [(tuple(int(dim) for dim in info.shape), info.dtype) for info in program.outputs]
        self._outputs = [(shape, dtype, None) for shape, dtype in kinds]
        self._crops = [crops_of(count) for count in program.counts]

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """Returns the outputs for inputs of the program's shapes.

        Raises:
            GuardError: a guard reports that the outputs are invalid.
            DeviceError: the device fails.
            SimulationError: on the simulator, a kernel violates the PTX ISA.
        """
        return self._run(arrays, None)

    def _run(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape] | None) -> list[np.ndarray]:
        """Runs the program; `shapes` are those of the outputs (None: the program's own)."""
        status = status_of(self.program)
        if any(type(array) is DeviceArray for array in arrays):
            kinds = None if shapes is None else [*shapes, *(array.shape for array in status)]
            results: list[Any] = list(self.code_on_device.run_on_device(arrays, kinds))
            count = len(self.program.outputs)
            return self.checked(
                results[:count], [self.code_on_device.fetched(item) for item in results[count:]], arrays
            )
        outputs = self.new_outputs()
        if shapes is not None:
            infos = zip(shapes, self.program.outputs, strict=True)
            outputs = [np.empty(shape, info.dtype) for shape, info in infos]
        if self._recorder is None:
            self.code_on_device.run(arrays, [*outputs, *status])
        else:
            start = time.monotonic_ns()
            seconds = self.code_on_device.run_timed(arrays, [*outputs, *status])
            self._recorder.note_steps(self.program, start, seconds)
        return self.checked(outputs, status, arrays)


class RangedLaunches(LoadedLaunches):
    """A program with symbolic sizes, bound to one set of input shapes.

    Inputs are copied into tensors of maximum size, and results are extracted from such tensors, on the device.
    """

    def __init__(self, wide: LoadedLaunches, sizes: Mapping[str, int]) -> None:
        """Binds a loaded program to given sizes."""
        self.program, self._recorder = wide.program, wide._recorder
        self._outputs, self._crops = wide._outputs, wide._crops
        self.code_on_device = wide.code_on_device
        bounds = wide.program.bounds
        assert bounds is not None
        self._table = table_of(bounds, int(wide.program.inputs[-1].shape[0]), sizes)
        self._shapes = [tuple(evaluate(item, sizes) for item in shape) for shape in bounds.outputs]

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """Returns the outputs, as `LoadedLaunches.run` does."""
        return self._run([*arrays, self._table], self._shapes)
