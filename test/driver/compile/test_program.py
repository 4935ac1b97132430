"""Properties that a program reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.lowering.vector_to_llvm import share_out_loops
from stepwell.machines.families import REFERENCE
from stepwell.machines.paces import paces_of

OPSET = [helper.make_opsetid("", 17)]


def chain(*shape: int) -> bytes:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=OPSET, ir_version=8).SerializeToString()


def loop() -> bytes:
    """y = tanh(tanh(... x)); an input is the number of calls."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y", "before", "after")]
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go", "goes")]
    nodes = [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Tanh", ["before"], ["after"])]
    round_ = helper.make_tensor_value_info("round", TensorProto.INT64, [])
    body = helper.make_graph(nodes, "body", [round_, flags[0], ports[2]], [flags[1], ports[3]])
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    graph = helper.make_graph([node], "g", [count, ports[0]], [ports[1]])
    return helper.make_model(graph, opset_imports=OPSET, ir_version=8).SerializeToString()


def test_a_short_program_is_also_short_when_it_was_stored(tmp_path: Path) -> None:
    run = stepwell.compile(chain(4, 10), threads=1)
    x = np.ones((4, 10), np.float32)
    np.testing.assert_allclose(run(x), np.exp(x), rtol=1e-6)
    run.save(tmp_path / "model.stw")
    again = stepwell.load(tmp_path / "model.stw")
    np.testing.assert_allclose(again(x), np.exp(x), rtol=1e-6)
    assert [program.is_short for program in (*run.programs, *again.programs)] == [True, True]


def test_a_long_program_or_one_with_a_loop_is_not_short() -> None:
    large, looping = stepwell.compile(chain(1024, 1024), threads=1), stepwell.compile(loop(), threads=1)
    np.testing.assert_allclose(looping(np.int64(3), np.zeros(4, np.float32)), np.zeros(4))
    assert [program.is_short for program in (*large.programs, *looping.programs)] == [False, False]


def test_workers_are_woken_for_work_that_takes_longer_than_to_wake_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    def reached(phase: str, module: ir.Module, parameters: object) -> None:
        if phase == "llvm":
            found.append("stepwell.is_short" in module.operation.attributes)

    for factor in (1, 1000):
        machine = replace(REFERENCE, wake_ns=factor * REFERENCE.wake_ns)
        monkeypatch.setattr(share_out_loops, "paces_of", lambda _, machine=machine: paces_of(machine))
        stepwell.compile(chain(1024, 1024), threads=1, options={"cache": False, "reached": reached})
    assert found == [False, True]


def test_kernels_in_a_loop_over_images_are_called_for_each() -> None:
    weights = [
        numpy_helper.from_array(np.zeros((64, 3, 3, 3), np.float32), "v"),
        numpy_helper.from_array(np.zeros((16, 64, 1, 1), np.float32), "w"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["wide"], pads=[1] * 4),
        helper.make_node("Conv", ["wide", "w"], ["y"], name="last"),
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (6, channels, 96, 96))
        for name, channels in (("x", 3), ("y", 16))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=OPSET, ir_version=8).SerializeToString()
    run = stepwell.compile(model, options=stepwell.Options(cache=False))
    (last,) = [kernel for kernel in run.programs[0].kernels if kernel.kind == "contraction"]
    assert last.calls * last.flops == 6 * 2 * 64 * 16 * 96 * 96
    assert (last.calls, len(last.sites)) == (6, 1)
