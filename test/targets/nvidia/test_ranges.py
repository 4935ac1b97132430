"""Programs for ranges of sizes on the GPU simulator."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.runtime.cuda import devices
from stepwell.runtime.cuda.dlpack import DeviceArray
from stepwell.support.errors import InputError, ShapeError
from stepwell.targets.nvidia.simulator.device import SimulatedDevice
from stepwell.tools import compile as command

NODE = helper.make_node

# The programs that are the reference are compiled for each size.
pytestmark = pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")


def _model(nodes: list, shape: list, **weights: np.ndarray) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    y.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(nodes, "m", [x], [y], [numpy_helper.from_array(a, name) for name, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _attention() -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((16, 16), np.float32) / 4
    nodes = [
        NODE("MatMul", ["x", "w"], ["h"]),
        NODE("Transpose", ["h"], ["t"], perm=[0, 2, 1]),
        NODE("MatMul", ["h", "t"], ["s"]),
        NODE("Softmax", ["s"], ["p"], axis=-1),
        NODE("MatMul", ["p", "h"], ["a"]),
        NODE("Add", ["a", "x"], ["y"]),
    ]
    return _model(nodes, ["batch", "length", 16], w=weight)


def _convolutions() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    nodes = [
        NODE("Conv", ["x", "a"], ["c"], pads=[1, 1, 1, 1]),
        NODE("Relu", ["c"], ["r"]),
        NODE("Conv", ["r", "b"], ["d"], pads=[1, 1, 1, 1], strides=[2, 2]),
        NODE("GlobalAveragePool", ["d"], ["g"]),
        NODE("Add", ["d", "g"], ["y"]),
    ]
    weights = {
        name: random.standard_normal((8, *depth), np.float32) for name, depth in (("a", (3, 3, 3)), ("b", (8, 3, 3)))
    }
    return _model(nodes, [1, 3, "h", "w"], **weights)


def _per_size() -> onnx.ModelProto:
    """Zeros, 5 fewer than the input's size; no program computes them for sizes below 5."""
    nodes = [
        NODE("Shape", ["x"], ["n"]),
        NODE("Sub", ["n", "five"], ["m"]),
        NODE("ConstantOfShape", ["m"], ["y"]),
    ]
    return _model(nodes, ["n"], five=np.array([5]))


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("model", "dims", "sizes"),
    [
        (_attention(), {"batch": (1, 4), "length": (1, 40)}, [(4, 40), (1, 1), (3, 17)]),
        (_convolutions(), {"h": (1, 9), "w": (1, 11)}, [(9, 11), (1, 1), (4, 7), (9, 2)]),
    ],
    ids=["attention", "convolutions"],
)
def test_one_program_serves_every_size(model, dims, sizes, architecture: str) -> None:
    executable = stepwell.compile(model, f"cuda:{architecture}", options=stepwell.Options(dims=dims, cache=False))
    reference, random = stepwell.compile(model), np.random.default_rng(1)
    (info,) = executable.inputs
    for size in sizes:
        numbers = dict(zip(dims, size, strict=True))
        x = random.standard_normal([numbers.get(dim, dim) for dim in info.shape], np.float32)
        np.testing.assert_allclose(executable(x), reference(x), rtol=1e-4, atol=1e-4, err_msg=str(size))
    assert len(executable.programs) == 1
    assert "one program for all of these sizes" in executable.explain()
    with pytest.raises(InputError, match="but the model was compiled for 1 to"):
        executable(np.zeros([dim if isinstance(dim, int) else 64 for dim in info.shape], np.float32))


def test_tensors_on_the_device_may_be_smaller_than_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    model, device = _attention(), SimulatedDevice()
    monkeypatch.setattr(devices, "current", lambda: device)
    options = stepwell.Options(dims={"batch": (1, 4), "length": (1, 40)}, cache=False)
    executable = stepwell.compile(model, "cuda:sm_80", options=options)
    random, reference = np.random.default_rng(1), stepwell.compile(model)
    for shape in ((4, 40, 16), (2, 5, 16), (3, 33, 16)):
        x = random.standard_normal(shape, np.float32)
        address = device.allocate(x.nbytes)
        device.write(address, x, 0)
        result = executable(DeviceArray(address, shape, x.dtype, 0, None))
        assert isinstance(result, DeviceArray) and result.shape == shape
        got = np.empty(shape, np.float32)
        device.read(result.address, got, 0)
        np.testing.assert_allclose(got, reference(x), rtol=1e-4, atol=1e-4)


def test_an_artefact_carries_listed_sizes_where_no_range_can_be_compiled(tmp_path, capsys) -> None:
    model, path = tmp_path / "m.onnx", tmp_path / "m.stw"
    onnx.save(_per_size(), model)
    arguments = [str(model), "-o", str(path), "--target=cuda:sm_80"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert command.main([*arguments, "--dims=n=6/9"]) == 0
        assert command.main([*arguments, "--dims=n=1:9"]) == 1
    assert "no program for cuda:sm_80 serves these sizes" in capsys.readouterr().err
    loaded = stepwell.load(path)
    for size in (6, 9):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(loaded(x), np.zeros(size - 5, np.float32))
    with pytest.raises(ShapeError, match="no code for x=7, and no compiler is available; there is code for: x=6; x=9"):
        loaded(np.zeros(7, np.float32))
