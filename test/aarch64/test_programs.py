"""Compiled programs of every family of ops, run under the emulator and compared with ONNX's own reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from stepwell.lowering.target import Target

from . import harness

pytestmark = pytest.mark.skipif(not harness.is_available(), reason=harness.INSTALL)

RNG = np.random.default_rng(0)
Array = np.ndarray


class EmulatedCase(NamedTuple):
    """A model of one or several nodes, with its inputs and constants, and the tolerance of its outputs."""

    nodes: Sequence[onnx.NodeProto]
    inputs: dict[str, Array]
    constants: Mapping[str, Array] = MappingProxyType({})
    tolerance: float = 2e-6


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def floats(*shape: int, kind: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(kind)


def draw(kind: Any, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max, shape, dtype=kind, endpoint=True)


def branch(name: str, op: str) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 33])
    return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [output])


WHOLE_LINE = ("Exp", "Tanh", "Erf", "Sigmoid", "Sin", "Cos", "Atan", "Sinh", "Asinh", "Softplus", "Mish", "Gelu")
UNIT = ("Log", "Sqrt", "Asin", "Acos", "Tan", "Atanh", "Reciprocal")
CASES = {
    "math": EmulatedCase(
        [*(node(op, "x", op) for op in WHOLE_LINE), *(node(op, "u", op) for op in UNIT), node("Pow", "u x", "Pow")],
        {"x": floats(5, 37), "u": RNG.uniform(0.01, 0.99, (5, 37)).astype(np.float32)},
    ),
    "math_f64": EmulatedCase(
        [node(op, "x", op) for op in ("Exp", "Tanh", "Sin", "Log")], {"x": np.abs(floats(9, kind="f8"))}
    ),
    "half": EmulatedCase(
        [node("Add", "x y", "z"), node("Mul", "z y", "w"), node("Exp", "x", "e")],
        {"x": floats(9, 33, kind=np.float16), "y": floats(9, 33, kind=np.float16)},
        tolerance=4e-3,
    ),
    "integers": EmulatedCase(
        [node("Mul", "x y", "p"), node("Div", "x y", "q"), node("Mod", "x y", "r")],
        {"x": draw(np.int32, 7, 19), "y": draw(np.int32, 19) | 1},
    ),
    "remainders": EmulatedCase(
        [node("Mod", "x y", "r", fmod=1), node("Mod", "v w", "s", fmod=1)],
        {"x": 90 * floats(99), "y": floats(99), "v": 1e9 * floats(9, kind="f8"), "w": floats(9, kind="f8")},
        tolerance=0,
    ),
    "matmul": EmulatedCase([node("MatMul", "x w", "y")], {"x": floats(37, 65)}, {"w": floats(65, 71)}, 2e-5),
    "batches": EmulatedCase([node("MatMul", "x y", "z")], {"x": floats(3, 17, 20), "y": floats(3, 20, 9)}, {}, 2e-5),
    "conv": EmulatedCase(
        [node("Conv", "x w b", "y", pads=[1] * 4, strides=[2, 2]), node("Relu", "y", "z")],
        {"x": floats(1, 5, 15, 17)},
        {"w": floats(12, 5, 3, 3), "b": floats(12)},
        2e-5,
    ),
    "winograd": EmulatedCase(
        [node("Conv", "x w", "y", pads=[1] * 4)], {"x": floats(1, 64, 28, 28)}, {"w": floats(64, 64, 3, 3)}, 5e-4
    ),
    "depthwise": EmulatedCase(
        [node("Conv", "x w", "y", pads=[1] * 4, group=24)],
        {"x": floats(2, 24, 9, 13)},
        {"w": floats(24, 1, 3, 3)},
        1e-5,
    ),
    "attention": EmulatedCase(
        [node("MatMul", "q k", "s"), node("Mul", "s c", "t"), node("Softmax", "t", "p"), node("MatMul", "p v", "y")],
        {"q": floats(2, 33, 16), "k": floats(2, 16, 33), "v": floats(2, 33, 16)},
        {"c": np.float32(0.25)},
        1e-5,
    ),
    "pooling": EmulatedCase(
        [
            node("MaxPool", "x", "m", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
            node("AveragePool", "x", "a", kernel_shape=[2, 3]),
            node("GlobalAveragePool", "x", "g"),
        ],
        {"x": floats(2, 9, 11, 13)},
    ),
    "rows": EmulatedCase(
        [
            node("Softmax", "x", "s"),
            node("LayerNormalization", "x g b", "n"),
            node("ReduceMax", "x", "m"),
            node("ReduceSum", "x one", "t"),
            node("ArgMax", "x", "i", axis=0),
            node("CumSum", "x last", "c"),
        ],
        {"x": floats(9, 67)},
        {"g": floats(67), "b": floats(67), "one": np.array([1]), "last": np.int64(1)},
        1e-5,
    ),
    "movement": EmulatedCase(
        [
            node("Transpose", "x", "t", perm=[2, 0, 1]),
            node("Concat", "x x", "c", axis=1),
            node("Pad", "x p", "d", mode="reflect"),
            node("Resize", "x r f", "z", mode="nearest"),
            node("Gather", "x i", "g", axis=1),
        ],
        {"x": floats(5, 7, 9)},
        {
            "p": np.array([0, 1, 2, 0, 1, 0]),
            "r": np.empty(0, np.float32),
            "f": np.array([1, 2, 2], np.float32),
            "i": np.array([[6, 0], [-1, 3]]),
        },
    ),
    "bytes": EmulatedCase(
        [node("MatMulInteger", "x w a", "y")],
        {"x": draw(np.uint8, 7, 130)},
        {"w": draw(np.int8, 130, 33), "a": np.uint8(3)},
    ),
    "order": EmulatedCase(
        [node("TopK", "x k", "v i", axis=1), node("ScatterElements", "x at u", "s", axis=1, reduction="add")],
        {"x": floats(6, 40)},
        {"k": np.array([5]), "at": RNG.integers(0, 40, (6, 3)), "u": floats(6, 3)},
    ),
    "choice": EmulatedCase(
        [node("If", "c", "y", then_branch=branch("a", "Exp"), else_branch=branch("b", "Neg"))],
        {"c": np.array(True), "x": floats(4, 33)},
    ),
}


def model_of(case: EmulatedCase) -> onnx.ModelProto:
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in case.inputs.items()
    ]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in case.constants.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for item in case.nodes for name in item.output]
    graph = helper.make_graph(case.nodes, "g", ports, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def compiled(model: onnx.ModelProto, target: str) -> stepwell.Executable:
    return stepwell.compile(model, target, options=stepwell.Options(cache=False, codegen_threads=1))


@pytest.mark.parametrize("name", CASES)
def test_ops(name: str) -> None:
    case = CASES[name]
    model = model_of(case)
    (program,) = compiled(model, "aarch64").programs
    wanted = ReferenceEvaluator(model).run(None, case.inputs)
    for threads in (1, 3) if program.uses_threads else (1,):
        results = harness.run_program(program, list(case.inputs.values()), threads=threads)
        for info, got, want in zip(program.outputs, results, wanted, strict=True):
            scale = case.tolerance * max(1.0, float(np.abs(np.asarray(want, np.float64)).max()))
            np.testing.assert_allclose(
                got.astype(np.float64), np.asarray(want, np.float64), case.tolerance, scale, err_msg=info.name
            )


@pytest.mark.parametrize("target", ["aarch64", "aarch64:neoverse-v1"])
def test_sums_of_bfloat16_are_rounded_to_even(target: str) -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [5, 33]) for name in "xyz"]
    graph = helper.make_graph([node("Add", "x y", "z")], "g", ports[:2], ports[2:])
    (program,) = compiled(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), target).programs
    x, y = ((20 * floats(5, 33)).astype(ml_dtypes.bfloat16) for _ in range(2))
    np.testing.assert_array_equal(harness.run_program(program, [x, y])[0], x + y)


@pytest.mark.parametrize(
    ("target", "cpu", "method"),
    [
        ("aarch64", "cortex-a72", "long_pairs"),
        ("aarch64:neoverse-n1", "neoverse-n1", "sdot"),
        ("aarch64:neoverse-v1", "max", "usdot"),
    ],
)
def test_products_of_bytes_by_every_method(target: str, cpu: str, method: str) -> None:
    """Tests all methods on processors that have no more instructions than the target."""
    assert Target.parse(target).bytes_method == method
    for x in (draw(np.uint8, 5, 130), np.full((5, 130), 255, np.uint8)):
        for w in (draw(np.int8, 130, 33), np.full((130, 33), -128, np.int8)):
            model = model_of(EmulatedCase([node("MatMulInteger", "x w", "y")], {"x": x}, {"w": w}))
            (program,) = compiled(model, target).programs
            want = x.astype(np.int32) @ w.astype(np.int32)
            np.testing.assert_array_equal(harness.run_program(program, [x], cpu=cpu)[0], want)
