"""A program for GPUs as calls see it: numpy arrays in and out, or tensors on the device in and out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArtefactError
from ..expressions import evaluate
from ..program import Program, Shape
from ..sizes import table_of
from ..workspace import LoadedProgram
from . import devices
from .dlpack import DeviceArray
from .executor import DeviceProgram
from .launch_checks import check_plan

if TYPE_CHECKING:
    from ..recorder import Recorder
    from ..workspace import Workspace


class LoadedLaunches(LoadedProgram):
    """A program on a device, or on the simulator of one where `STEPWELL_CUDA=simulate`."""

    def __init__(self, program: Program, recorder: Recorder | None = None) -> None:
        """Checks the plan and brings code and parameters to where they run.

        Args:
            program: the program.
            recorder: told how long each step takes on the device, where arrays of the host come and go.

        Raises:
            ArtefactError: the plan is none that stays inside its own buffers.
            DeviceError: there is no device that runs it.
        """
        assert program.launches is not None
        guards = [1] * len(program.guards)
        outputs = [*(info.nbytes for info in program.outputs), *guards]
        sizes = [info.nbytes for info in program.inputs], outputs, [item.nbytes for item in program.parameters.values()]
        try:
            check_plan(program.launches, *sizes)
        except ValueError as error:
            raise ArtefactError(str(error)) from error
        self.program, self._recorder = program, recorder
        self.code_on_device = DeviceProgram(program, devices.current())
        kinds = [(tuple(int(dim) for dim in info.shape), info.dtype) for info in program.outputs]
        self._outputs = [(shape, dtype, None) for shape, dtype in kinds] + [((), np.dtype(np.bool_), None)] * len(
            guards
        )

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The outputs for inputs of the program's shapes.

        Raises:
            GuardError: a guard says that the outputs mean nothing.
            DeviceError: the device fails.
            SimulationError: on the simulator, a kernel does what it must not.
        """
        return self._run(arrays, None)

    def _run(self, arrays: Sequence[np.ndarray], shapes: Sequence[Shape] | None) -> list[np.ndarray]:
        """A run whose outputs have these shapes, without guards; None: the program's own."""
        guards = [()] * len(self.program.guards)
        if any(type(array) is DeviceArray for array in arrays):
            kinds = None if shapes is None else [*shapes, *guards]
            results: list[Any] = list(self.code_on_device.run_on_device(arrays, kinds))
            count = len(self.program.outputs)
            results[count:] = [self.code_on_device.fetched(guard) for guard in results[count:]]
            return self.checked(results, arrays)
        outputs = self.new_outputs()
        if shapes is not None:
            infos = zip(shapes, self.program.outputs, strict=True)
            outputs[: len(shapes)] = [np.empty(shape, info.dtype) for shape, info in infos]
        if self._recorder is None:
            self.code_on_device.run(arrays, outputs)
        else:
            start = time.monotonic_ns()
            seconds = self.code_on_device.run_timed(arrays, outputs)
            self._recorder.note_steps(self.program, start, seconds)
        return self.checked(outputs, arrays) if self.program.guards else outputs


class BoundedLaunches(LoadedLaunches):
    """What calls with inputs of one set of shapes do with a program for more of them.

    Inputs go into tensors as large as the bounds, and results are cut out of such, on the device.
    """

    def __init__(self, wide: LoadedLaunches, sizes: Mapping[str, int]) -> None:
        """The call at given sizes of a program that is loaded."""
        self.program, self._recorder, self._outputs = wide.program, wide._recorder, wide._outputs
        self.code_on_device = wide.code_on_device
        bounds = wide.program.bounds
        assert bounds is not None
        self._table = table_of(bounds, int(wide.program.inputs[-1].shape[0]), sizes)
        self._shapes = [tuple(evaluate(item, sizes) for item in shape) for shape in bounds.outputs]

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The outputs, as of any program for GPUs."""
        return self._run([*arrays, self._table], self._shapes)
