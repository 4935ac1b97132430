"""Loop and Scan, compared with ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper
from stepwell.frontend.errors import ModelError, NeedsContents
from stepwell.frontend.onnx.importer import import_model

F32 = np.float32
KINDS = {"i": (TensorProto.INT64, []), "c": (TensorProto.BOOL, [])}


def node(op_type, inputs, outputs, **attributes):
    """Makes a node from inputs and outputs separated by spaces."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def body(nodes, inputs, outputs, shape=None):
    """A graph of floats of a shape; the iteration numbers `i` and `j` and the bools `c` to `f` are scalars."""

    def values(names):
        kinds = {**KINDS, "j": KINDS["i"], **dict.fromkeys("def", KINDS["c"])}
        return [
            helper.make_tensor_value_info(name, *kinds.get(name, (TensorProto.FLOAT, shape))) for name in names.split()
        ]

    return helper.make_graph(nodes, "body", values(inputs), values(outputs))


def looped(graph, inputs, outputs, op_type="Loop", **attributes):
    """Makes a node with a body; `-` stands for an absent input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), body=graph, **attributes)


STEP = [node("Identity", "c", "d"), node("MatMul", "h w", "t"), node("Tanh", "t", "n")]
COUNTED = body([*STEP, node("Identity", "n", "s")], "i c h", "d n s", [2, 3])


@pytest.fixture
def feeds(rng):
    return {"h0": rng.normal(size=(2, 3)).astype(F32), "w": rng.normal(size=(3, 3)).astype(F32)}


def text_of(model, feeds):
    return str(import_model(model, ir.Context(), {name: array.shape for name, array in feeds.items()}).module)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_counted_loop_adds_rows(build, compare, feeds, count):
    model = build([looped(COUNTED, "m - h0", "h rows")], feeds, ["h", "rows"], {"m": np.array(count)}, 19)
    compare(model, feeds)
    assert ("scf.for" in text_of(model, feeds)) == (count == 4)


def test_count_and_condition_of_the_run(build, compare, feeds):
    counted = body(STEP, "i c h", "d n")
    nodes = [node("ReduceMax", "h", "r", keepdims=0), node("Less", "r fifty", "d"), node("Add", "h h", "n")]
    until = body(nodes, "i c h", "d n")
    fifty = {"fifty": np.array(50, F32)}
    for count in (0, 3):
        given = {"m": np.array(count), **feeds}
        model = build([looped(counted, "m - h0", "h")], given, ["h"], {}, 19)
        compare(model, given)
        assert "scf.while" in text_of(model, given) or "scf.for" in text_of(model, given)
    for inputs in ("m c0 h0", "- c0 h0"):
        for begins in (True, False):
            given = {"m": np.array(4), "c0": np.array(begins), "h0": feeds["h0"]}
            model = build([looped(until, inputs, "h")], given, ["h"], fifty, 19)
            compare(model, given)
            assert "scf.while" in text_of(model, given)


def test_number_of_the_round(build, compare, rng):
    nodes = [node("Identity", "c", "d"), node("Gather", "x i", "r"), node("Cast", "i", "f", to=1)]
    graph = body([*nodes, node("Add", "h r", "n"), node("Mul", "n f", "s")], "i c h", "d n s")
    given = {"h0": rng.normal(size=3).astype(F32), "x": rng.normal(size=(5, 3)).astype(F32)}
    compare(build([looped(graph, "m - h0", "h rows")], given, ["h", "rows"], {"m": np.array(5)}, 19), given)


def test_loops_without_fixed_shapes_are_unrolled(build, compare, feeds):
    grows = body([node("Identity", "c", "d"), node("Concat", "h h0", "n", axis=0)], "i c h", "d n")
    model = build([looped(grows, "m - h0", "h")], {"h0": feeds["h0"]}, ["h"], {"m": np.array(4)}, 19)
    compare(model, {"h0": feeds["h0"]})
    nodes = [node("Add", "i one", "j"), node("Less", "j five", "d"), node("Mul", "h h", "n"), node("Neg", "n", "s")]
    numbers = {"one": np.array(1), "five": np.array(5), "yes": np.array(True)}
    ends = build(
        [looped(body(nodes, "i c h", "d n s"), "- yes h0", "h s")], {"h0": feeds["h0"]}, ["h", "s"], numbers, 19
    )
    compare(ends, {"h0": feeds["h0"]})


@pytest.mark.sweep
def test_many_large_rounds_are_not_unrolled(build, feeds):
    steps = [node("Tanh", "h" if k == 0 else f"t{k - 1}", f"t{k}") for k in range(30)]
    counted = [node("Add", "k one", "n"), node("Less", "n most", "d"), node("Identity", "t29", "s")]
    graph = body([*steps, *counted], "i c h k", "d t29 n s")
    graph.input[3].type.tensor_type.elem_type = graph.output[2].type.tensor_type.elem_type = TensorProto.INT64
    for most, is_native in ((20, True), (600, False)):
        numbers = {"one": np.array(1), "most": np.array(most), "yes": np.array(True), "k0": np.array(0)}
        model = build([looped(graph, "- yes h0 k0", "h k s")], {"h0": feeds["h0"]}, ["s"], numbers, 19)
        (got,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"h0": feeds["h0"]})
        run = stepwell.compile(model, threads=1, options=stepwell.Options(fallback="quiet"))
        np.testing.assert_allclose(run(feeds["h0"]), np.asarray(got), rtol=1e-3, atol=1e-4)
        assert [found.op_type for found in run.fallbacks] == ([] if is_native else ["Loop"])


def test_nested(build, compare, feeds):
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(op_type, "h", "b")], name, [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)]
        )
        for name, op_type in (("then", "Neg"), ("else", "Exp"))
    }
    nodes = [node("ReduceSum", "h", "r", keepdims=0), node("Greater", "r zero", "q"), node("If", "q", "a", **branches)]
    inner = looped(body([node("Identity", "e", "f"), node("Add", "g a", "k")], "j e g", "f k k"), "m - a", "n rows")
    graph = body(
        [node("Identity", "c", "d"), *nodes, inner, node("ReduceMean", "rows", "s", keepdims=0)], "i c h", "d n s"
    )
    numbers = {"m": np.array(3), "zero": np.array(0, F32)}
    compare(build([looped(graph, "m - h0", "h s")], feeds, ["h", "s"], numbers, 17), feeds)


def test_scan(build, compare, rng):
    graph = body([node("Add", "h x", "n"), node("Mul", "n y", "a"), node("Identity", "n", "b")], "h x y", "n a b")
    given = {"h0": rng.normal(size=3).astype(F32), "x": rng.normal(size=(5, 3)).astype(F32)}
    given["y"] = rng.normal(size=(3, 5)).astype(F32)
    attributes = {"num_scan_inputs": 2, "scan_input_axes": [0, 1], "scan_input_directions": [0, 1]}
    attributes |= {"scan_output_axes": [1, 0], "scan_output_directions": [1, 0]}
    model = build([looped(graph, "h0 x y", "h a b", "Scan", **attributes)], given, ["h", "a", "b"], {}, 19)
    compare(model, given)


@pytest.mark.parametrize("lengths", [None, [2, 4]])
def test_scan_of_batches(build, compare, rng, lengths):
    graph = body([node("Add", "h x", "n"), node("Identity", "n", "a")], "h x", "n a")
    given = {"h0": rng.normal(size=(2, 3)).astype(F32), "x": rng.normal(size=(2, 4, 3)).astype(F32)}
    given |= {} if lengths is None else {"l": np.array(lengths)}
    scan = looped(graph, f"{'-' if lengths is None else 'l'} h0 x", "h a", "Scan", num_scan_inputs=1, directions=[1])
    compare(build([scan], given, ["h", "a"], {}, 8), given)


def test_negative_loops(build, feeds):
    nodes = [node("ReduceMax", "h", "r", keepdims=0), node("Less", "r fifty", "d"), node("Add", "h h", "n")]
    until = body([*nodes, node("Identity", "n", "s")], "i c h", "d n s")
    few = body(STEP, "i c h g", "d n n")
    for graph, inputs, wanted, message in (
        (until, "m - h0", NeedsContents, "the condition of the loop must be known"),
        (COUNTED, "m - h0 w", ModelError, "passes 4 values to its body, which takes 3"),
        (few, "m - h0 w h0", ModelError, "carries 3 values, but its body returns 3 with a bool"),
    ):
        model = build([looped(graph, inputs, "h s")], feeds, ["h"], {"m": np.array(3), "fifty": np.array(50, F32)}, 19)
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        with pytest.raises(wanted, match=message):
            text_of(model, feeds)
