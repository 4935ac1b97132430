"""The interface of the drop-in for onnxruntime, tested on a stand-in for compiled code."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from stepwell.compat import onnxruntime as ort
from stepwell.frontend.errors import UnsupportedError
from stepwell.runtime.program import TensorInfo
from stepwell.support.errors import InputError

F32 = np.dtype(np.float32)


class Doubler:
    """An executable that returns its input times two and times three."""

    name = "doubler"
    inputs = (TensorInfo("x", F32, ("n", 2)),)
    outputs = (TensorInfo("twice", F32, ("n", 2)), TensorInfo("thrice", F32, ("n", 2)))

    def __init__(self) -> None:
        self.prepared: list[dict] = []
        self.watch = SimpleNamespace(advice=None)

    def __call__(self, x):
        if x.dtype != F32 or x.ndim != 2 or x.shape[1] != 2:
            raise InputError("input 'x' must be float32[n, 2]")
        return x * 2, x * 3

    def prepare(self, shapes):
        self.prepared.append(shapes)


@pytest.fixture
def model(monkeypatch, tmp_path) -> Path:
    """An ONNX file that compiles to a `Doubler`."""
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
        (
            None,
            {"x": X.astype(int)},
            ort.errors.InvalidArgument,
            r"INVALID_ARGUMENT : Unexpected input data type. Actual: \(tensor\(int64\)\) , expected: \(tensor\(float",
        ),
        (None, {"x": X[0]}, ort.errors.InvalidArgument, "Invalid rank for input: x Got: 1 Expected: 2 Please fix"),
        (None, {"x": X.T}, ort.errors.InvalidArgument, r"Got invalid dimensions for input: x .*\n index: 1 Got: 3"),
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
    opened = ort.InferenceSession(model, options).get_session_options()
    assert opened.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL and not opened.enable_cpu_mem_arena
    assert str(opened.graph_optimization_level) == "GraphOptimizationLevel.ORT_ENABLE_ALL"
    assert asked.threads == 2
    options.intra_op_num_threads = -1
    ort.InferenceSession(model, options)
    assert asked.threads is None, "a number that counts nothing is the runtime's own choice"
    assert opened.intra_op_num_threads == 2, "a session keeps what it was opened with"


def test_free_dimensions_compile_ahead(model):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    session = ort.InferenceSession(model, options)
    assert vars(session._executable)["prepared"] == [{"x": (4, 2)}]
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


def test_names_of_non_numeric_types():
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
    session = ort.InferenceSession(model)
    binding = session.io_binding()
    x, twice = np.full((3, 2), 1.5, np.float32), np.zeros((3, 2), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("twice", "cpu", 0, TensorProto.FLOAT, twice.shape, twice.ctypes.data)
    binding.bind_output("thrice")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(twice, x * 2)
    np.testing.assert_array_equal(binding.get_outputs()[1].numpy(), x * 3)
    with pytest.raises(RuntimeError, match="no device 'cuda'"):
        binding.bind_input("x", "cuda", 0, np.float32, x.shape, x.ctypes.data)


def test_wrong_bindings_fail_and_write_nothing(model):
    session, other = ort.InferenceSession(model), ort.InferenceSession(model)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    with pytest.raises(RuntimeError, match="At least one output"):
        session.run_with_iobinding(binding)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: no in"):
        binding.bind_cpu_input("no", X)
    small = np.zeros((1, 2), np.float32)  # broadcasting would accept this shape
    binding.bind_output("twice", "cpu", 0, np.float32, small.shape, small.ctypes.data)
    with pytest.raises(RuntimeError, match="Got invalid dimensions for output: twice"):
        session.run_with_iobinding(binding)
    assert not small.any()
    with pytest.raises(ValueError, match="the session that created it"):
        other.run_with_iobinding(binding)
    value = ort.OrtValue.ortvalue_from_numpy(X.copy())
    with pytest.raises(RuntimeError, match="does not match the size"):
        value.update_inplace(X[:1] * 5)
    np.testing.assert_array_equal(value, X)


def test_bindings_by_their_inner_names(model):
    state = ort.capi._pybind_state
    session = ort.InferenceSession(model)
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    binding = session.io_binding()
    binding._iobinding.bind_ortvalue_input("x", state.OrtValue.ortvalue_from_numpy(X, device)._ortvalue)
    binding._iobinding.bind_output("thrice", device)
    session._sess.run_with_iobinding(binding._iobinding)
    (value,) = binding._iobinding.get_outputs()
    np.testing.assert_array_equal(np.from_dlpack(value), X * 3)
    assert binding.get_outputs_as_ortvaluevector().element_type_at(0) == TensorProto.FLOAT
    assert session._inputs_meta[0].shape == ["n", 2] and session._model_path == str(model)
    (twice,) = session._sess.run_with_ort_values({"x": value}, ["twice"])
    np.testing.assert_array_equal(twice.numpy(), X * 6)


def test_invalid_providers_leave_the_cpu(model):
    with pytest.warns(UserWarning, match="EP Error 'providers' values must be"):
        session = ort.InferenceSession(model, providers=[["CPUExecutionProvider", {}]])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(ValueError, match="same length"):
        session.set_providers(["CPUExecutionProvider"], [{}, {}])
    session.set_providers()
    with pytest.warns(UserWarning, match="Duplicate provider"):
        session.set_providers(["CPUExecutionProvider"] * 2)


def test_a_run_that_is_terminated_fails(model):
    options = ort.RunOptions()
    options.terminate = True
    with pytest.raises(ort.errors.Fail, match="terminate flag"):
        ort.InferenceSession(model).run(None, {"x": X}, options)


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
