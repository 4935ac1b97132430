"""Sequences of tensors become lists of values during the import: they need no code, and nothing runs on the host."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

NODE = helper.make_node
RNG = np.random.default_rng(0)


def model_of(nodes, inputs, constants=(), opset=20):
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def check(model, *all_inputs):
    """Compares with ONNX Runtime; one program takes all inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for inputs in all_inputs:
            (expected,) = session.run(None, inputs)
            result = run(**inputs)
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert len(run.programs) == 1 and not run.fallbacks
    assert not stepwell.check(model).findings


def floats(*shape):
    return RNG.standard_normal(shape, np.float32)


def test_lists_that_grow_and_shrink():
    nodes = [
        NODE("SequenceEmpty", [], ["s0"]),
        NODE("SequenceInsert", ["s0", "a"], ["s1"]),
        NODE("SequenceInsert", ["s1", "b", "first"], ["s2"]),
        NODE("SequenceConstruct", ["a", "b", "a"], ["t0"]),
        NODE("SequenceErase", ["t0", "second_last"], ["t1"]),
        NODE("SequenceErase", ["t1"], ["t2"]),
        NODE("SequenceAt", ["t2", "first"], ["c"]),
        NODE("SequenceInsert", ["s2", "c"], ["s3"]),
        NODE("Identity", ["s3"], ["s4"]),
        NODE("SequenceLength", ["s4"], ["n"]),
        NODE("CastLike", ["n", "a"], ["m"]),
        NODE("ConcatFromSequence", ["s4"], ["joined"], axis=1),
        NODE("ConcatFromSequence", ["t1"], ["stacked"], axis=-1, new_axis=1),
        NODE("ReduceSum", ["stacked"], ["total"]),
        NODE("Sum", ["joined", "m", "total"], ["y"]),
    ]
    inputs = {"a": floats(2, 3), "b": floats(2, 4)}
    constants = {"first": np.array(0), "second_last": np.array(-2)}
    check(model_of(nodes, inputs, constants), inputs)


@pytest.mark.parametrize(("split", "keepdims"), [(None, 0), (None, 1), (3, 1), ([2, 1, 5], 1)])
def test_split_and_map(split, keepdims):
    body = helper.make_graph(
        [NODE("Mul", ["e", "k"], ["p"]), NODE("ReduceMax", ["p"], ["q"])],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "ek"],
        [helper.make_tensor_value_info("q", TensorProto.FLOAT, None)],
    )
    constants = {} if split is None else {"split": np.array(split)}
    nodes = [
        NODE("SplitToSequence", ["x", *constants], ["s"], axis=-1, keepdims=keepdims),
        NODE("SequenceMap", ["s", "k"], ["t"], body=body),
        NODE("ConcatFromSequence", ["t"], ["c"], axis=0),
        NODE("Relu", ["c"], ["y"]),
    ]
    inputs = {"x": floats(2, 8), "k": floats(1)}
    check(model_of(nodes, inputs, constants), inputs)


def test_a_loop_that_collects():
    """The limit is a constant, and the element of an iteration depends on its number."""
    value = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [
            NODE("Gather", ["x", "i"], ["row"]),
            NODE("Add", ["row", "state"], ["next"]),
            NODE("SequenceInsert", ["s", "next"], ["t"]),
            NODE("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [3]),
            value("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [3]),
            value("t", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        NODE("SequenceEmpty", [], ["none"]),
        NODE("Loop", ["count", "", "start", "none"], ["last", "all"], body=body),
        NODE("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1),
    ]
    inputs = {"x": floats(5, 3), "start": floats(3)}
    check(model_of(nodes, inputs, {"count": np.array(4)}), inputs)


def embedding_bag(mode: str, opset: int = 20) -> onnx.ModelProto:
    """EmbeddingBag of 6 bags as PyTorch exports it: slices whose bounds are inputs, reduced; empty bags give zeros."""
    zeros = helper.make_graph(
        [],
        "zeros",
        [],
        [helper.make_tensor_value_info("zero", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(np.zeros((1, 8), np.float32), "zero")],
    )
    sliced = helper.make_graph(
        [NODE("Slice", ["rows", "start", "end"], ["bag"])], "sliced", [], [helper.make_empty_tensor_value_info("bag")]
    )
    to_end = helper.make_graph(
        [NODE("Slice", ["rows", "start", "size"], ["rest"])], "rest", [], [helper.make_empty_tensor_value_info("rest")]
    )
    reduced = helper.make_graph(
        [
            NODE("Equal", ["i", "last"], ["is_last"]),
            NODE("If", ["is_last"], ["part"], then_branch=to_end, else_branch=sliced),
            NODE(f"Reduce{mode}", ["part", "zeroth"], ["sum"]),
        ],
        "reduced",
        [],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 8])],
    )
    body = helper.make_graph(
        [
            NODE("Reshape", ["i", "flat"], ["at"]),
            NODE("Add", ["at", "one"], ["next_at"]),
            NODE("Add", ["next_at", "one"], ["after"]),
            NODE("Slice", ["offsets", "at", "next_at"], ["start"]),
            NODE("Slice", ["offsets", "next_at", "after"], ["end"]),
            NODE("Equal", ["start", "end"], ["is_empty"]),
            NODE("If", ["is_empty"], ["row"], then_branch=zeros, else_branch=reduced),
            NODE("SequenceInsert", ["s", "row"], ["t"]),
            NODE("Add", ["i", "one"], ["next"]),
            NODE("Less", ["next", "bags"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("i", TensorProto.INT64, [1]),
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, [1]),
            helper.make_tensor_value_info("next", TensorProto.INT64, [1]),
            helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        NODE("Gather", ["weight", "indices"], ["rows"]),
        NODE("Concat", ["starts", "size"], ["offsets"], axis=0),
        NODE("SequenceEmpty", [], ["none"]),
        NODE("Loop", ["", "true", "first", "none"], ["unused", "all"], body=body),
        NODE("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    constants = {
        "weight": floats(50, 8),
        "size": np.array([20]),
        "flat": np.array([-1]),
        "one": np.array([1]),
        "last": np.array([5]),
        "bags": np.array([6]),
        "first": np.array([0]),
        "zeroth": np.array([0]),
        "true": np.array(True),
    }
    inputs = {"indices": np.zeros(20, np.int64), "starts": np.zeros(6, np.int64)}
    return model_of(nodes, inputs, constants, opset)


@pytest.mark.parametrize("mode", ["Sum", "Mean", "Max", "Min"])
def test_bags_whose_bounds_are_inputs(mode):
    """One program serves all bounds."""
    every = [[0, 4, 4, 9, 15, 19], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5], [3, 7, 8, 12, 12, 20]]
    inputs = [{"indices": RNG.integers(0, 50, 20), "starts": np.array(starts)} for starts in every]
    check(embedding_bag(mode), *inputs)


@pytest.mark.parametrize("mode", ["Sum", "Max"])
def test_bounds_that_count_from_the_end_or_lie_outside(mode):
    nodes = [
        NODE("Slice", ["x", "start", "stop", "axis"], ["part"]),
        NODE(f"Reduce{mode}", ["part", "axes"], ["y"], keepdims=0),
    ]
    x = floats(3, 7, 2)
    every = [(1, 5), (-3, 7), (-100, 100), (2, -1), (0, np.iinfo(np.int64).max), (4, 6)]
    inputs = [{"x": x, "start": np.array([start]), "stop": np.array([stop])} for start, stop in every]
    check(model_of(nodes, inputs[0], {"axis": np.array([1]), "axes": np.array([0, 1])}), *inputs)


def test_a_slice_that_something_else_reads_needs_its_size():
    nodes = [
        NODE("Slice", ["x", "start", "stop"], ["part"]),
        NODE("ReduceSum", ["part"], ["sum"], keepdims=0),
        NODE("Add", ["part", "sum"], ["y"]),
    ]
    inputs = {"x": floats(7), "start": np.array([2]), "stop": np.array([5])}
    model = model_of(nodes, inputs)
    run = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    for stop in (5, 4):
        given = inputs | {"stop": np.array([stop])}
        np.testing.assert_allclose(run(**given), given["x"][2:stop] + given["x"][2:stop].sum(), rtol=1e-5)


def test_sequences_that_leave_the_model_stay_on_the_host():
    nodes = [NODE("SequenceConstruct", ["a", "b"], ["s"]), NODE("SequenceAt", ["s", "at"], ["y"])]
    inputs = {"a": floats(2), "b": floats(3), "at": np.array(1)}
    model = model_of(nodes, inputs)
    with pytest.warns(UserWarning, match="on the host"):
        result = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(**inputs)
    np.testing.assert_array_equal(result, inputs["b"])
    assert {found.op_type for found in stepwell.check(model).findings} == {"SequenceConstruct", "SequenceAt"}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [NODE("SequenceConstruct", ["a"], ["s"]), NODE("SequenceAt", ["s", "at"], ["y"])],
            "takes position 3 of a sequence of 1",
        ),
        ([NODE("SplitToSequence", ["a", "at"], ["s"]), NODE("SequenceAt", ["s", "far"], ["y"])], "takes position 9 of"),
    ],
)
def test_positions_outside(nodes, message):
    model = model_of(nodes, {"a": floats(4)}, {"at": np.array(3), "far": np.array(9)})
    found = stepwell.check(model).findings
    assert any(message in item.reason for item in found)
