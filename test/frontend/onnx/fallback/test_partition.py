"""Partitioned models: how they are cut, and that nodes on the host and compiled subgraphs compute ONNX's results."""

import itertools

import numpy as np
import pytest
import stepwell
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from stepwell.frontend.errors import UnsupportedError
from stepwell.frontend.onnx.fallback.partition import fallback_of, partition
from stepwell.frontend.onnx.reading.model import read_model
from stepwell.runtime.host.step import HostNode

F32 = np.float32
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
QUIET = stepwell.Options(fallback="quiet")


pytestmark = pytest.mark.usefixtures("own_cache")


def node(op_type, inputs, outputs, **attributes):
    """A named node."""
    return helper.make_node(op_type, inputs, outputs, name=f"{op_type}_{outputs[0]}", **attributes)


def host(source, target):
    """A node that only the host can run: strings are not compiled."""
    return [
        node("Cast", [source], [f"{target}_text"], to=STRING),
        node("Cast", [f"{target}_text"], [target], to=FLOAT),
    ]


def model_of(nodes, inputs, outputs, constants=(), opset=21, **more):
    """Makes a model; types are (element type, shape) or complete types."""

    def value(name, kind):
        if not isinstance(kind, tuple):
            return helper.make_value_info(name, kind)
        return helper.make_tensor_value_info(name, *kind)

    graph = helper.make_graph(
        list(nodes),
        "g",
        [value(*item) for item in inputs.items()],
        [value(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def steps_of(model, on_host):
    """Returns the operators of each step of a partition, with "!" before nodes on the host."""
    read = read_model(model)
    nodes = read.proto.graph.node
    chosen = {index: fallback_of(read, index, "", "operator") for index, item in enumerate(nodes) if on_host(item)}
    cuts = partition(read, chosen)
    return [("!" if cut.fallback else "") + "".join(nodes[index].output[0] for index in cut.nodes) for cut in cuts]


ROW = {"x": (FLOAT, ["n", 4])}


def test_subgraphs_are_as_large_as_can_be():
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Foo", ["a"], ["b"]),
        node("Exp", ["a"], ["c"]),  # does not wait for the host
        node("Add", ["b", "c"], ["d"]),
        node("Foo", ["c"], ["e"]),  # runs with the first node on the host
        node("Add", ["d", "e"], ["f"]),
        node("Foo", ["x"], ["g"]),  # nothing needs it
    ]
    model = model_of(nodes, ROW, {"f": (FLOAT, None)})
    assert steps_of(model, lambda item: item.op_type == "Foo") == ["ac", "!b", "!e", "df"]


def test_constants_go_with_the_steps_that_read_them():
    nodes = [
        node("Constant", [], ["k"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        node("Add", ["x", "k"], ["a"]),
        node("Foo", ["a", "k"], ["b"]),
        node("Mul", ["b", "k"], ["c"]),
    ]
    model = model_of(nodes, ROW, {"c": (FLOAT, None), "k": (FLOAT, [4])})
    assert steps_of(model, lambda item: item.op_type == "Foo") == ["ka", "!kb", "kc", "k"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_cut_makes_the_inputs_of_later_ones(data):
    names, nodes = ["x"], []
    for index in range(data.draw(st.integers(1, 12))):
        inputs = [data.draw(st.sampled_from(names)) for _ in range(2)]
        nodes.append(node(data.draw(st.sampled_from(["Add", "Foo"])), inputs, [f"v{index}"]))
        names.append(f"v{index}")
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    read = read_model(model_of(nodes, ROW, dict.fromkeys(wanted, (FLOAT, None))))
    chosen = {i: fallback_of(read, i, "", "operator") for i, item in enumerate(nodes) if item.op_type == "Foo"}
    cuts, known = partition(read, chosen), {"x"}
    for cut in cuts:
        assert known.issuperset(cut.inputs)
        made = {name for index in cut.nodes for name in nodes[index].output}
        assert made.issuperset(cut.outputs)
        assert (cut.fallback is not None) == any(nodes[index].op_type == "Foo" for index in cut.nodes)
        known.update(cut.outputs)
    assert known.issuperset(wanted)
    kinds = [cut.fallback is None for cut in cuts]
    assert not any(one and other for one, other in itertools.pairwise(kinds))  # never two compiled subgraphs in a row


def check(model, *feeds):
    """Compares each output with ONNX's reference; returns the executable."""
    run = stepwell.compile(model, threads=1, options=QUIET)
    reference = ReferenceEvaluator(model)
    names = [info.name for info in run.inputs]
    for values in feeds:
        results = run(*values)
        results = results if isinstance(results, tuple) else (results,)
        for got, wanted in zip(results, reference.run(None, dict(zip(names, values, strict=True))), strict=True):
            assert_same(got, wanted)
    return run


def assert_same(got, wanted):
    """Compares values of any type."""
    if isinstance(wanted, list):
        assert isinstance(got, list)
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    elif wanted is None or isinstance(wanted, dict):
        assert got == wanted
    elif wanted.dtype.kind in "OU":
        assert got.tolist() == wanted.tolist()
    else:
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def rows(count):
    """Returns random rows of four numbers."""
    return np.random.default_rng(count).normal(size=(count, 4)).astype(F32)


def test_sizes_that_depend_on_data():
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Greater", ["r", "half"], ["m"]),
        node("Compress", ["r", "flags"], ["c"], axis=0),
        node("Unique", ["c"], ["u"]),
        node("Exp", ["u"], ["y"]),
        node("ReduceSum", ["c"], ["z"]),
    ]
    inputs = {**ROW, "flags": (TensorProto.BOOL, ["n"])}
    model = model_of(nodes, inputs, {"y": (FLOAT, None), "z": (FLOAT, None)}, {"half": np.array(0.5, F32)})
    run = check(model, (rows(3), np.array([1, 0, 1], bool)), (rows(3), np.array([1, 1, 1], bool)))
    assert not run.fallbacks


def test_strings_in_and_out():
    nodes = [node("StringNormalizer", ["s"], ["t"], case_change_action="UPPER"), node("Tanh", ["x"], ["y"])]
    model = model_of(nodes, {**ROW, "s": (STRING, ["k"])}, {"t": (STRING, None), "y": (FLOAT, None)})
    run = check(model, (rows(2), np.array(["a", "Bc"], object)))
    assert str(run.inputs[1]) == "s: string[k]"
    assert run(rows(2), ["ab"])[0].tolist() == ["AB"]
    with pytest.raises(stepwell.InputError, match="input 's' must hold strings, but is int64"):
        run(rows(2), np.array([1]))


def test_sequences_and_optionals_in_and_out():
    tensor = helper.make_tensor_type_proto(FLOAT, None)
    sequence, optional = helper.make_sequence_type_proto(tensor), helper.make_optional_type_proto(tensor)
    nodes = [
        node("Neg", ["x"], ["n"]),
        node("SequenceInsert", ["s", "n"], ["t"]),
        node("ConcatFromSequence", ["t"], ["c"], axis=0),
        node("Exp", ["c"], ["y"]),
        node("OptionalHasElement", ["o"], ["h"]),
    ]
    model = model_of(
        nodes,
        {**ROW, "s": sequence, "o": optional},
        {"y": (FLOAT, None), "t": sequence, "h": (TensorProto.BOOL, [])},
    )
    given = [rows(1), rows(3)]
    run = check(model, (rows(2), given, None), (rows(2), [], rows(1)))
    assert str(run.inputs[1]) == "s: seq(float32)"
    results = run(rows(2), given, None)[1]
    assert all(one is not other for one, other in zip(results, given, strict=False))


def test_outputs_that_are_inputs_constants_or_given_twice():
    weight = np.arange(3, dtype=F32)
    nodes = [*host("x", "h"), node("Identity", ["h"], ["i"])]
    outputs = dict.fromkeys(("x", "w", "h", "i"), (FLOAT, None))
    run = check(model_of(nodes, ROW, outputs, {"w": weight}), (rows(2),))
    x = rows(2)
    same, stored, *others = run(x)
    assert not np.shares_memory(same, x)
    assert not np.shares_memory(*others)
    stored[:] = 7
    np.testing.assert_array_equal(run(x)[1], weight)


def test_graphs_within_nodes_take_values_from_around_them():
    then = helper.make_graph(host("a", "p"), "t", [], [helper.make_tensor_value_info("p", FLOAT, None)])
    other = helper.make_graph([node("Neg", ["x"], ["q"])], "e", [], [helper.make_tensor_value_info("q", FLOAT, None)])
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        node("Abs", ["b"], ["y"]),
    ]
    model = model_of(nodes, {**ROW, "c": (TensorProto.BOOL, [])}, {"y": (FLOAT, None)})
    run = check(model, (rows(2), np.array(True)), (rows(2), np.array(False)))
    assert [found.node for found in run.fallbacks] == ["If_b", "Cast_p_text", "Cast_p"]
    assert "Cast_p_text" in run.fallbacks[0].reason


def test_functions_of_the_model_are_cut_too():
    opsets = [helper.make_opsetid("", 21)]
    twice = [*host("a", "t"), node("Add", ["t", "t"], ["b"])]
    function = helper.make_function("own", "Twice", ["a"], ["b"], twice, opsets)
    call = helper.make_node("Twice", ["x"], ["y"], domain="own")
    model = model_of([call], ROW, {"y": (FLOAT, None)}, functions=[function])
    model.opset_import.append(helper.make_opsetid("own", 1))
    run = check(model, (rows(2),))
    assert [found.op_type for found in run.fallbacks] == ["Cast", "Cast"]
    assert any(program.kernels for program in run.programs)


def test_the_models_own_errors_stay_errors():
    nowhere = model_of([*host("x", "h"), node("Add", ["h", "z"], ["y"])], ROW, {"y": (FLOAT, None)})
    with pytest.raises(stepwell.ModelError, match="reads 'z'"):
        stepwell.compile(nowhere, threads=1, options=QUIET)(rows(2))


@pytest.mark.parametrize("outputs", [("y", "nothing"), ("nothing",)])
def test_negative_outputs_that_nothing_makes(outputs):
    model = model_of(host("x", "y"), {"x": (FLOAT, [2, 4])}, dict.fromkeys(outputs, (FLOAT, None)))
    with pytest.raises(stepwell.ModelError, match=r"'nothing'.*which no input, weight or node provides"):
        stepwell.compile(model, threads=1, options=QUIET)


def test_negative_nodes_out_of_order_around_one_on_the_host():
    nodes = [node("Neg", ["late"], ["y"]), *host("y", "z"), node("Neg", ["z"], ["late"])]
    with pytest.raises((stepwell.ModelError, stepwell.RuntimeFailure), match="late"):
        stepwell.compile(model_of(nodes, ROW, {"y": (FLOAT, None)}), threads=1, options=QUIET)(rows(2))


def test_memory_that_is_not_there_is_an_error_that_names_the_node():
    model = model_of(host("x", "y"), {"x": (FLOAT, [2, 4])}, {"y": (FLOAT, None)})
    step = HostNode(model.SerializeToString(), "node 'n' (Cast)")
    step.check()
    step._idle[0].run = lambda *_: np.empty(1 << 60, np.int8)
    with pytest.raises(stepwell.CapacityError, match=r"node 'n' \(Cast\) needs more memory than is available"):
        step.run({"x": rows(2)})


def test_nodes_that_can_run_nowhere_are_refused_by_name():
    unheard = [helper.make_node("Unheard", ["x"], [name], name=name, domain="else.where") for name in "ab"]
    model = model_of([*unheard, node("Add", ["a", "b"], ["y"])], {"x": (FLOAT, [2, 4])}, {"y": (FLOAT, None)})
    model.opset_import.append(helper.make_opsetid("else.where", 1))
    with pytest.raises(UnsupportedError, match=r"neither be compiled nor run on the host: node 'a' .*; node 'b'"):
        stepwell.compile(model, threads=1)


def strings():
    """A model that ends in two nodes on the host."""
    return model_of([node("Neg", ["x"], ["n"]), *host("n", "y")], {"x": (FLOAT, [2, 4])}, {"y": (FLOAT, None)})


def test_fallbacks_are_reported_or_refused():
    with pytest.warns(
        stepwell.FallbackWarning, match=r"2 of 3 nodes run on the host, which is slow: Cast of opset 21 \(2\)"
    ):
        run = stepwell.compile(strings(), threads=1)
    first, second = run.fallbacks
    assert (first.node, first.kind, first.dtypes, first.shapes) == ("Cast_y_text", "type", ("float32",), ((2, 4),))
    assert "'y_text' is a string" in second.reason
    np.testing.assert_allclose(run(rows(2)), -rows(2), rtol=1e-6)
    share = run.share_on_host
    assert (share.host_ops, share.ops) == (2, 3)
    assert 0 < share.host_seconds <= share.seconds
    with pytest.raises(
        UnsupportedError, match="2 nodes cannot be compiled, and none may run on the host: node 'Cast_y_text'"
    ) as caught:
        stepwell.compile(strings(), threads=1, options=stepwell.Options(fallback="error"))
    failure = caught.value.failure
    assert failure is not None
    assert [(op.name, op.op_type) for op in failure.ops] == [(item.node, item.op_type) for item in run.fallbacks]
    assert (failure.phase, failure.target) == ("import", "cpu") and first.reason in failure.reason
    with pytest.raises(ValueError, match="fallback is 'never'"):
        stepwell.compile(strings(), options=stepwell.Options(fallback="never"))


def test_artefacts_run_in_steps(tmp_path):
    model = model_of([*host("x", "h"), node("Exp", ["h"], ["e"]), *host("e", "y")], ROW, {"y": (FLOAT, None)})
    run = stepwell.compile(model, threads=1, options=QUIET)
    expected = run(rows(2))
    run.save(tmp_path / "steps.stw", keep_model=False)
    loaded = stepwell.load(tmp_path / "steps.stw", threads=1)
    np.testing.assert_array_equal(loaded(rows(2)), expected)
    assert loaded.fallbacks == run.fallbacks
    with pytest.raises(stepwell.ShapeError, match="there is no code for h=3x4"):
        loaded(rows(3))
    run.save(tmp_path / "whole.stw", keep_model=True)
    np.testing.assert_array_equal(stepwell.load(tmp_path / "whole.stw", threads=1)(rows(3)), run(rows(3)))


def test_another_process_takes_steps_from_the_cache(monkeypatch):
    model = model_of([node("Neg", ["x"], ["n"]), *host("n", "h"), node("Exp", ["h"], ["y"])], ROW, {"y": (FLOAT, None)})
    expected = stepwell.compile(model, threads=1, options=QUIET)(rows(2))
    monkeypatch.setattr("stepwell.driver.compile.compilation.Compilation.program", None)
    np.testing.assert_array_equal(stepwell.compile(model, threads=1, options=QUIET)(rows(2)), expected)


@pytest.mark.parametrize("sizes", [[4, 3], ["n", 3]])
def test_nodes_that_nothing_needs_need_no_code(sizes):
    """Models whose outputs were cut keep the nodes behind them, even nodes without any implementation."""
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("Compress", ["x", "which"], ["left"]),
        node("Cast", ["left"], ["text"], to=STRING),
        helper.make_node("Unheard", ["text"], ["z"], domain="of.nowhere"),
    ]
    model = model_of(nodes, {"x": (FLOAT, sizes), "which": (TensorProto.BOOL, [4])}, {"y": (FLOAT, sizes)})
    assert not stepwell.check(model).findings
    run = stepwell.compile(model, threads=1, options=stepwell.Options(fallback="error"))
    x = np.arange(-6, 6, dtype=F32).reshape(4, 3)
    np.testing.assert_array_equal(run(x, np.ones(4, bool)), np.maximum(x, 0))
