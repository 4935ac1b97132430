"""Stored tensors: in the file, beside it, and in places that are refused."""

import os

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from mlir import ir
from onnx import TensorProto, external_data_helper, helper, numpy_helper
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import ModelError
from stepwell.frontend.onnx.importer import import_model
from stepwell.frontend.onnx.reading.model import _DTYPES
from stepwell.frontend.onnx.reading.weights import tensor_array

WEIGHT = np.arange(96, dtype=np.float32).reshape(4, 24)


def product_model(weight: TensorProto):
    """x [2, 4] times the stored tensor w."""
    weight.name = "w"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 24])]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def external(location, **entries):
    """The tensor as external data."""
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=WEIGHT.shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(folder, tensor):
    """Saves a model with this weight, and returns its path."""
    path = folder / "model.onnx"
    path.write_bytes(product_model(tensor).SerializeToString())
    return path


def refuses(model, message):
    """Checks that the import fails with this error."""
    with pytest.raises(ModelError, match=message):
        import_model(model, ir.Context())


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_every_type_in_raw_and_typed_fields(data):
    dtype = data.draw(st.sampled_from(sorted(_DTYPES.values(), key=str)))
    shape = data.draw(npst.array_shapes(min_dims=0, min_side=0, max_side=4))
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    raw = numpy_helper.from_array(array, "w")
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    typed = helper.make_tensor("w", kind, shape, array.astype(np.float64).reshape(-1).astype(dtype))
    for tensor in (raw, typed):
        read = tensor_array(tensor, None)
        assert read.dtype == dtype
        assert not read.flags.writeable
        assert read.shape == array.shape
        assert read.tobytes() == array.tobytes()


def test_weights_are_views_and_literals_small():
    imported = import_model(product_model(numpy_helper.from_array(WEIGHT)), ir.Context())
    (name,) = imported.parameters
    assert name == "w"
    assert imported.parameters["w"].base is not None
    assert '"stepwell.parameter"() {dtype = f32, name = "w"' in str(imported.module)


@pytest.mark.parametrize("offset", [0, 64])
def test_external_data_is_mapped(tmp_path, offset):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"-" * offset + WEIGHT.tobytes() + b"more")
    path = saved(tmp_path, external("sub/w.bin", offset=offset, length=WEIGHT.nbytes))
    imported = import_model(path, ir.Context())
    assert isinstance(imported.parameters["w"], np.memmap)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(evaluate(imported.module, "main", [x], imported.parameters)[0], x @ WEIGHT)


def test_model_saved_with_external_data(tmp_path):
    model = product_model(numpy_helper.from_array(WEIGHT))
    external_data_helper.convert_model_to_external_data(model, location="all.bin", size_threshold=0)
    onnx.save(model, tmp_path / "m.onnx")
    np.testing.assert_array_equal(import_model(tmp_path / "m.onnx", ir.Context()).parameters["w"], WEIGHT)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "sub/../../w.bin", "", "."])
def test_external_data_stays_in_the_folder(tmp_path, location):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "m").mkdir()
    refuses(saved(tmp_path / "m", external(location)), "not inside the model's folder|no such file")


def test_external_data_behind_a_link(tmp_path):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "m").mkdir()
    os.symlink(tmp_path / "w.bin", tmp_path / "m" / "link.bin")
    refuses(saved(tmp_path / "m", external("link.bin")), "not inside the model's folder")


@pytest.mark.parametrize("location", ["circle.bin", "a\0b", "a" * 5000])
def test_external_data_in_an_unreadable_place(tmp_path, location):
    os.symlink("circle.bin", tmp_path / "circle.bin")
    refuses(saved(tmp_path, external(location)), "cannot be read|not inside|no such file")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 4}, "has only 384"),
        ({"offset": 2**62}, "has only 384"),
        ({"offset": -4}, "'-4', which is not a number"),
        ({"offset": "1e3"}, "'1e3', which is not a number"),
        ({"length": 380}, "needs 384 bytes, but 380"),
        ({"length": 2**62}, "needs 384 bytes"),
        ({"length": 2**63}, "which is not a number"),
    ],
)
def test_external_data_outside_the_file(tmp_path, entries, message):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    refuses(saved(tmp_path, external("w.bin", **entries)), message)


def test_external_data_that_is_missing(tmp_path):
    path = saved(tmp_path, external("w.bin"))
    refuses(path, "no such file beside the model")
    refuses(path.read_bytes(), "give the model by its path")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensor: setattr(tensor, "raw_data", tensor.raw_data[:-1]), "needs 384 bytes, but 383"),
        (lambda tensor: tensor.dims.append(2**40), "bytes, but 384 are stored"),
        (lambda tensor: tensor.dims.append(-1), "invalid shape"),
        (lambda tensor: tensor.ClearField("raw_data"), "needs 96 elements, but 0"),
        (lambda tensor: setattr(tensor, "data_type", TensorProto.STRING), "element type STRING"),
        (lambda tensor: setattr(tensor, "data_type", 77), "element type 77"),
        (lambda tensor: tensor.dims.extend([1] * 70), "invalid shape"),
        (lambda tensor: tensor.segment.SetInParent(), "stored in segments"),
    ],
)
def test_tensor_that_contradicts_itself(change, message):
    tensor = numpy_helper.from_array(WEIGHT)
    change(tensor)
    refuses(product_model(tensor), f"'w' .*{message}")


def test_bytes_other_than_0_and_1_are_true():
    tensor = TensorProto(data_type=TensorProto.BOOL, dims=[3], raw_data=bytes([0, 1, 7]))
    np.testing.assert_array_equal(tensor_array(tensor, None).view(np.uint8), [0, 1, 1])


def test_weight_that_is_also_declared_as_an_input():
    model = product_model(numpy_helper.from_array(WEIGHT))
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, WEIGHT.shape))
    imported = import_model(model, ir.Context())
    assert [info.name for info in imported.info.inputs] == ["x"]
    assert list(imported.parameters) == ["w"]


def test_names_of_weights_are_made_unique():
    nodes = [
        helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(WEIGHT)),
        helper.make_node("MatMul", ["x", "a"], ["h"]),
    ]
    model = product_model(numpy_helper.from_array(WEIGHT))
    model.graph.node[0].input[1] = "w"
    inner = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["z"])],
        "inner",
        [],
        [helper.make_empty_tensor_value_info("z")],
        [numpy_helper.from_array(np.zeros((2, 24), np.float32), "w")],
    )
    model.graph.node.extend(nodes)
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("If", ["c"], ["i"], then_branch=inner, else_branch=inner))
    model.graph.node.append(helper.make_node("Sum", ["y", "h", "i"], ["s"]))
    model.graph.output[0].name = "s"
    assert sorted(import_model(model, ir.Context()).parameters) == ["a", "w", "w.1", "w.2"]
