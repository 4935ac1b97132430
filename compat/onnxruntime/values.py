"""What describes and holds tensors: `NodeArg`, `ModelMetadata`, `OrtValue`, `IOBinding`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

    from .session import InferenceSession

_TYPE_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
    "object": "string",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def type_name(dtype: np.dtype) -> str:
    """The element type in ONNX Runtime's words: "tensor(float)"."""
    return f"tensor({_TYPE_NAMES[dtype.name]})"


def type_of(kind: onnx.TypeProto) -> str:
    """A type in ONNX Runtime's words: "seq(map(int64,tensor(float)))"."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return f"seq({type_of(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_of(kind.optional_type.elem_type)})"
    if which == "map_type":
        return f"map({_element_name(kind.map_type.key_type)},{type_of(kind.map_type.value_type)})"
    if which == "sparse_tensor_type":
        return f"sparse_tensor({_element_name(kind.sparse_tensor_type.elem_type)})"
    return f"tensor({_element_name(kind.tensor_type.elem_type)})"


def _element_name(kind: int) -> str:
    """An element type of ONNX in ONNX Runtime's words."""
    import onnx  # only here, and slow to import

    name = onnx.TensorProto.DataType.Name(kind).lower()
    return name.replace("_", "") if name.startswith("float8") else name


@dataclass(frozen=True)
class NodeArg:
    """A model's input or output.

    Attributes:
        name: its name.
        type: "tensor(float)" and the like.
        shape: a number, a symbol, or None (unnamed) per dimension.
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What an ONNX file says of itself."""

    custom_metadata_map: dict[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


class OrtValue:
    """A tensor in main memory."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """A value that shares the array's memory.

        Raises:
            ValueError: another device than the CPU is asked for.
        """
        _check_device(device_type)
        return OrtValue(np.ascontiguousarray(numpy_obj).reshape(np.shape(numpy_obj)))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray, onnx_element_type: int) -> OrtValue:
        """A value of an element type of ONNX that shares the array's memory, for types that numpy has not."""
        return OrtValue(np.ascontiguousarray(data).view(_element_dtype(onnx_element_type)).reshape(data.shape))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A value that shares another library's memory."""
        array = np.from_dlpack(data)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: list[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value of zeros.

        Raises:
            ValueError: another device than the CPU is asked for.
        """
        _check_device(device_type)
        return OrtValue(np.zeros(shape, element_type))

    def numpy(self) -> np.ndarray:
        """The contents."""
        return self._array

    def shape(self) -> list[int]:
        """The shape."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """The type: "tensor(float)" and the like."""
        return type_name(self._array.dtype)

    def element_type(self) -> int:
        """The number of the element type in ONNX."""
        import onnx  # only here, and slow to import

        return onnx.helper.np_dtype_to_tensor_dtype(self._array.dtype)

    def device_name(self) -> str:
        """Where it is."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._array.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """The size of the contents."""
        return self._array.nbytes

    def has_value(self) -> bool:
        """Whether there are contents."""
        return True

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return True

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence."""
        return False

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Replaces the contents."""
        self._array[...] = np_arr

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class IOBinding:
    """Inputs and outputs bound to a session ahead of a run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, np.ndarray] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Binds an array to an input."""
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory to an input, which must stay where it is until after the runs.

        Raises:
            ValueError: another device than the CPU is named.
        """
        _check_device(device_type)
        self._inputs[name] = _at(buffer_ptr, element_type, shape)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value to an input."""
        self._inputs[name] = ortvalue.numpy()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output in memory that is given, or else that the run allocates.

        Raises:
            ValueError: another device than the CPU is asked for.
        """
        _check_device(device_type)
        self._outputs[name] = None
        if buffer_ptr is not None and shape is not None:
            self._outputs[name] = OrtValue(_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in the memory of `ortvalue`."""
        self._outputs[name] = ortvalue

    def run(self) -> None:
        """Runs the session on what is bound."""
        names = list(self._outputs)
        arrays = self._session.run(names, self._inputs)
        self._results = []
        for name, array in zip(names, arrays, strict=True):
            value = self._outputs[name]
            if value is not None:
                value.update_inplace(array)
            self._results.append(value or OrtValue(array))

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order of binding."""
        return self._results

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The outputs' contents, in the order of binding."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing to wait for on a CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for on a CPU."""


def _element_dtype(element_type: Any) -> np.dtype:
    """An element type that is numpy's, or a number of ONNX."""
    if not isinstance(element_type, int):
        return np.dtype(element_type)
    import onnx  # only here, and slow to import

    return onnx.helper.tensor_dtype_to_np_dtype(element_type)


def _at(address: int, element_type: Any, shape: Sequence[int]) -> np.ndarray:
    """What is in memory, as an array that shares it."""
    dtype = _element_dtype(element_type)
    size = math.prod(shape) * dtype.itemsize
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(dtype).reshape(shape)


def _check_device(device_type: str) -> None:
    if device_type != "cpu":
        raise ValueError(f"there is no device '{device_type}' here, only 'cpu'")
