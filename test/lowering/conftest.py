"""Fixtures of the tests of native code: single ops, compiled and compared with their references."""

from __future__ import annotations

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
from stepwell.driver.context import compiler_context
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget, Program, TensorInfo


def compile_op(op: type[Op], arrays: list[np.ndarray], want: np.ndarray, attributes: dict[str, Any]) -> LoadedProgram:
    """Returns the native code of one op whose result is like `want`."""
    types = [TensorSpec(array.shape, array.dtype) for array in arrays]
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.create()
        kinds = [tensor_type(spec) for spec in types]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (kinds, []))
        with ir.InsertionPoint(main.add_entry_block()), ir.Location.name("op"):
            result = op(*main.arguments, **attributes).operation.result
            func.ReturnOp([result])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, [result.type]))
        route.run(module, "cpu", start="graph")
        size = ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value
        objects = emit_objects(module, Target.parse("cpu"))
    inputs, outputs = (tuple(TensorInfo("", item.dtype, item.shape) for item in items) for items in (arrays, [want]))
    program = Program(inputs, outputs, {}, size, CodeTarget("", "cpu"), objects=objects)
    return LoadedProgram(program, loader.load(program), [])


def check_native_op(op: type[Op], *arrays: np.ndarray, tolerance: float = 0, **attributes: Any) -> None:
    """Compiles an op with one result, runs it and compares it with its reference.

    Args:
        op: class of the op.
        *arrays: operands.
        tolerance: maximum error, relative and absolute.
        **attributes: attributes of the op.
    """
    keywords = {field.name: field.default for field in op.attribute_fields()} | attributes
    with np.errstate(all="ignore"):
        want = np.asarray(op.reference(*arrays, **keywords))
    loaded = compile_op(op, list(arrays), want, attributes)
    (out,) = loaded.run(Workspace(), list(map(np.ascontiguousarray, arrays)), threads=1)
    np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.fixture
def check_op() -> Callable[..., None]:
    """See `check_native_op`."""
    return check_native_op
