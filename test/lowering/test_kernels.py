"""Kernels of every class except contractions give the results of their ops' references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mlir import ir
from mlir.dialects import func
from stepwell.dialects.registry import load_dialects, view_of
from stepwell.dialects.stepwell import elementwise as ew
from stepwell.dialects.stepwell import movement as mv
from stepwell.dialects.stepwell import normalization as nm
from stepwell.dialects.stepwell import pooling as pl
from stepwell.dialects.stepwell import reduction as rd
from stepwell.dialects.types import TensorSpec, tensor_type
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget, Program, TensorInfo

Array = np.ndarray
Build = Callable[..., Any]


def build(body: Build, arrays: Sequence[Array]) -> ir.Module:
    """A module in phase `graph` whose @main is `body`."""
    module = ir.Module.create()
    types = [tensor_type(TensorSpec(array.shape, array.dtype)) for array in arrays]
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", (types, types[:1]))
    with ir.InsertionPoint(main.add_entry_block()), ir.Location.name("op"):
        result = body(*main.arguments).result
        func.ReturnOp([result])
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [result.type]))
    return module


def reference(module: ir.Module, arrays: Sequence[Array]) -> Array:
    block = module.body.operations[0].regions[0].blocks[0]
    known: dict[ir.Value, Array] = dict(zip(block.arguments, arrays, strict=True))
    *operations, last = block.operations
    for op in operations:
        view = view_of(op)
        assert view is not None
        known.update(zip(op.results, map(np.asarray, view.evaluate(known.__getitem__)), strict=True))
    return known[last.operands[0]]


def check(body: Build, *arrays: Array, tolerance: float = 2e-6, target: str = "cpu") -> None:
    """Compiles `body`, runs it and compares with the reference."""
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module = build(body, arrays)
        want = reference(module, arrays)
        route.run(module, state_for(target), start="graph")
        size = ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value
        objects = emit_objects(module, Target.parse(target))
    inputs, outputs = (tuple(TensorInfo("", item.dtype, item.shape) for item in items) for items in (arrays, [want]))
    program = Program(inputs, outputs, {}, size, CodeTarget("", target), objects=objects)
    loaded = LoadedProgram(program, loader.load(program), [])
    (out,) = loaded.run(Workspace(), list(map(np.ascontiguousarray, arrays)), threads=1)
    np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


POOL = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
LAST = {"layout": "channels_last"}


@pytest.mark.parametrize("size", [1, 3, 8, 17, 40, 64, 100, 480, 1000])
def test_every_length_of_a_row(size: int) -> None:
    check(lambda x, b: ew.HardSwishOp(ew.AddOp(x, b)), floats(5, size), floats(size))
    check(lambda x: nm.SoftmaxOp(x), floats(5, size))
    check(lambda x: rd.ReduceSumOp(x, axes=(1,)), floats(5, size), tolerance=1e-5)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.uint8, np.int64])
def test_element_types(kind: type) -> None:
    x, y = ((RNG.standard_normal((9, 33)) * 20).astype(kind) for _ in range(2))
    check(lambda a, b: ew.MaximumOp(ew.AddOp(a, b), b), x, y)
    check(lambda a: rd.ReduceMaxOp(a, axes=(0,)), x)
    check(lambda a: ew.CastOp(a, dtype=np.dtype(np.float32)), x)
    check(lambda a, b: ew.LessOp(a, b), x, y)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("shape", [(3, 50257), (2, 5000, 33), (37, 6), (9, 300), (6, 2), (7, 3)])
def test_softmax_of_every_row(kind: type, shape: tuple[int, ...]) -> None:
    tolerance = 2e-3 if kind == np.float16 else 2e-6
    check(lambda x: nm.SoftmaxOp(x, axis=1), floats(*shape).astype(kind), tolerance=tolerance)


def test_softmax_gives_masked_elements_nothing() -> None:
    x = floats(5, 70)
    x[:, ::3] = -np.inf
    check(lambda x: nm.SoftmaxOp(x, axis=1), x)


def test_nan_stays() -> None:
    x = np.array([[1, np.nan, -2, 3, 0]], np.float32)
    check(lambda a: ew.ReluOp(a), x)
    check(lambda a: ew.ClipOp(a, minimum=0.0, maximum=2.0), x)
    check(lambda a: rd.ReduceMaxOp(a, axes=(1,)), x)
    check(lambda a: nm.SoftmaxOp(a), x)
    check(lambda a: rd.ArgmaxOp(a, axis=1), x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_every_axis(axis: int) -> None:
    x = floats(7, 20, 37)
    check(lambda a: nm.SoftmaxOp(a, axis=axis), x)
    check(lambda a: nm.LogSoftmaxOp(a, axis=axis), x)
    check(lambda a: rd.ArgmaxOp(a, axis=axis, keepdims=False), x)
    check(lambda a: rd.ReduceMeanOp(a, axes=(axis,)), x)


def test_norms() -> None:
    x, gain, offset = floats(3, 17, 120), floats(120), floats(120)
    check(lambda a, g, b: nm.LayerNormOp(ew.AddOp(a, a), g, b), x, gain, offset)
    check(lambda a, g: nm.RmsNormOp(a, g), x, gain)
    check(lambda a: nm.LocalResponseNormOp(a, size=5, **LAST), floats(1, 6, 5, 96))
    check(lambda a: nm.LocalResponseNormOp(a, size=3, beta=0.5), floats(1, 9, 5, 7))


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
def test_pooling(layout: str) -> None:
    x = floats(1, 11, 13, 24) if layout == "channels_last" else floats(1, 24, 11, 13)
    check(lambda a: pl.MaxPoolOp(a, layout=layout, **POOL), x)
    check(lambda a: pl.AveragePoolOp(a, layout=layout, **POOL), x)
    check(lambda a: pl.AveragePoolOp(a, layout=layout, count_include_pad=True, **POOL), x)


@pytest.mark.parametrize("permutation", [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (0, 2, 1, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8])
def test_transposes(permutation: tuple[int, ...], kind: type) -> None:
    check(lambda a: mv.TransposeOp(a, permutation=permutation), (floats(2, 19, 5, 33) * 50).astype(kind))


@pytest.mark.few(10)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("length", [16, 17, 33, 100])
@pytest.mark.parametrize("kind", [np.float32, np.int8, np.float64])
def test_a_few_rows_are_merged_and_parted(count: int, length: int, kind: type) -> None:
    x = (floats(3, count, length) * 50).astype(kind)
    check(lambda a: mv.TransposeOp(a, permutation=(0, 2, 1)), x)
    check(lambda a: mv.TransposeOp(a, permutation=(0, 2, 1)), np.ascontiguousarray(x.transpose(0, 2, 1)))


def test_large_transposes_in_parallel_blocks() -> None:
    check(lambda a: mv.TransposeOp(a, permutation=(0, 3, 1, 2)), floats(1, 200, 224, 3))
    check(lambda a: mv.TransposeOp(a, permutation=(0, 2, 3, 1)), floats(1, 3, 200, 224))
    check(lambda a: mv.TransposeOp(a, permutation=(1, 0)), floats(333, 517))


def test_parts_of_a_chain_of_concatenations_are_copied_once() -> None:
    parts = [floats(2, extent, 5) for extent in (3, 1, 4, 2)]

    def chain(*values: ir.Value) -> mv.ConcatOp:
        first = mv.ConcatOp(values[0], values[1], axis=1).result
        second = mv.ConcatOp(values[2], values[3], axis=1).result
        return mv.ConcatOp(mv.ConcatOp(first, second, axis=1).result, first, axis=1)

    check(chain, *parts)
    check(lambda a, b: mv.ConcatOp(mv.ConcatOp(a, a, axis=2).result, b, axis=1), floats(2, 3, 5), floats(2, 1, 10))


def test_movement() -> None:
    x = floats(4, 9, 33)
    check(lambda a, b: mv.ConcatOp(a, b, axis=2), x, floats(4, 9, 7))
    check(lambda a: mv.SliceOp(a, starts=(0, 1, 3), stops=(4, 9, 30), steps=(1, 2, 3)), x)
    check(lambda a: mv.SliceOp(a, starts=(1, 0, 32), stops=(4, 9, 200), steps=(2, 1, 7)), floats(4, 9, 200))
    check(lambda a: mv.ReverseOp(a, axes=(0, 2)), x)
    check(lambda a: mv.TileOp(a, repeats=(2, 1, 3)), x)
    check(lambda a: mv.BroadcastToOp(a, shape=(4, 9, 33)), floats(4, 1, 33))
    check(lambda a, i: mv.GatherOp(a, i, axis=2), x, np.array([[3, -1], [0, 32]]))
    for mode in ("constant", "reflect", "edge"):
        check(lambda a, mode=mode: mv.PadOp(a, low=(0, 1, 2), high=(1, 0, 3), mode=mode, value=2.0), x)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str) -> None:
    scales = np.array([1, 2, 1.5, 1], np.float32)
    check(
        lambda a: mv.ResizeOp(a, sizes=(1, 10, 12, 24), scales=scales, mode=mode, **LAST),
        floats(1, 5, 8, 24),
        tolerance=1e-5,
    )


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_other_levels_of_this_machine(target: str) -> None:
    level = {"x86-64-v3": "+avx2", "x86-64-v4": "+avx512f"}[target]
    if level not in Target.host().features:
        pytest.skip(f"this machine has no {level[1:]}")
    check(lambda a: nm.SoftmaxOp(a), floats(7, 100), target=target)
    check(lambda a: mv.TransposeOp(a, permutation=(1, 0)), floats(19, 33), target=target)
