"""Fixtures of the tests of native code: single ops, compiled and compared with their references."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import func
from stepwell.dialects.core import Op
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.types import TensorSpec, tensor_type
from stepwell.driver import route
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.runtime import orc


def compile_op(op: type[Op], arrays: list[np.ndarray], attributes: dict[str, Any]) -> tuple[Any, int]:
    """Returns the native code of one op, and the size of its arena in bytes."""
    context = ir.Context()
    load_dialects(context)
    types = [TensorSpec(array.shape, array.dtype) for array in arrays]
    with context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [tensor_type(spec) for spec in types]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (inputs, []))
        with ir.InsertionPoint(main.add_entry_block()), ir.Location.name("op"):
            result = op(*main.arguments, **attributes).operation.result
            func.ReturnOp([result])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [result.type]))
        route.run(module, "cpu", start="graph")
        size = ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value
        return orc.load_objects(emit_objects(module, Target.parse("cpu"))), size


def check_native_op(op: type[Op], *arrays: np.ndarray, tolerance: float = 0, **attributes: Any) -> None:
    """Compiles an op with one result, runs it and compares it with its reference.

    Args:
        op: class of the op.
        *arrays: operands.
        tolerance: maximum error, relative and absolute.
        **attributes: attributes of the op.
    """
    code, size = compile_op(op, list(arrays), attributes)
    keywords = {field.name: field.default for field in op.attribute_fields()} | attributes
    with np.errstate(all="ignore"):
        want = np.asarray(op.reference(*arrays, **keywords))
    out, arena = np.zeros(want.shape, want.dtype), np.zeros(size + 64, np.uint8)
    inputs = [np.ascontiguousarray(array) for array in arrays]
    places = [*(item.ctypes.data for item in (*inputs, out)), (arena.ctypes.data + 63) & ~63, None]
    table = (ctypes.c_void_p * len(places))(*places)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("stepwell_main"))(table)
    np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.fixture
def check_op() -> Callable[..., None]:
    """See `check_native_op`."""
    return check_native_op
