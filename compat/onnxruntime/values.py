"""Tensors and their descriptions: `NodeArg`, `ModelMetadata`, `OrtValue`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.dlpack import from_dlpack
from .devices import OrtDevice, check_device

if TYPE_CHECKING:
    import onnx

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
    """Returns ONNX Runtime's name of a tensor type: "tensor(float)"."""
    return f"tensor({_TYPE_NAMES[dtype.name]})"


def type_of(kind: onnx.TypeProto) -> str:
    """Returns ONNX Runtime's name of a type: "seq(map(int64,tensor(float)))"."""
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


def tensor_of(kind: onnx.TypeProto) -> onnx.TypeProto.Tensor:
    """Returns the tensor type, or that inside an optional type; an empty description for other types."""
    return tensor_of(kind.optional_type.elem_type) if kind.HasField("optional_type") else kind.tensor_type


def _element_name(kind: int) -> str:
    """Returns ONNX Runtime's name of an element type of ONNX."""
    import onnx  # imported here because it is slow

    name = onnx.TensorProto.DataType.Name(kind).lower()
    return name.replace("_", "") if name.startswith("float8") else name


@dataclass(frozen=True)
class NodeArg:
    """A model's input or output.

    Attributes:
        name: its name.
        type: "tensor(float)" or similar.
        shape: a number, a symbol, or None (unnamed) per dimension.
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """The metadata of an ONNX file."""

    custom_metadata_map: dict[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


class OrtValue:
    """A tensor in main memory, or another value: a list, a dictionary, None."""

    def __init__(self, ortvalue: Any, numpy_obj: np.ndarray | None = None, session: Any = None) -> None:
        self._array = ortvalue._array if isinstance(ortvalue, OrtValue) else ortvalue

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray, device_type: str | OrtDevice = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Returns a value that shares the array's memory.

        Raises:
            RuntimeError: the device is not the CPU, or the argument is not an array of numbers.
        """
        check_device(device_type)
        if (
            not isinstance(numpy_obj, np.ndarray)
            or numpy_obj.dtype.name not in _TYPE_NAMES
            or numpy_obj.dtype == object
        ):
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        return OrtValue(np.ascontiguousarray(numpy_obj).reshape(np.shape(numpy_obj)))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray, onnx_element_type: int) -> OrtValue:
        """Returns a value that shares the array's memory as an element type of ONNX, for types that numpy lacks."""
        return OrtValue(np.ascontiguousarray(data).view(element_dtype(onnx_element_type)).reshape(data.shape))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """Returns a value that shares another library's memory."""
        array = from_dlpack(data)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: Any = None,
    ) -> OrtValue:
        """Returns a value of zeros, of an element type given as numpy's or by its number in ONNX.

        Raises:
            RuntimeError: the device is not the CPU.
        """
        check_device(device_type)
        return OrtValue(np.zeros(shape, element_dtype(element_type)))

    def numpy(self) -> np.ndarray:
        """Returns the contents."""
        return self._array

    def to_dlpack(self) -> Any:
        """Returns the contents for other libraries."""
        return self._array.__dlpack__()

    def shape(self) -> list[int]:
        """Returns the shape."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Returns the type: "tensor(float)" or similar."""
        return type_name(self._array.dtype)

    def element_type(self) -> int:
        """Returns the number of the element type in ONNX."""
        import onnx  # imported here because it is slow

        return onnx.helper.np_dtype_to_tensor_dtype(self._array.dtype)

    def device_name(self) -> str:
        """Returns the name of the device."""
        return "cpu"

    def data_ptr(self) -> int:
        """Returns the address of the first element."""
        return self._array.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """Returns the size of the contents in bytes."""
        return self._array.nbytes

    def has_value(self) -> bool:
        """Returns whether the value has contents."""
        return self._array is not None

    def is_tensor(self) -> bool:
        """Returns whether the value is a tensor."""
        return isinstance(self._array, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Returns False: sparse tensors are not supported."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Returns whether the value is a sequence."""
        return isinstance(self._array, list)

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Replaces the contents.

        Raises:
            RuntimeError: the new contents have another size.
        """
        if np_arr.size != self._array.size:
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        self._array[...] = np_arr.reshape(self._array.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    @property
    def _ortvalue(self) -> OrtValue:
        """The value itself, under the name by which programs access its inner object."""
        return self

    def _get_c_value(self) -> OrtValue:
        return self


class OrtValueVector(list[OrtValue]):
    """A list of values."""

    def push_back(self, value: OrtValue) -> None:
        """Appends a value."""
        self.append(value)

    def reserve(self, size: int) -> None:
        """Does nothing: lists grow as needed."""

    def shrink_to_fit(self) -> None:
        """Does nothing: lists need no trimming."""

    def element_type_at(self, index: int) -> int:
        """Returns the number of a value's element type in ONNX."""
        return self[index].element_type()


def element_dtype(element_type: Any) -> np.dtype:
    """Returns an element type, given as numpy's or by its number in ONNX."""
    if not isinstance(element_type, int):
        return np.dtype(element_type)
    import onnx  # imported here because it is slow

    return onnx.helper.tensor_dtype_to_np_dtype(element_type)
