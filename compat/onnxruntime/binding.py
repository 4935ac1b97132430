"""Inputs and outputs bound to a session before a run."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .devices import OrtDevice, check_device
from .errors import Fail, InvalidArgument, NotImplemented
from .running import RunningSession
from .values import OrtValue, OrtValueVector, element_dtype


class SessionIOBinding:
    """The bound values, which programs access as `IOBinding._iobinding`; devices are given as `OrtDevice`."""

    def __init__(self, session: RunningSession) -> None:
        self.session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results = OrtValueVector()

    def bind_input(
        self,
        name: str,
        device: OrtDevice | np.ndarray,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int = 0,
    ) -> None:
        """Binds an array, or memory that must stay valid until after the runs.

        Raises:
            RuntimeError: there is no such input, or the device is not the CPU.
        """
        self._check(name, [arg.name for arg in self.session.get_inputs()])
        if isinstance(device, OrtDevice):
            check_device(device)
            self._inputs[name] = _at(buffer_ptr, element_type, shape or ())
        else:
            self._inputs[name] = device

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value to an input.

        Raises:
            RuntimeError: there is no such input.
        """
        self._check(name, [arg.name for arg in self.session.get_inputs()])
        self._inputs[name] = ortvalue.numpy()

    def bind_output(
        self,
        name: str,
        device: OrtDevice,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Requests an output, in the given memory or else in memory that the run allocates.

        Raises:
            RuntimeError: there is no such output, or the device is not the CPU.
        """
        check_device(device)
        self._check(name, [arg.name for arg in self.session.get_outputs()])
        self._outputs[name] = None
        if buffer_ptr is not None:
            self._outputs[name] = OrtValue(_at(buffer_ptr, element_type, shape or ()))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Requests an output in the memory of `ortvalue`.

        Raises:
            RuntimeError: there is no such output.
        """
        self._check(name, [arg.name for arg in self.session.get_outputs()])
        self._outputs[name] = ortvalue

    def run(self, run_options: Any = None) -> None:
        """Runs the session on the bound values.

        Raises:
            RuntimeError: no output is bound, its memory has another size, or the run failed.
        """
        names = list(self._outputs)
        if not names:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        try:
            arrays = self.session.run(names, self._inputs, run_options)
        except (ValueError, Fail, InvalidArgument, NotImplemented) as error:
            raise RuntimeError(f"Error in execution: {error}") from error
        self._results = OrtValueVector()
        for name, array in zip(names, arrays, strict=True):
            value = self._outputs[name]
            if value is not None:
                self._fill(name, value, array)
            self._results.append(value or OrtValue(array))

    def get_outputs(self) -> OrtValueVector:
        """Returns the outputs of the last run, in the order of binding."""
        return self._results

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """Returns the outputs' contents, in the order of binding."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Removes all bound inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Removes all bound outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Does nothing: on a CPU there is nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Does nothing: on a CPU there is nothing to wait for."""

    @staticmethod
    def _check(name: str, names: Sequence[str]) -> None:
        if name not in names:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")

    @staticmethod
    def _fill(name: str, value: OrtValue, array: np.ndarray) -> None:
        """Writes an output to its bound memory; rejects another shape or type, which numpy might broadcast or cast."""
        target = value.numpy()
        if target.shape != array.shape or target.dtype != array.dtype:
            raise RuntimeError(
                f"Error in execution: Got invalid dimensions for output: {name}: it is {array.dtype.name}"
                f"{list(array.shape)}, but was bound to memory for {target.dtype.name}{list(target.shape)}"
            )
        np.copyto(target, array)


class IOBinding:
    """Inputs and outputs bound to a session; devices are given by kind and number."""

    def __init__(self, session: RunningSession) -> None:
        self._iobinding = SessionIOBinding(session)

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Binds an array to an input.

        Raises:
            RuntimeError: there is no such input.
        """
        self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory to an input; see `SessionIOBinding.bind_input`."""
        self._iobinding.bind_input(name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value to an input; see `SessionIOBinding.bind_ortvalue_input`."""
        self._iobinding.bind_ortvalue_input(name, ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Requests an output; see `SessionIOBinding.bind_output`.

        Raises:
            ValueError: memory is given without an element type or a shape.
        """
        if buffer_ptr is not None and (element_type is None or shape is None):
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._iobinding.bind_output(name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Requests an output in the memory of `ortvalue`; see `SessionIOBinding.bind_ortvalue_output`."""
        self._iobinding.bind_ortvalue_output(name, ortvalue)

    def get_outputs(self) -> list[OrtValue]:
        """Returns the outputs of the last run, in the order of binding."""
        return list(self._iobinding.get_outputs())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """Returns the outputs of the last run, in the order of binding."""
        return self._iobinding.get_outputs()

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """Returns the outputs' contents, in the order of binding."""
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        """Removes all bound inputs."""
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        """Removes all bound outputs."""
        self._iobinding.clear_binding_outputs()

    def synchronize_inputs(self) -> None:
        """Does nothing: on a CPU there is nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Does nothing: on a CPU there is nothing to wait for."""


def _at(address: int, element_type: Any, shape: Sequence[int]) -> np.ndarray:
    """Returns an array that shares the memory at an address."""
    dtype = element_dtype(element_type)
    size = math.prod(shape) * dtype.itemsize
    if not size:  # an empty tensor has no address
        return np.empty(shape, dtype)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(dtype).reshape(shape)
