"""Models whose weights come from a session's options or from its runs, in the drop-in for onnxruntime."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.compat import onnxruntime as ort
from stepwell.compat.onnxruntime import ranges
from stepwell.support.errors import SlowWarning

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def added() -> onnx.ModelProto:
    """A model that adds its weight, which is an input too."""
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    inputs = [value("x", TensorProto.FLOAT, [2, 3]), value("w", TensorProto.FLOAT, [3])]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", inputs, [value("y", TensorProto.FLOAT, [2, 3])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stored_elsewhere(location: str) -> onnx.ModelProto:
    """The same model with the weight in a file."""
    model = added()
    del model.graph.input[1]
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="offset", value="4")
    tensor.external_data.add(key="length", value="12")
    return model


def weights(number: float) -> np.ndarray:
    """Contents of the file: one unrelated number, then the weight."""
    return np.array([99, number, number, number], np.float32)


def test_runs_may_replace_initializers_that_are_inputs():
    session = ort.InferenceSession(added().SerializeToString())
    assert [arg.name for arg in session.get_inputs()] == ["x"]
    assert session.get_overridable_initializers() == [ort.NodeArg("w", "tensor(float)", [3])]
    for number in (5, 7):
        (y,) = session.run(None, {"x": X, "w": np.full(3, number, np.float32)})
        np.testing.assert_array_equal(y, X + number)
    (y,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 1)


def test_initializers_of_old_models_are_constants():
    model = added()
    model.ir_version = 3
    session = ort.InferenceSession(model.SerializeToString())
    assert session.get_overridable_initializers() == []
    with pytest.raises(ort.errors.InvalidArgument, match="Invalid input name: w"):
        session.run(None, {"x": X, "w": np.ones(3, np.float32)})


def test_options_give_initializers():
    options = ort.SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.full(3, 7, np.float32)))
    (y,) = ort.InferenceSession(added().SerializeToString(), options).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 7)
    options.add_external_initializers(["no"], [ort.OrtValue.ortvalue_from_numpy(X)])
    with pytest.raises(ort.errors.InvalidArgument, match="no initializer 'no'"):
        ort.InferenceSession(added().SerializeToString(), options)


def test_files_of_weights_of_models_given_by_their_contents(tmp_path, monkeypatch):
    model = stored_elsewhere("w.bin").SerializeToString()
    options = ort.SessionOptions()
    data = weights(9).tobytes()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [data + b"more"], [len(data)])
    (y,) = ort.InferenceSession(model, options).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 9)

    (tmp_path / "folder").mkdir()
    weights(4).tofile(tmp_path / "folder" / "w.bin")
    options = ort.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path / "folder"))
    (y,) = ort.InferenceSession(model, options).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 4)

    monkeypatch.chdir(tmp_path)
    weights(3).tofile("w.bin")
    (y,) = ort.InferenceSession(model).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 3)
    for location in ("nowhere.bin", "../w.bin"):
        with pytest.raises(ort.errors.Fail, match="External data path validation failed for initializer: w"):
            ort.InferenceSession(stored_elsewhere(location).SerializeToString())


def test_a_model_is_written_where_the_optimised_one_is_asked_for(tmp_path):
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "written.onnx")
    weights(2).tofile(tmp_path / "w.bin")
    onnx.save(stored_elsewhere("w.bin"), tmp_path / "model.onnx")
    with pytest.warns(UserWarning, match="the model as it was given"):
        ort.InferenceSession(tmp_path / "model.onnx", options)
    (tmp_path / "w.bin").unlink()
    (y,) = ort.InferenceSession(tmp_path / "written.onnx").run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 2)


@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_sequences_and_options_are_given_as_they_are():
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    length = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("SequenceLength", ["s"], ["n"])], "g", [sequence], [length])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (count,) = ort.InferenceSession(model.SerializeToString()).run(None, {"s": [X, X[:1]]})
    assert count == 2

    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3]))
    there = helper.make_tensor_value_info("there", TensorProto.BOOL, [])
    node = helper.make_node("OptionalHasElement", ["x"], ["there"])
    graph = helper.make_graph([node], "g", [helper.make_value_info("x", kind)], [there])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString())
    assert session.get_inputs() == [ort.NodeArg("x", "optional(tensor(float))", [2, 3])]
    assert [session.run(None, feed)[0] for feed in ({}, {"x": None}, {"x": X})] == [False, False, True]


def test_invalid_models_fail_as_in_onnxruntime():
    with pytest.raises(TypeError, match="Unable to load from type '<class 'NoneType'>'"):
        ort.InferenceSession(None)
    with pytest.raises(ort.errors.InvalidArgument, match="No graph was found"):
        ort.InferenceSession(b"")
    with pytest.raises(ort.errors.InvalidProtobuf, match=r"Load model from \. failed"):
        ort.InferenceSession(".")


def vector() -> bytes:
    """A model of a vector of variable length."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.fixture(autouse=True)
def no_names_asked_for(monkeypatch):
    """Resets the record of requested dimension names, so that names made up by tests are not reported at the end."""
    monkeypatch.setattr(ranges, "requested", ranges.RequestedSizes())


def test_ranges_are_compiled_once(monkeypatch):
    options = ort.SessionOptions()
    options.add_session_config_entry("stepwell.dims", "n=1:40,other=2:3")
    session = ort.InferenceSession(vector(), options)
    count = len(session._executable.programs)
    for size in (1, 7, 40):
        (y,) = session.run(None, {"x": np.ones(size, np.float32)})
        np.testing.assert_array_equal(y, -np.ones(size))
    assert count and len(session._executable.programs) == count
    with pytest.warns(SlowWarning, match=r"'n' is 41, out of its range, 1 to 40\..*--dims n=1:64") as found:
        (y,) = session.run(None, {"x": np.ones(41, np.float32)})
    assert [item.filename for item in found] == [__file__]
    (z,) = session.run(None, {"x": np.ones(42, np.float32)})  # a single warning
    assert z.size == 42
    np.testing.assert_array_equal(y, -np.ones(41))

    monkeypatch.setenv("STEPWELL_DIMS", "n=1:20")
    assert ort.InferenceSession(vector())._executable.ranges["n"].high == 20
    assert ort.InferenceSession(vector(), options)._executable.ranges["n"].high == 40
    monkeypatch.setenv("STEPWELL_DIMS", "other=1:20")
    assert not ort.InferenceSession(vector())._executable.ranges
    monkeypatch.setenv("STEPWELL_DIMS", "n=a:b")
    with pytest.raises(ort.errors.InvalidArgument, match="no dimension is called 'a:b'"):
        ort.InferenceSession(vector())


def test_ranges_that_do_not_name_all_sizes():
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.add_session_config_entry("stepwell.dims", "n=1:40")
    with pytest.warns(UserWarning, match="dimension 'm' varies too"):
        session = ort.InferenceSession(model.SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -X)


def test_ranges_of_one_model_by_its_file(monkeypatch, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("det.onnx", "rec.onnx"):
        (folder / name).write_bytes(vector())
    monkeypatch.setenv("STEPWELL_DIMS", "n=1:20,models/det.onnx:n=1:30,other.onnx:q=1:2")
    assert ort.InferenceSession(folder / "det.onnx")._executable.ranges["n"].high == 30
    assert ort.InferenceSession(folder / "rec.onnx")._executable.ranges["n"].high == 20
    assert ort.InferenceSession(vector())._executable.ranges["n"].high == 20
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STEPWELL_DIMS", "./det.onnx:n=1:30,dels/rec.onnx:n=1:30")
    assert ort.InferenceSession("det.onnx")._executable.ranges["n"].high == 30
    assert not ort.InferenceSession("rec.onnx")._executable.ranges
    monkeypatch.setenv("STEPWELL_DIMS", "rec.onnx:m=1:30")
    with pytest.raises(ort.errors.InvalidArgument, match=r"STEPWELL_DIMS: .*rec.onnx has no dimension 'm' .* has 'n'"):
        ort.InferenceSession("rec.onnx")
    monkeypatch.setenv("STEPWELL_DIMS", "n")
    with pytest.raises(ort.errors.InvalidArgument, match=r"STEPWELL_DIMS: n: write it as name=1:64"):
        ort.InferenceSession("rec.onnx")
    assert "sizes are given for 'other.onnx:q' and 'dels/rec.onnx:n'" in ranges.requested.unmatched()


def test_a_session_compiles_for_a_range_at_its_second_size(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "rec.onnx"
    path.write_bytes(vector())
    session = ort.InferenceSession(path)
    for count in (3, 5, 9, 1, 16):
        (result,) = session.run(None, {"x": np.ones(count, np.float32)})
        assert result.shape == (count,)
    assert [program.serves for program in session._executable.programs] == ["x=3", "n 1 to 32"]


def test_sessions_have_the_options_about_sizes(tmp_path):
    options = ort.SessionOptions()
    assert ranges.size_options(options) == {}
    for name, value in {"ranges": "1", "adapt": "0", "max_programs": "3"}.items():
        options.add_session_config_entry(f"stepwell.{name}", value)
    assert ranges.size_options(options) == {"ranges": True, "adapt": False, "max_programs": 3}
    options.add_session_config_entry("stepwell.adapt", "yes")
    path = tmp_path / "rec.onnx"
    path.write_bytes(vector())
    with pytest.raises(Exception, match=r"stepwell\.adapt is 'yes', and must be '0' or '1'"):
        ort.InferenceSession(path, options)


def test_the_third_size_of_a_session_names_its_file(tmp_path):
    path = tmp_path / "rec.onnx"
    path.write_bytes(vector())
    options = ort.SessionOptions()
    options.add_session_config_entry("stepwell.ranges", "0")
    session = ort.InferenceSession(path, options)
    session.run(None, {"x": np.ones(3, np.float32)})
    session.run(None, {"x": np.ones(5, np.float32)})
    with pytest.warns(SlowWarning, match=r"'n' was 3, 5 and 9\. .* STEPWELL_DIMS=rec\.onnx:n=1:16, ") as found:
        session.run(None, {"x": np.ones(9, np.float32)})
    assert [item.filename for item in found] == [__file__]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("dims", "code", "told"),
    [
        ("n=1:8", 0, ""),
        ("rec.onnx:n=1:8", 0, ""),
        ("q=1:8", 2, "sizes are given for 'q', but no opened model has such dimensions: rec.onnx has 'n'"),
        (
            "rek.onnx:n=1:8",
            0,
            "SlowWarning: sizes are given for 'other.onnx:x' and 'rek.onnx:n', but no opened model has such dimensions",
        ),
        ("n", 2, "error: --dims n: write it as name=1:64"),
    ],
)
def test_names_that_no_model_has(tmp_path, dims: str, code: int, told: str):
    (tmp_path / "rec.onnx").write_bytes(vector())
    (tmp_path / "program.py").write_text("import onnxruntime\nonnxruntime.InferenceSession('rec.onnx')\n")
    command = [sys.executable, "-m", "stepwell.compat.onnxruntime", "--dims", "other.onnx:x=1", "--dims", dims]
    if told == "":
        del command[3:5]
    done = subprocess.run([*command, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert told in done.stderr if told else done.stderr == ""
