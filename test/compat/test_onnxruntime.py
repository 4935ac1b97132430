"""The drop-in for onnxruntime, on a stand-in for compiled code: the interface is what is tested here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.compat import onnxruntime as ort
from stepwell.frontend.errors import UnsupportedError
from stepwell.runtime.errors import InputError
from stepwell.runtime.program import TensorInfo

F32 = np.dtype(np.float32)


class Doubler:
    """An executable that gives twice and thrice its input."""

    inputs = (TensorInfo("x", F32, ("n", 2)),)
    outputs = (TensorInfo("twice", F32, ("n", 2)), TensorInfo("thrice", F32, ("n", 2)))

    def __init__(self) -> None:
        self.prepared: list[dict] = []

    def __call__(self, x):
        if x.dtype != F32:
            raise InputError("input 'x' must be float32")
        return x * 2, x * 3

    def prepare(self, shapes):
        self.prepared.append(shapes)


@pytest.fixture
def model(monkeypatch, tmp_path) -> Path:
    """An ONNX file whose compilation gives a `Doubler`."""
    monkeypatch.setattr("stepwell.compat.onnxruntime.session.compile_model", lambda model, threads: Doubler())
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Add", ["twice", "x"], ["thrice"])],
        "doubler",
        [value("x", TensorProto.FLOAT, ["n", 2])],
        [value("twice", TensorProto.FLOAT, ["n", 2]), value("thrice", TensorProto.FLOAT, [None, 2])],
    )
    proto = helper.make_model(graph, producer_name="tests")
    helper.set_model_props(proto, {"character": "a\nb"})
    path = tmp_path / "doubler.onnx"
    onnx.save(proto, path)
    return path


X = np.ones((3, 2), np.float32)


def test_run_gives_the_outputs_asked_for(model):
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    twice, thrice = session.run(None, {"x": X})
    np.testing.assert_array_equal(twice, X * 2)
    np.testing.assert_array_equal(thrice, X * 3)
    (only,) = session.run(["thrice"], {"x": X})
    np.testing.assert_array_equal(only, X * 3)


def test_models_may_be_bytes_and_inputs_lists(model):
    session = ort.InferenceSession(model.read_bytes())
    np.testing.assert_array_equal(session.run(["twice"], {"x": X.tolist()})[0], X * 2)


def test_a_session_describes_its_model(model):
    session = ort.InferenceSession(model)
    assert session.get_inputs() == [ort.NodeArg("x", "tensor(float)", ["n", 2])]
    assert [(arg.name, arg.shape) for arg in session.get_outputs()] == [("twice", ["n", 2]), ("thrice", [None, 2])]
    meta = session.get_modelmeta()
    assert meta.custom_metadata_map == {"character": "a\nb"} and meta.producer_name == "tests"
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("outputs", "feed", "error", "message"),
    [
        (None, {}, ValueError, r"Required inputs \(\['x'\]\) are missing"),
        (None, {"x": X, "y": X}, ort.errors.InvalidArgument, "INVALID_ARGUMENT : Invalid input name: y"),
        (["no"], {"x": X}, ort.errors.InvalidArgument, "Invalid output name:no"),
        (None, {"x": X.astype(int)}, ort.errors.InvalidArgument, "input 'x' must be float32"),
    ],
)
def test_wrong_runs_fail_as_in_onnxruntime(model, outputs, feed, error, message):
    with pytest.raises(error, match=message):
        ort.InferenceSession(model).run(outputs, feed)


def test_wrong_models_fail_as_in_onnxruntime(model, monkeypatch):
    with pytest.raises(ort.errors.NoSuchFile, match="File doesn't exist"):
        ort.InferenceSession("missing.onnx")
    with pytest.raises(ort.errors.InvalidProtobuf):
        ort.InferenceSession(b"nope")

    def refuse(model, threads):
        raise UnsupportedError("no such operator", node="n", op_type="Foo")

    monkeypatch.setattr("stepwell.compat.onnxruntime.session.compile_model", refuse)
    with pytest.raises(ort.errors.NotImplemented, match="node 'n' \\(Foo\\): no such operator"):
        ort.InferenceSession(model)


def test_other_providers_are_passed_over_with_a_warning(model):
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        session = ort.InferenceSession(model, providers=[("CUDAExecutionProvider", {}), "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_options_can_be_set_and_read_back(model, monkeypatch):
    asked = SimpleNamespace()
    monkeypatch.setattr(
        "stepwell.compat.onnxruntime.session.compile_model",
        lambda model, threads: vars(asked).update(threads=threads) or Doubler(),
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = 2
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(AttributeError):
        setattr(options, "no_such_option", 1)  # noqa: B010
    assert ort.InferenceSession(model, options).get_session_options() is options
    assert asked.threads == 2


def test_free_dimensions_compile_ahead(model):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    session = ort.InferenceSession(model, options)
    assert session._executable.prepared == [{"x": (4, 2)}]
    assert session.get_inputs()[0].shape == [4, 2]


def test_values_and_bindings(model):
    session = ort.InferenceSession(model)
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert (
        value.shape() == [3, 2] and value.data_type() == "tensor(float)" and value.element_type() == TensorProto.FLOAT
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("twice")
    target = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32)
    binding.bind_ortvalue_output("thrice", target)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X * 2)
    np.testing.assert_array_equal(target.numpy(), X * 3)
    (result,) = session.run_with_ort_values(["twice"], {"x": value})
    np.testing.assert_array_equal(np.from_dlpack(result), X * 2)


def test_profiles_are_chrome_traces(model, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = ort.SessionOptions()
    options.enable_profiling = True
    session = ort.InferenceSession(model, options)
    session.run(None, {"x": X})
    (event,) = json.loads(Path(session.end_profiling()).read_text())
    assert event["name"] == "model_run" and event["ph"] == "X"


def test_install_takes_the_place_of_the_module():
    code = """
import stepwell.compat.onnxruntime as here
here.install()
import onnxruntime
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers, get_device
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from onnxruntime.capi._pybind_state import SessionOptions as same
import onnxruntime.capi.onnxruntime_pybind11_state as state
assert onnxruntime is here and state.NoSuchFile is here.errors.NoSuchFile and same is SessionOptions
assert get_available_providers() == ["CPUExecutionProvider"] and get_device() == "CPU"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_install_refuses_where_the_true_module_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())
    with pytest.raises(RuntimeError, match="before the first import"):
        ort.install()


def test_types_of_what_is_no_tensor_of_numbers():
    tensor = helper.make_tensor_type_proto
    kinds = {
        "tensor(string)": tensor(TensorProto.STRING, ["n"]),
        "tensor(float8e4m3fn)": tensor(TensorProto.FLOAT8E4M3FN, []),
        "seq(tensor(double))": helper.make_sequence_type_proto(tensor(TensorProto.DOUBLE, [])),
        "optional(tensor(int64))": helper.make_optional_type_proto(tensor(TensorProto.INT64, [])),
        "seq(map(int64,tensor(float)))": helper.make_sequence_type_proto(
            helper.make_map_type_proto(TensorProto.INT64, tensor(TensorProto.FLOAT, []))
        ),
    }
    assert [ort.values.type_of(kind) for kind in kinds.values()] == list(kinds)
    assert ort.values.type_name(np.dtype(object)) == "tensor(string)"


def test_memory_bound_by_its_address(model):
    binding = ort.InferenceSession(model).io_binding()
    x, twice = np.full((3, 2), 1.5, np.float32), np.zeros((3, 2), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("twice", "cpu", 0, TensorProto.FLOAT, twice.shape, twice.ctypes.data)
    binding.bind_output("thrice")
    binding._session.run_with_iobinding(binding)
    np.testing.assert_array_equal(twice, x * 2)
    np.testing.assert_array_equal(binding.get_outputs()[1].numpy(), x * 3)
    with pytest.raises(ValueError, match="no device 'cuda'"):
        binding.bind_input("x", "cuda", 0, np.float32, x.shape, x.ctypes.data)


def test_values_from_other_memory():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert value.data_type() == "tensor(bfloat16)" and value.tensor_size_in_bytes() == 4
    assert value.numpy().astype(np.float32).tolist() == [1, 2]
    array = np.arange(3, dtype=np.uint8)
    assert ort.OrtValue.from_dlpack(array).data_ptr() == array.ctypes.data
    assert ort.OrtValue.from_dlpack(array, is_bool_tensor=True).data_type() == "tensor(bool)"


def test_functions_by_their_inner_names():
    assert ort.capi._pybind_state.get_available_providers() == ort.get_available_providers()
    assert ort.capi.onnxruntime_pybind11_state.get_device() == "CPU"
