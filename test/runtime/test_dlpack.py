"""Tensors of other libraries: element types that numpy lacks, layouts, lifetimes and refusals."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import stepwell
from onnx import helper
from stepwell.compat.onnxruntime import OrtValue
from stepwell.runtime.cuda.dlpack import DeviceArray
from stepwell.runtime.dlpack import DELETER, Managed, ManagedVersioned, Tensor, element_code, element_type, from_dlpack
from stepwell.support.errors import InputError

BF16 = ml_dtypes.bfloat16
NEW = ctypes.pythonapi.PyCapsule_New
NEW.restype, NEW.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
READ_ONLY = 1


class Producer:
    """A library that exports an array as DLPack's C structures, and counts the exports that are returned to it."""

    def __init__(self, array: np.ndarray, *, version: int | None = 1, flags: int = 0, device: int = 1, **kind: int):
        code, bits = kind.get("code"), kind.get("bits", 8 * array.dtype.itemsize)
        self.array, self.version, self.device, self.returned = array, version, device, 0
        self.shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        self.strides = (ctypes.c_int64 * max(array.ndim, 1))(*(step // array.itemsize for step in array.strides))
        self.deleter = DELETER(self._delete)
        tensor = Tensor(
            array.ctypes.data - 4, device, 0, array.ndim, element_code(array.dtype) if code is None else code, bits, 1,
            self.shape, self.strides, 4,
        )  # fmt: skip
        deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        if version is None:
            self.managed: Any = Managed(tensor, None, deleter)
        else:
            self.managed = ManagedVersioned(version, 0, None, deleter, flags, tensor)

    def _delete(self, address: int) -> None:
        assert address == ctypes.addressof(self.managed)
        self.returned += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class Modern(Producer):
    """A library that implements DLPack 1.0."""

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        return NEW(ctypes.addressof(self.managed), b"dltensor_versioned", None)


class Old(Producer):
    """A library from before DLPack 1.0."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array, version=None)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return NEW(ctypes.addressof(self.managed), b"dltensor", None)


NUMBERS = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("make", [Modern, Old])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_types_of_ml_dtypes_are_read_in_place_and_given_back_once(make: Callable[..., Producer], name: str) -> None:
    array = NUMBERS.astype(getattr(ml_dtypes, name))
    given = make(array)
    taken = from_dlpack(given)
    assert taken.dtype == array.dtype and taken.ctypes.data == array.ctypes.data and taken.flags.writeable
    np.testing.assert_array_equal(taken.astype(np.float32), array.astype(np.float32))
    part = taken[1:]
    del taken
    gc.collect()
    assert given.returned == 0
    del part
    gc.collect()
    assert given.returned == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::2, ::-1],
        lambda x: x[1, 2:3].reshape(()),
        lambda x: x[:0],
        lambda x: np.broadcast_to(x[0], (2, 4)),
    ],
    ids=["transposed", "backwards", "scalar", "empty", "repeated"],
)
def test_any_strides(view: Callable[[np.ndarray], np.ndarray]) -> None:
    array = view(NUMBERS.astype(BF16))
    taken = from_dlpack(Modern(array))
    assert taken.shape == array.shape
    np.testing.assert_array_equal(taken.astype(np.float32), array.astype(np.float32))


def test_memory_that_may_not_be_written_stays_so() -> None:
    assert not from_dlpack(Modern(NUMBERS.astype(BF16), flags=READ_ONLY)).flags.writeable


@pytest.fixture(scope="module")
def doubling() -> stepwell.Executable:
    """A compiled model that doubles bfloat16[3, 4]."""
    kind = onnx.TensorProto.BFLOAT16
    x, y = (helper.make_tensor_value_info(name, kind, [3, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubling", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return stepwell.compile(model, threads=1)


@pytest.mark.parametrize("array", [NUMBERS.astype(BF16), np.arange(12).reshape(4, 3).astype(BF16).T])
def test_a_model_takes_bfloat16_of_another_library(doubling: stepwell.Executable, array: np.ndarray) -> None:
    given = Modern(array)
    y = doubling(given)
    assert y.dtype == BF16
    np.testing.assert_array_equal(y.astype(np.float32), 2 * array.astype(np.float32))
    gc.collect()
    assert given.returned == 1


def test_errors_name_the_given_tensor(doubling: stepwell.Executable) -> None:
    array = NUMBERS.astype(BF16)
    with pytest.raises(InputError, match=r"'x' must be bfloat16, but is float8_e5m2"):
        doubling(Modern(NUMBERS.astype(ml_dtypes.float8_e5m2)))
    refused = {
        r"input 'x' cannot be read .* memory of a device \(DLPack's device type 8\): copy it": Modern(array, device=8),
        "has DLPack version 2.0; only 1.x is supported": Modern(array, version=2),
        "DLPack type 3 with 16 bits": Modern(array, code=3),
    }
    for words, given in refused.items():
        with pytest.raises(InputError, match=words):
            doubling(given)
        assert given.returned == 0  # the capsule was not consumed and frees it
    with pytest.raises(InputError, match="cannot be read on the host: copy it there first"):
        doubling(DeviceArray(4096, (3, 4), np.dtype(BF16), 0, None))


def test_the_drop_in_takes_bfloat16() -> None:
    array = NUMBERS.astype(BF16)
    value = OrtValue.from_dlpack(Modern(array))
    assert value.data_type() == "tensor(bfloat16)" and value.data_ptr() == array.ctypes.data


def test_codes_and_element_types_agree() -> None:
    for name in ("int8", "uint64", "float16", "bool", "bfloat16", "float8_e4m3", "float8_e5m2fnuz"):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        assert element_type(Tensor(code=element_code(dtype), bits=8 * dtype.itemsize, lanes=1)) == dtype
    assert element_type(Tensor(code=0, bits=4, lanes=1)) is None
    assert element_type(Tensor(code=4, bits=16, lanes=2)) is None
    with pytest.raises(BufferError, match="no element type str"):
        element_code(np.dtype("U"))


def test_tensors_of_torch(doubling: stepwell.Executable) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    assert from_dlpack(tensor).ctypes.data == tensor.data_ptr()
    for given in (tensor, tensor.reshape(4, 3).T):
        np.testing.assert_array_equal(doubling(given).astype(np.float32), 2 * given.float().numpy())
