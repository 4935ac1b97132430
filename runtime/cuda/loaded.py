"""A program for GPUs as calls see it: numpy arrays in, numpy arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ArtefactError
from ..program import Program
from ..workspace import LoadedProgram
from . import devices
from .errors import DeviceError
from .launch_checks import check_plan
from .simulated import SimulatedProgram

if TYPE_CHECKING:
    from ..workspace import Workspace


class LoadedLaunches(LoadedProgram):
    """A program on a device, or on the simulator of one where `STEPWELL_CUDA=simulate`."""

    def __init__(self, program: Program) -> None:
        """Checks the plan and brings code and parameters to where they run.

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
        if not devices.is_simulated():
            raise DeviceError(f"programs run on the simulator only: set STEPWELL_CUDA={devices.SIMULATE}")
        self.program = program
        self._code = SimulatedProgram(program)
        kinds = [(tuple(int(dim) for dim in info.shape), info.dtype) for info in program.outputs]
        self._outputs = [(shape, dtype, None) for shape, dtype in kinds] + [((), np.dtype(np.bool_), None)] * len(
            guards
        )

    def run(self, workspace: Workspace, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The outputs for inputs of the program's shapes.

        Raises:
            GuardError: a guard says that the outputs mean nothing.
            SimulationError: on the simulator, a kernel does what it must not.
        """
        outputs = self.new_outputs()
        self._code.run(arrays, outputs)
        return self.checked(outputs) if self.program.guards else outputs
