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
from stepwell.driver.state import state_for
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget, Program, TensorInfo


def compile_op(
    op: type[Op], operands: list[np.ndarray | None], want: np.ndarray, attributes: dict[str, Any]
) -> LoadedProgram:
    """Returns the native code of one op whose result is like `want`; absent operands are None."""
    arrays = [array for array in operands if array is not None]
    types = [TensorSpec(array.shape, array.dtype) for array in arrays]
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.create()
        kinds = [tensor_type(spec) for spec in types]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", (kinds, []))
        with ir.InsertionPoint(main.add_entry_block()), ir.Location.name("op"):
            given = iter(main.arguments)
            values = [None if array is None else next(given) for array in operands]
            result = op(*values, **attributes).operation.result
            func.ReturnOp([result])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, [result.type]))
        route.run(module, state_for("cpu"), start="graph")
        size = ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value
        objects = emit_objects(module, Target.parse("cpu"))
    inputs, outputs = (tuple(TensorInfo("", item.dtype, item.shape) for item in items) for items in (arrays, [want]))
    program = Program(inputs, outputs, {}, size, CodeTarget("", "cpu"), objects=objects)
    return LoadedProgram(program, loader.load(program), [])


def check_native_op(op: type[Op], *arrays: np.ndarray | None, tolerance: float = 0, **attributes: Any) -> None:
    """Compiles an op with one result, runs it and compares it with its reference.

    Args:
        op: class of the op.
        *arrays: operands; None for an optional one that is absent.
        tolerance: maximum error, relative and absolute.
        **attributes: attributes of the op.
    """
    keywords = {field.name: field.default for field in op.attribute_fields()} | attributes
    with np.errstate(all="ignore"):
        want = np.asarray(op.reference(*arrays, **keywords))
    loaded = compile_op(op, list(arrays), want, attributes)
    given = [np.ascontiguousarray(array) for array in arrays if array is not None]
    (out,) = loaded.run(Workspace(), given, threads=1)
    np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.fixture
def check_op() -> Callable[..., None]:
    """See `check_native_op`."""
    return check_native_op
