"""Plans without a compiler: inputs and outputs of steps, ownership of results, and control flow by ONNX's rules."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.runtime.host.fallback import Fallback, read_fallback
from stepwell.runtime.hybrid import control
from stepwell.runtime.hybrid.loaded_plan import LoadedPlan
from stepwell.runtime.hybrid.plan import ExecutionPlan, HostStep, NativeStep, Variant
from stepwell.runtime.program import TensorInfo
from stepwell.support.errors import RuntimeFailure, ShapeError

F32 = np.dtype(np.float32)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def host_step(op_type, inputs, outputs):
    """A node on the host."""
    node = helper.make_node(op_type, inputs, outputs)
    values = [[onnx.ValueInfoProto(name=name) for name in names] for names in (inputs, outputs)]
    model = helper.make_model(helper.make_graph([node], "g", *values), opset_imports=[helper.make_opsetid("", 21)])
    return HostStep(tuple(inputs), tuple(outputs), model.SerializeToString(), Fallback(f"the {op_type}", op_type))


@pytest.fixture
def plan(program):
    """y = program(x), z = -y on the host."""
    made = program()
    subgraph = NativeStep(("x",), ("y", "threads"), (0,), (Variant(("float32",), (made,)),))
    return ExecutionPlan(("x",), ("z", "y", "x"), (subgraph, host_step("Neg", ["y"], ["z"])))


def executable(plan):
    """An executable of a plan."""
    inputs = tuple(TensorInfo(name, F32, ("a", "b")) for name in plan.inputs)
    outputs = tuple(TensorInfo(name, F32, ("a", "b")) for name in plan.outputs)
    return Executable(CompiledModel(inputs, outputs, steps=LoadedPlan(plan, None)), threads=1)


def test_values_go_from_step_to_step(plan, reference):
    run = executable(plan)
    z, y, x = run(X)
    np.testing.assert_array_equal(y, reference(X))
    np.testing.assert_array_equal(z, -reference(X))
    np.testing.assert_array_equal(x, X)
    assert not any(np.shares_memory(one, other) for one, other in ((x, X), (z, y), (y, X)))
    assert [found.node for found in run.fallbacks] == ["the Neg"]
    assert len(run.programs) == 1
    assert run.peak_bytes == 24
    with pytest.raises(ShapeError, match="there is no code for x=1x3"):
        run(X[:1])


def test_calls_from_many_threads_do_not_mix(plan, reference):
    run, wrong = executable(plan), []

    def call(number):
        for _ in range(20):
            z, *_ = run(X + number)
            if not np.array_equal(z, -reference(X + number)):
                wrong.append(number)

    workers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert 0 < run.share_on_host.host_seconds < run.share_on_host.seconds


def test_an_output_given_twice_is_two_arrays():
    run = executable(ExecutionPlan(("x",), ("y", "y"), (host_step("Identity", ["x"], ["y"]),)))
    first, second = run(X)
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, X)


def test_a_node_that_fails_is_named():
    run = executable(ExecutionPlan(("x", "w"), ("y",), (host_step("MatMul", ["x", "w"], ["y"]),)))
    with pytest.raises(RuntimeFailure, match=r"node 'the MatMul' .* failed on the host"):
        run(X, X)


def test_plans_for_two_targets_are_one(plan, program):
    subgraph, node = plan.steps
    other = replace(plan, steps=(replace(subgraph, variants=(Variant(("float32",), (program(4, 5),)),)), node))
    merged = plan.merged(other).steps[0]
    assert [made.input_shapes for made in merged.variants[0].programs] == [((2, 3),), ((4, 5),)]


def test_records_of_nodes_survive_json():
    found = Fallback("n", "Foo", "own", 3, "why", "help", "type", ("float32", ""), ((1, "n"), None))
    assert read_fallback(found.record()) == found
    assert str(found) == "node 'n' (own.Foo of opset 3 on float32[1, n], ?[...]): why; help"


@given(st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_loops(limit, stop, starts):
    def body(values):
        count, _, total = values
        return [np.array(count + 1 < stop), total + count, total]

    stacks = [control.Stacked("int64", ())]
    total, seen = control.loop(np.array(limit), np.array(starts), [np.array(0)], stacks, body)
    rounds = 0 if not starts else min(limit, max(stop, 1))
    assert total == sum(range(rounds))
    np.testing.assert_array_equal(seen, [sum(range(count)) for count in range(rounds)])


@given(st.integers(1, 4), st.integers(0, 1), st.booleans(), st.booleans())
def test_scans(length, axis, backwards, reversed_stack):
    data = np.arange(2 * length).reshape((2, length) if axis else (length, 2))
    stacks = [control.Stacked("int64", (2,), axis, reversed_stack)]
    slicing = [control.Sliced(axis, backwards)]
    last, stacked = control.scan([np.zeros(2, int)], [data], slicing, stacks, lambda values: [sum(values), sum(values)])
    np.testing.assert_array_equal(last, data.sum(axis=axis))
    taken = np.flip(data, axis) if backwards else data
    sums = np.cumsum(taken, axis=axis)
    np.testing.assert_array_equal(stacked, np.flip(sums, axis) if reversed_stack else sums)
