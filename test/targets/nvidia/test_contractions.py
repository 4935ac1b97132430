"""Products and convolutions of models on the GPU simulator: the CPU's results, and the intended schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.runtime.cuda.assembler import find_assembler, resources
from stepwell.targets.nvidia.kernels.contraction import emit
from stepwell.targets.nvidia.kernels.contraction.tiles import Tiling

OPTIONS = stepwell.Options(cache=False, fallback="error")
FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
BOUNDS = {FLOAT: 1e-5, HALF: 5e-3}
KINDS = {FLOAT: np.float32, HALF: np.float16}


def random(*shape: int, kind: int = FLOAT) -> np.ndarray:
    """Random numbers."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(KINDS[kind])


def model(nodes: list, weights: dict[str, np.ndarray], inputs: dict[str, list[int]], kind: int) -> onnx.ModelProto:
    """A model with one output, `y`."""
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    infos = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()]
    out = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "g", infos, [out], made)
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), strict_mode=True
    )


def check(made: onnx.ModelProto, inputs: dict[str, np.ndarray], kind: int, architecture: str, monkeypatch) -> None:
    """Compares the results of a model on the simulator and on the CPU."""
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    got = stepwell.compile(made, f"cuda:{architecture}", options=OPTIONS)(*inputs.values())
    want = stepwell.compile(made, options=OPTIONS)(*inputs.values())
    error = np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()
    assert error < BOUNDS[kind]


@pytest.mark.few(3)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", [FLOAT, HALF], ids=["float32", "float16"])
@pytest.mark.parametrize("shape", [(2, 24, 40, 48), (1, 13, 37, 51)], ids=str)
def test_a_product_with_bias_residual_and_activation(shape, kind, architecture, monkeypatch):
    batch, rows, depth, columns = shape
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Add", ["s", "r"], ["t"]),
        helper.make_node("Sigmoid", ["t"], ["g"]),
        helper.make_node("Mul", ["t", "g"], ["y"]),
    ]
    weights = {
        "w": random(depth, columns, kind=kind) / np.sqrt(depth, dtype=KINDS[kind]),
        "b": random(columns, kind=kind),
    }
    inputs = {"x": random(batch, rows, depth, kind=kind), "r": random(batch, rows, columns, kind=kind)}
    made = model(nodes, weights, {name: list(array.shape) for name, array in inputs.items()}, kind)
    check(made, inputs, kind, architecture, monkeypatch)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "stride", "dilation", "group"),
    [(16, 24, 3, 1, 1, 1), (3, 16, 3, 2, 1, 1), (12, 20, 1, 1, 1, 1), (8, 16, 3, 1, 2, 1), (32, 32, 3, 1, 1, 2)],
)
def test_a_convolution(channels, outputs, kernel, stride, dilation, group, monkeypatch):
    pad = dilation * (kernel // 2)
    attributes = {"pads": [pad] * 4, "strides": [stride] * 2, "dilations": [dilation] * 2, "group": group}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes), helper.make_node("Relu", ["c"], ["y"])]
    weights = {"w": random(outputs, channels // group, kernel, kernel) / kernel, "b": random(outputs)}
    made = model(nodes, weights, {"x": [2, channels, 10, 9]}, FLOAT)
    check(made, {"x": random(2, channels, 10, 9)}, FLOAT, "sm_80", monkeypatch)


def test_a_long_sum_of_few_results_is_shared_out(monkeypatch):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    made = model(nodes, {"w": random(1024, 128) / 32}, {"x": [2, 1024]}, FLOAT)
    check(made, {"x": random(2, 1024)}, FLOAT, "sm_80", monkeypatch)
    (kernel,) = stepwell.compile(made, "cuda:sm_80", options=OPTIONS).report().kernels
    assert kernel["schedule"] == "contraction+rows" and len(kernel["blocks"]) == 2
    assert kernel["parameters"]["compute"] == "f32"


def test_both_sides_of_a_product_may_be_computed_by_the_model(monkeypatch):
    nodes = [
        helper.make_node("Transpose", ["z"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    inputs = {"x": random(3, 20, 32), "z": random(3, 28, 32)}
    made = model(nodes, {}, {name: list(array.shape) for name, array in inputs.items()}, FLOAT)
    check(made, inputs, FLOAT, "sm_80", monkeypatch)


def test_a_product_by_warp_groups_with_bias_and_activation(monkeypatch):
    # By itself, `choose` takes other tiles for such a small product.
    monkeypatch.setattr(emit, "choose", lambda request, capability: Tiling("wgmma", 128, 64, 64, 64, 64, 3))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    weights = {"w": random(72, 104, kind=HALF) / np.sqrt(72, dtype=np.float16), "b": random(104, kind=HALF)}
    made = model(nodes, weights, {"x": [136, 72]}, HALF)
    check(made, {"x": random(136, 72, kind=HALF)}, HALF, "sm_90a", monkeypatch)


@pytest.mark.few(2)
@pytest.mark.parametrize(("architecture", "precision"), [("sm_80", "f32"), ("sm_90a", "f32"), ("sm_80", "bf16")])
@pytest.mark.parametrize("channels", [24, 21])
def test_code_leaves_registers_for_the_blocks_that_its_tiles_were_chosen_for(channels, architecture, precision):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Relu", ["c"], ["y"])]
    made = model(nodes, {"w": random(64, channels, 3, 3)}, {"x": [1, channels, 160, 160]}, FLOAT)
    options = replace(OPTIONS, precision=precision)
    (program,) = stepwell.compile(made, f"cuda:{architecture}", options=options).programs
    assert any(".minnctapersm" in text.decode() for text in program.objects.values())
    assembler = find_assembler()
    if assembler is None:
        pytest.skip("there is no ptxas to ask: install nvidia-cuda-nvcc")
    for code in program.objects.values():
        assert all(kernel.spill_bytes == 0 for kernel in resources(assembler, code, architecture))
