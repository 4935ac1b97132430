"""Overlapping buffers of a memory plan are found and named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mlir import ir
from stepwell.driver.context import compiler_context
from stepwell.explain.bisect.overlaps import find_overlap
from stepwell.passes.memref import plan_workspaces
from stepwell.passes.memref.plan_memory import PlanMemoryPass
from stepwell.passes.memref.plan_workspaces import PlanWorkspacesPass

MODULE = """
module attributes {stepwell.interface = {}} {
  func.func private @first(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel} {
    return %out : tensor<4xf32>
  }
  func.func private @second(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel} {
    %0 = memref.alloc() : memref<4xf32>
    return %out : tensor<4xf32>
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %d = tensor.empty() : tensor<4xf32>
    %0 = call @first(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %e = tensor.empty() : tensor<4xf32>
    %1 = call @second(%0, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""


def overlap() -> tuple[str, str] | None:
    with compiler_context(), ir.Location.unknown():
        return find_overlap(ir.Module.parse(MODULE).operation, [PlanMemoryPass(), PlanWorkspacesPass()])


def test_a_right_plan_has_none() -> None:
    assert overlap() is None


def test_workspace_over_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    right = plan_workspaces._placed

    def placed(planned: Any, wanted: Any, *, is_movable: bool) -> Any:
        found = right(planned, wanted, is_movable=False)
        return [*planned, *(replace(item, offset=0) for item in found[len(planned) :])]

    monkeypatch.setattr(plan_workspaces, "_placed", placed)
    found = overlap()
    assert found is not None
    assert found[0] == "stepwell-plan-workspaces"
    assert "first" in found[1]
    assert "second.workspace" in found[1]
