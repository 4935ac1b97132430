"""Bisection of simulated GPU code: wrong kernels are found, though few passes can be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir
from mlir.dialects import arith
from onnx import TensorProto, helper
from stepwell.driver.sources.reading import read_source
from stepwell.explain.bisect.model import Bisector
from stepwell.explain.bisect.result import Bisection
from stepwell.passes.ir.rewriting import walk
from stepwell.targets.nvidia.launches.emit_launches import EmitLaunchesPass


def bisection() -> Bisection:
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Softmax", ["r"], ["y"], "soft")]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 32]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    values = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    return Bisector(target="cuda:sm_80").bisect(read_source(model), {"x": values})


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")


def test_a_right_model_is_right_at_every_level() -> None:
    found = bisection()
    assert found.fault is None
    assert [level.name for level in found.levels] == ["import", "graph", "kernel", "program"]
    assert all(level.checked for level in found.levels)


def test_a_kernel_emitted_wrongly_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right = EmitLaunchesPass.run

    def run(self: Any, op: Any, state: Any) -> None:
        right(self, op, state)
        for inner in [item for item in walk(op) if item.name == "arith.divf"]:
            with inner.location, ir.InsertionPoint(inner):
                total = arith.AddFOp(*inner.operands)
            inner.results[0].replace_all_uses_with(total.result)
            inner.erase()

    monkeypatch.setattr(EmitLaunchesPass, "run", run)
    fault = bisection().fault
    assert fault is not None
    assert (fault.level, fault.op_type, fault.pass_name) == ("kernel", "stepwell.softmax", "")
    assert "soft" in fault.nodes
    assert "one of the passes for cuda:sm_80" in fault.note
