"""Models that cannot be imported: each ends in one clear error, never in another exception."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from stepwell.frontend.errors import ModelError, NeedsContents, NeedsShapes, NodeError, UnsupportedError
from stepwell.frontend.onnx.importer import import_model
from stepwell.frontend.onnx.reading.model import describe_model, read_model

FLOATS = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])


SCALE = helper.make_tensor_value_info("s", TensorProto.FLOAT, [4])


def model_of(*nodes, inputs=(FLOATS,), outputs=("y",), constants=(), opset=17, domains=()):
    """Makes a model of nodes, with float outputs."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), values, list(constants))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports)


def node(op_type, inputs, outputs, name="n", **attributes):
    """A named node."""
    return helper.make_node(op_type, inputs, outputs, name=name, **attributes)


def refuses(model, message, kind=ModelError, **options):
    """Checks that the import fails with an error, and returns it."""
    with pytest.raises(kind, match=message) as caught:
        import_model(model, ir.Context(), **options)
    return caught.value


@pytest.mark.parametrize("data", [b"", b"garbage" * 10, b"\x08\x08", b"\x00" * 64])
def test_files_that_are_not_models(data):
    refuses(data, "not an ONNX model")


def test_truncated_file(tmp_path):
    weight = numpy_helper.from_array(np.ones((4, 64), np.float32), "w")
    data = model_of(node("MatMul", ["x", "w"], ["y"]), constants=[weight]).SerializeToString()
    path = tmp_path / "cut.onnx"
    for size in range(1, len(data) - 1, 37):
        path.write_bytes(data[:size])
        refuses(path, "cut.onnx: ")


@pytest.mark.sweep
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_bytes_give_no_other_exception(data):
    weight = numpy_helper.from_array(np.arange(96, dtype=np.float32).reshape(4, 24), "w")
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Reshape", ["h", "s"], ["r"], "m"),
        node("Relu", ["r"], ["y"], "o"),
    ]
    shape = numpy_helper.from_array(np.array([-1, 12]), "s")
    content = bytearray(model_of(*nodes, constants=[weight, shape]).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = str(import_model(bytes(content), ir.Context()).module)
    except ModelError as error:
        message = str(error)
    assert message


def test_error_names_model_node_and_operator():
    error = refuses(model_of(node("Relu", ["nowhere"], ["y"], "relu_7")), "reads 'nowhere'")
    assert (error.model, error.node, error.op_type) == ("g", "relu_7", "Relu")
    assert str(error).startswith("g: node 'relu_7' (Relu): ")


def test_all_unsupported_operators_in_one_message():
    nodes = [node("Det", ["x"], ["a"], "z"), node("Unheard", ["a"], ["b"], "u"), node("Det", ["b"], ["y"], "w")]
    error = refuses(model_of(*nodes), "not supported", UnsupportedError)
    assert "Det of opset 17 (nodes z, w)" in error.reason
    assert "Unheard of opset 17 (node u)" in error.reason


def test_operator_of_an_unknown_domain_or_version():
    refuses(model_of(helper.make_node("Relu", ["x"], ["y"], domain="else.where")), "else.where.Relu, whose domain")
    refuses(model_of(node("Gelu", ["x"], ["y"]), opset=17), "Gelu of opset 17")


def test_opset_of_the_future():
    refuses(model_of(node("Relu", ["x"], ["y"]), opset=99), "uses opset 99, but the newest supported opset is 28")


def test_old_opset_that_cannot_be_converted():
    refuses(model_of(node("Unheard", ["x"], ["y"]), opset=6), "uses opset 6, and ONNX cannot convert it to opset 7: ")


def test_attribute_that_would_be_lost():
    norm = skip_norm(["y"])
    norm.attribute.append(helper.make_attribute("smooth", 1))
    refuses(model_of(norm, inputs=(FLOATS, SCALE), domains=("com.microsoft",)), "attribute 'smooth' is not supported")


def test_no_opset_at_all():
    model = model_of(node("Relu", ["x"], ["y"]))
    del model.opset_import[:]
    refuses(model, "opset_import")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (node("Relu", ["x"], ["y"], slope=1), "'slope', which Relu does not have"),
        (node("Softmax", ["x"], ["y"], axis=1.5), "'axis' must be of type INT, but is FLOAT"),
        (node("MaxPool", ["x"], ["y"]), "'kernel_shape' is missing"),
        (node("Relu", ["x", "x"], ["y"]), "takes 1 input, but has 2"),
        (node("Add", ["x"], ["y"]), "takes 2 inputs, but has 1"),
        (node("Add", ["", "x"], ["y"]), "input 0 is missing"),
        (node("Concat", ["", "x"], ["y"], axis=0), "input 0 is missing"),
        (node("Concat", ["x", "x", "", "x"], ["y"], axis=0), "input 2 is missing"),
        (node("And", ["x", "x"], ["y"]), r"input 'A' cannot be a tensor\(float\)"),
        (node("Transpose", ["x"], ["y"], perm=[0, 0]), "must be a permutation"),
        (node("Softmax", ["x"], ["y"], axis=7), "axis 7 is out of range"),
        (node("Conv", ["x", "x"], ["y"]), "takes 1 to 3 spatial dimensions"),
        (node("Dropout", ["x"], ["y", "y"]), "each value needs a unique name"),
        (node("Dropout", ["x", "", "t"], ["y"]), "training mode"),
    ],
)
def test_node_that_breaks_a_rule(broken, message):
    truth = numpy_helper.from_array(np.array(True), "t")
    refuses(model_of(broken, constants=[truth]), f"node 'n' .*{message}")


def test_operands_that_do_not_fit():
    other = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 5])
    error = refuses(model_of(node("Add", ["x", "z"], ["y"]), inputs=(FLOATS, other)), "cannot be broadcast")
    assert error.node == "n"
    integers = helper.make_tensor_value_info("z", TensorProto.INT64, [4])
    refuses(model_of(node("Add", ["x", "z"], ["y"]), inputs=(FLOATS, integers)), "must be a tensor.float. like")


def test_output_that_no_handler_makes():
    norm = skip_norm(["y", "mean"])
    options = {"inputs": (FLOATS, SCALE), "domains": ("com.microsoft",)}
    import_model(model_of(norm, **options), ir.Context())
    used = [norm, node("Neg", ["mean"], ["z"], "c")]
    message = r"reads output 1 of 'n' \(SkipSimplifiedLayerNormalization\), which is not supp"
    refuses(model_of(*used, outputs=("z",), **options), message)


def skip_norm(outputs):
    """A node with more outputs than the importer computes."""
    return node("SkipSimplifiedLayerNormalization", ["x", "x", "s"], outputs, domain="com.microsoft")


def test_cycles():
    round_ = [node("Relu", ["h"], ["y"], "late"), node("Neg", ["y"], ["h"], "early")]
    refuses(model_of(*round_), "reads 'h', .*nodes must come after")
    refuses(model_of(node("Relu", ["y"], ["y"])), "reads 'y'")


def test_names_that_are_taken_twice():
    refuses(model_of(node("Relu", ["x"], ["y"]), inputs=(FLOATS, FLOATS)), "two inputs are called 'x'")
    twice = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"], "m")]
    refuses(model_of(*twice), "node 'm' .*makes 'y'")


def test_outputs_that_are_wrong():
    refuses(model_of(node("Relu", ["x"], ["h"])), "declares the output 'y'")
    refuses(model_of(node("Cast", ["x"], ["y"], to=TensorProto.INT64)), "declares output 'y' as float32, but computes")
    refuses(model_of(outputs=()), "has no outputs")


def test_inputs_that_are_not_tensors():
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    expected = r"'x' has the type seq\(float32\)"
    refuses(model_of(node("Relu", ["x"], ["y"]), inputs=(sequence,)), expected, UnsupportedError)
    strings = helper.make_tensor_value_info("x", TensorProto.STRING, [1])
    refuses(model_of(node("Relu", ["x"], ["y"]), inputs=(strings,)), "'x' has the type string", UnsupportedError)


def test_shapes_that_do_not_fit():
    model = model_of(node("Relu", ["x"], ["y"]))
    refuses(model, "has no input 'z'; its inputs are x", shapes={"z": (1,)})
    refuses(model, "has 2 dimensions", shapes={"x": (1,)})
    refuses(model, r"\[2, 5\] is not", shapes={"x": (2, 5)})
    refuses(model, r"\[-2, 4\] is not", shapes={"x": (-2, 4)})
    square = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "n"])
    refuses(model_of(node("Relu", ["x"], ["y"]), inputs=(square,)), "with n = 2", shapes={"x": (2, 3)})
    unranked = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    free = model_of(node("Relu", ["x"], ["y"]), inputs=(unranked,))
    refuses(free, "does not declare the rank of input 'x'", NeedsShapes)
    assert import_model(free, ir.Context(), {"x": (2, 3)})


def test_required_contents_are_requested_by_input():
    sizes = helper.make_tensor_value_info("s", TensorProto.INT64, [2])
    fixed = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    error = refuses(model_of(node("Tile", ["x", "s"], ["y"]), inputs=(fixed, sizes)), "must be a constant")
    assert isinstance(error, NeedsContents)
    assert (error.inputs, error.position) == (("s",), 0)


def test_description_needs_no_import():
    model = model_of(node("Unheard", ["x"], ["y"]))
    info = describe_model(model)
    assert (info.name, info.inputs[0].dims, info.inputs[0].dtype) == ("g", ("n", 4), np.float32)
    assert not info.is_static
    assert info.outputs[0].dims is None
    nameless = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, -1, "?"])
    assert describe_model(model_of(inputs=(nameless,))).inputs[0].dims == ("x.0", "x.1", "x.2")
    assert read_model(model.SerializeToString()).name == "g"


def test_more_dimensions_than_an_array_has():
    many = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1] * 1000)
    with pytest.raises(ModelError, match="input 'x' has 1000 dimensions, more than 64"):
        describe_model(model_of(node("Relu", ["x"], ["y"]), inputs=[many]))
    axes = numpy_helper.from_array(np.arange(100_000), "axes")
    refuses(model_of(node("Unsqueeze", ["x", "axes"], ["y"]), constants=[axes]), "100002 dimensions, more than 64")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        import_model(tmp_path / "none.onnx", ir.Context())


def test_function_defined_twice():
    model = model_of(node("Relu", ["x"], ["y"]))
    function = helper.make_function("d", "F", ["a"], ["b"], [node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)])
    model.functions.extend([function, function])
    refuses(model, "defines the function 'F' twice")


@pytest.mark.parametrize("version", [-(1 << 63), -1, 1 << 31, (1 << 63) - 1])
def test_impossible_version_of_a_domain(version):
    """ONNX's own functions take the version as a C++ int."""
    model = model_of(node("Relu", ["x"], ["y"]))
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", version))
    refuses(model, f"invalid version {version} of the domain 'ai.onnx.preview.training'")


def test_input_that_no_memory_holds():
    """Its transpose on the host crashed the process."""
    huge = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, (1 << 63) - 1])
    refuses(model_of(node("Transpose", ["x"], ["y"]), inputs=(huge,)), "input 'x': a tensor would have the impossible")


@pytest.mark.parametrize("place", [2, 3])
def test_sizes_of_a_resize_that_are_not_one_dimensional(place):
    """With tables for antialiasing, the sizes are read one by one."""
    array = np.array([[1, 1, 2, 2]], np.float32 if place == 2 else np.int64)
    resize = node("Resize", ["x", "", "s"] if place == 2 else ["x", "", "", "s"], ["y"], mode="linear", antialias=1)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
    model = model_of(resize, inputs=(image,), constants=[numpy_helper.from_array(array, "s")], opset=19)
    refuses(model, r"must be a list of 4 numbers, but have the shape \(1, 4\)", NodeError)


def test_an_invalid_name_in_a_graph_attribute_of_another_type():
    """An attribute whose declared type is a number may still hold a graph."""
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["NAME"])], "inner", [], [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    node.attribute[0].type = AttributeProto.INT
    node.attribute[1].type = AttributeProto.INT
    value = helper.make_tensor_value_info
    inputs = [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph([node], "outer", inputs, [value("y", TensorProto.FLOAT, [2])])
    data = helper.make_model(graph).SerializeToString().replace(b"NAME", b"N\xff\xfeE")
    with pytest.raises(ModelError, match="is not text: the file is damaged"):
        read_model(data)
