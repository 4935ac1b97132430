"""Control flow on the host with compiled bodies: trip counts known only at run time, and values that grow."""

from dataclasses import replace

import numpy as np
import pytest
import stepwell
from onnx import helper, numpy_helper
from stepwell.runtime.hybrid.loaded_plan import LoadedPlan
from stepwell.runtime.hybrid.plan import ControlStep

from .graphs import BOOL, FLOAT, INT64, QUIET, STRING, node, through_text, value

F32 = np.float32


pytestmark = pytest.mark.usefixtures("own_cache")


def compiled(nodes, inputs, outputs, constants=(), options=QUIET):
    """Compiles a model of nodes."""
    weights = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return stepwell.compile(model, threads=1, options=options)


def control_steps(run):
    """Returns the control-flow steps that run on the host."""
    steps = run._code.steps
    assert isinstance(steps, LoadedPlan)
    return [step for step in steps.plan.steps if isinstance(step, ControlStep)]


def counting_loop(limit):
    """Adds w to x in each round, until the sum is 10 or more; stacks the sums."""
    body = helper.make_graph(
        [
            *through_text("a", "t"),
            node("Add", ["t", "w"], ["b"]),
            node("ReduceMax", ["b"], ["m"], keepdims=0),
            node("Less", ["m", "ten"], ["on"]),
            node("Identity", ["b"], ["stacked"]),
        ],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), value("a", FLOAT, [2])],
        [value("on", BOOL, []), value("b", FLOAT, [2]), value("stacked", FLOAT, [2])],
    )
    return node("Loop", [limit, "yes", "x"], ["last", "sums"], body=body)


@pytest.mark.parametrize("most", [0, 2, 100])
@pytest.mark.parametrize("where", ["input", "constant"])
def test_rounds_that_a_run_counts(most, where):
    constants = {"w": np.array([1, 4], F32), "ten": np.array(10, F32), "yes": np.array(True)}
    inputs = [value("x", FLOAT, [2])]
    if where == "constant":
        constants["n"] = np.array(most)
    else:
        inputs.append(value("n", INT64, []))
    run = compiled([counting_loop("n")], inputs, [value("last", FLOAT), value("sums", FLOAT)], constants)
    x = np.zeros(2, F32)
    last, sums = run(x) if where == "constant" else run(x, np.array(most))
    rounds = min(most, 3)
    np.testing.assert_array_equal(last, constants["w"] * rounds)
    assert sums.shape == (rounds, 2)
    assert sums.dtype == F32
    np.testing.assert_array_equal(sums, [constants["w"] * (k + 1) for k in range(rounds)] if rounds else sums)
    (step,) = control_steps(run)
    assert step.operator == "Loop"
    assert most == 0 or any(program.inputs for program in run.programs)


def test_values_that_grow_from_round_to_round(tmp_path):
    body = helper.make_graph(
        [node("Concat", ["a", "w"], ["b"], axis=0), node("Identity", ["c"], ["on"])],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), value("a", FLOAT)],
        [value("on", BOOL, []), value("b", FLOAT)],
    )
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body), node("Exp", ["y"], ["z"])]
    weights = {"w": np.array([2], F32)}
    run = compiled(nodes, [value("x", FLOAT, [1]), value("n", INT64, [])], [value("z", FLOAT)], weights)
    for rounds in (3, 1):
        np.testing.assert_allclose(run(np.zeros(1, F32), np.array(rounds)), np.exp([0, *[2] * rounds]), rtol=1e-6)
    run.save(tmp_path / "loop.stw")
    loaded = stepwell.load(tmp_path / "loop.stw", threads=1)
    np.testing.assert_array_equal(loaded(np.zeros(1, F32), np.array(3)), run(np.zeros(1, F32), np.array(3)))


def test_loops_over_sequences():
    body = helper.make_graph(
        [node("Add", ["x", "w"], ["s"]), node("SequenceInsert", ["a", "s"], ["b"]), node("Identity", ["c"], ["on"])],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), helper.make_tensor_sequence_value_info("a", FLOAT, None)],
        [value("on", BOOL, []), helper.make_tensor_sequence_value_info("b", FLOAT, None)],
    )
    nodes = [node("SequenceEmpty", [], ["e"]), node("Loop", ["n", "", "e"], ["y"], body=body)]
    outputs = [helper.make_tensor_sequence_value_info("y", FLOAT, None)]
    run = compiled(nodes, [value("x", FLOAT, [2]), value("n", INT64, [])], outputs, {"w": np.ones(2, F32)})
    found = run(np.zeros(2, F32), np.array(2))
    assert [item.tolist() for item in found] == [[1, 1], [1, 1]]
    assert run(np.zeros(2, F32), np.array(0)) == []


def test_scans_along_any_axis_and_backwards():
    body = helper.make_graph(
        [*through_text("a", "t"), node("Add", ["t", "p"], ["b"]), node("Mul", ["b", "q"], ["c"])],
        "body",
        [value("a", FLOAT, [2]), value("p", FLOAT, [2]), value("q", FLOAT, [2])],
        [value("b", FLOAT, [2]), value("c", FLOAT, [2])],
    )
    scan = node(
        "Scan",
        ["x", "u", "v"],
        ["last", "y"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[1, 0],
        scan_input_directions=[0, 1],
        scan_output_axes=[1],
        scan_output_directions=[1],
    )
    inputs = [value("x", FLOAT, [2]), value("u", FLOAT, [2, 3]), value("v", FLOAT, [3, 2])]
    run = compiled([scan], inputs, [value("last", FLOAT), value("y", FLOAT)])
    u, v = np.arange(6, dtype=F32).reshape(2, 3), np.arange(6, dtype=F32).reshape(3, 2) + 1
    last, y = run(np.zeros(2, F32), u, v)
    sums = np.cumsum(u, axis=1)
    np.testing.assert_array_equal(last, sums[:, -1])
    np.testing.assert_array_equal(y, (sums * v[::-1].T)[:, ::-1])


@pytest.mark.parametrize("flag", [True, False])
def test_branches_of_different_ranks_and_types(flag):
    one = helper.make_graph([node("Unsqueeze", ["x", "zero"], ["p"])], "t", [], [value("p", FLOAT)])
    two = helper.make_graph([node("Neg", ["x"], ["q"])], "e", [], [value("q", FLOAT)])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "none"], ["c"]),
        node("If", ["c"], ["r"], then_branch=one, else_branch=two),
        node("Exp", ["r"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "none": np.array(0, F32)}
    run = compiled(nodes, [value("x", FLOAT, [40])], [value("y", FLOAT)], constants)
    x = np.full(40, 1 if flag else -1, F32)
    np.testing.assert_allclose(run(x), np.exp(x[None] if flag else -x), rtol=1e-6)


def test_too_many_sizes_are_not_compiled_for(monkeypatch):
    monkeypatch.setattr("stepwell.runtime.specialization.specialization.MANY_SHAPES", 2)
    nodes = [
        *through_text("x", "t"),
        node("Unique", ["t"], ["u"]),
        node("Exp", ["u"], ["e"]),
        node("Neg", ["e"], ["y"]),
    ]
    alone = replace(QUIET, ranges=False)
    run = compiled(nodes, [value("x", FLOAT, [6])], [value("y", FLOAT)], options=alone)
    for different in (1, 3, 2, 5, 3):
        x = np.arange(6, dtype=F32) % different
        np.testing.assert_allclose(run(x), -np.exp(np.arange(different, dtype=F32)), rtol=1e-6)
    assert sorted(program.inputs[0].shape for program in run.programs if program.inputs) == [(1,), (3,), (6,)]
    assert {found.op_type for found in run.fallbacks if found.kind == "size"} >= {"Exp", "Neg"}


def test_a_branch_without_a_condition_is_refused():
    branches = [
        helper.make_graph([node("Cast", ["x"], [name], to=STRING)], name, [], [value(name, STRING)]) for name in "te"
    ]
    chosen = node("If", [], ["y"], then_branch=branches[0], else_branch=branches[1])
    with pytest.raises((stepwell.ModelError, stepwell.RuntimeFailure), match="If"):
        compiled([chosen], [value("x", FLOAT, [4])], [value("y", STRING)])(np.ones(4, F32))


def test_a_loop_that_gets_more_than_its_body_takes_is_refused():
    body = helper.make_graph(
        [node("Identity", ["c"], ["on"]), *through_text("a", "b")],
        "body",
        [value("i", INT64, []), value("c", BOOL, []), value("a", FLOAT, [4])],
        [value("on", BOOL, []), value("b", FLOAT, [4])],
    )
    loop = node("Loop", ["n", "", "x", "x"], ["y"], body=body)
    with pytest.raises((stepwell.ModelError, stepwell.RuntimeFailure), match="Loop"):
        compiled([loop], [value("n", INT64, []), value("x", FLOAT, [4])], [value("y", FLOAT)])(
            np.array(2), np.ones(4, F32)
        )
