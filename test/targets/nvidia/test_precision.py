"""Products of float32 in fewer bits: tensor cores multiply them, and CPU code gives the same numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

_RANDOM = np.random.default_rng(0)
_INSTRUCTION = {"tf32": "tf32.tf32", "bf16": "bf16.bf16", "f16": "f16.f16"}
# Maximum difference from float32, relative to the largest output: some units in the last place of an operand.
_BOUND = {"tf32": 2e-3, "bf16": 2e-2, "f16": 2e-3}


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(_RANDOM.standard_normal(shape, np.float32) / 4, name)


def _model(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shape: list[int]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def _dense() -> tuple[bytes, list[int]]:
    nodes = [
        helper.make_node("Gemm", ["x", "u", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    weights = [_weight("u", 64, 64), _weight("b", 64), _weight("v", 64, 32), _weight("w", 32, 16)]
    return _model(nodes, weights, [32, 64]), [32, 64]


def _convolutions() -> tuple[bytes, list[int]]:
    nodes = [
        helper.make_node("Conv", ["x", "u", "b"], ["h"], pads=[1] * 4),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["s"], strides=[2, 2]),
        helper.make_node("Add", ["s", "c"], ["y"]),
    ]
    weights = [_weight("u", 16, 8, 3, 3), _weight("b", 16), _weight("v", 32, 16, 1, 1), _weight("c", 1, 32, 1, 1)]
    return _model(nodes, weights, [1, 8, 12, 12]), [1, 8, 12, 12]


@pytest.mark.few(3)
@pytest.mark.parametrize("precision", ["tf32", "bf16", "f16"])
@pytest.mark.parametrize("build", [_dense, _convolutions])
def test_tensor_cores_multiply_float32_in_fewer_bits(build, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    model, shape = build()
    options = stepwell.Options(cache=False, precision=precision, winograd=False)
    x = _RANDOM.standard_normal(shape, np.float32)
    exact = stepwell.compile(model, options=stepwell.Options(cache=False))(x)
    here = stepwell.compile(model, options=options)(x)
    there = stepwell.compile(model, "cuda:sm_80", options=options)
    (program,) = there.programs
    assert program.target.precision == precision
    code = b"".join(program.objects.values()).decode()
    assert code.count(f".{_INSTRUCTION[precision]}.f32") >= 2
    largest = np.abs(exact).max()
    assert np.abs(there(x) - here).max() <= 0.5 * _BOUND[precision] * largest
    assert 0 < np.abs(here - exact).max() <= _BOUND[precision] * largest


def test_activations_between_products_are_short() -> None:
    """Casts need no kernels: a value's producer writes it in the type that the next product reads."""
    model, _ = _convolutions()
    kernels = {
        precision: [info.kind for info in program.kernels]
        for precision in ("f32", "bf16")
        for program in stepwell.compile(
            model, "cuda:sm_90a", options=stepwell.Options(cache=False, precision=precision)
        ).programs
    }
    assert kernels["bf16"] == ["elementwise", *kernels["f32"]]  # the model's input is float32


def test_precision_that_there_is_not() -> None:
    model, _ = _dense()
    with pytest.raises(ValueError, match=r"precision is 'f8', and must be one of 'f32', 'tf32', 'bf16', 'f16'"):
        stepwell.compile(model, options=stepwell.Options(precision="f8"))
    with pytest.raises(stepwell.TargetError, match="unknown precision 'f8'; known are f32"):
        stepwell.compile(model, "cuda:sm_80+f8", options=stepwell.Options(cache=False))


def test_warp_groups_take_tf32_by_lines_along_the_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are transposed before the first run; products too small for warp groups read them transposed as well."""
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    nodes = [helper.make_node("MatMul", ["x", "u"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    options = stepwell.Options(cache=False, precision="tf32", fallback="error")

    def compiled(rows: int, depth: int, columns: int) -> tuple[stepwell.Executable, bytes, str]:
        model = _model(nodes, [_weight("u", depth, columns)], [rows, depth])
        executable = stepwell.compile(model, "cuda:sm_90a", options=options)
        (program,) = executable.programs
        return executable, model, b"".join(program.objects.values()).decode()

    executable, model, code = compiled(64, 96, 64)
    x = _RANDOM.standard_normal((64, 96), np.float32)
    exact = np.asarray(stepwell.compile(model, options=stepwell.Options(cache=False))(x))
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in code
    assert 0 < np.abs(np.asarray(executable(x)) - exact).max() <= _BOUND["tf32"] * np.abs(exact).max()
    *_, code = compiled(4096, 512, 512)
    assert ".f32.tf32.tf32" in code
    assert "wgmma.mma_async" in code
