"""`stepwell.export_onnx`: models of other frontends as ONNX, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell


def run(model: onnx.ModelProto, *arrays: np.ndarray) -> list[np.ndarray]:
    """The outputs of ONNX Runtime, for inputs by position."""
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    return [np.asarray(item) for item in session.run(None, dict(zip(names, arrays, strict=True)))]


MODULE = """
func.func @main(%x: tensor<?x6xf32> {stepwell.name = "x", stepwell.dims = ["rows", 6]})
    -> (tensor<?x4xf32> {stepwell.name = "y"}) {
  %w = "stepwell.constant"() {value = dense<0.5> : tensor<4x6xf32>} : () -> tensor<4x6xf32>
  %0 = "stepwell.matmul"(%x, %w) {transpose_rhs = true} : (tensor<?x6xf32>, tensor<4x6xf32>) -> tensor<?x4xf32>
  %1 = "stepwell.concat"(%0, %0) {axis = 0 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""


def test_a_module_in_mlir(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(MODULE)
    model = stepwell.export_onnx(path)
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["rows", 6]
    assert [item.name for item in model.graph.output] == ["y"]
    for rows in (1, 3):
        x = np.random.default_rng(rows).random((rows, 6), np.float32)
        np.testing.assert_allclose(run(model, x)[0], np.tile(x @ np.full((6, 4), 0.5, np.float32), (2, 1)), rtol=1e-6)


def test_given_shapes_and_their_errors(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(MODULE)
    model = stepwell.export_onnx(path, shapes={"x": (2, 6)})
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim] == [4, 4]
    with pytest.raises(stepwell.OptionError, match="no input 'z'; the inputs are x"):
        stepwell.export_onnx(path, shapes={"z": (2, 6)})
    with pytest.raises(stepwell.OptionError, match="input 'x' has rank 2, not 1"):
        stepwell.export_onnx(path, shapes={"x": (2,)})
    with pytest.raises(stepwell.OptionError, match="args, kwargs and dynamic_shapes are for modules of torch"):
        stepwell.export_onnx(path, (1,))


def test_an_op_without_a_form_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(
        """func.func @main(%x: tensor<6xf32>) -> tensor<6xi32> {
             %0 = "stepwell.bitcast"(%x) {dtype = i32} : (tensor<6xf32>) -> tensor<6xi32> loc("head.bits")
             return %0 : tensor<6xi32>
           }"""
    )
    with pytest.raises(stepwell.NoOnnxFormError, match=r"node 'head\.bits': stepwell\.bitcast cannot be written"):
        stepwell.export_onnx(path)


def test_a_module_of_torch_keeps_its_names_and_sizes() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = torch.nn.Linear(8 * 16, 10)

        def forward(self, x):
            y = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
            z = y.flatten(2).transpose(1, 2)
            z = self.attention(z, z, z, need_weights=False)[0]
            return self.head((y + z.transpose(1, 2).reshape(y.shape)).flatten(1)).softmax(-1)

    torch.manual_seed(0)
    net = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    model = stepwell.export_onnx(net, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=8)},))
    names = {item.name for item in model.graph.initializer}
    assert {"conv.weight", "norm.running_mean", "head.bias"} <= names
    assert "head.weight" not in names  # it is stored as MatMul takes it
    for count in (1, 5):
        x = torch.randn(count, 3, 8, 8)
        np.testing.assert_allclose(run(model, x.numpy())[0], net(x).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_a_module_of_torch_is_quantised() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
    x = torch.randn(4, 32)
    made = stepwell.quantize(net, [{"input": x.numpy()}], args=(x,))
    assert [item.form for item in made.report.products] == ["int8", "int8"]
    assert made.report.errors.relative < 0.05
    # Not by ONNX Runtime, which saturates sums of bytes on some processors.
    np.testing.assert_allclose(made.compile()(x.numpy()), net(x).detach().numpy(), atol=0.05)
