"""The cost of bounding loops: uses of memory are visited once per loop, however often the loop writes it."""

from __future__ import annotations

import pytest
from mlir import ir
from stepwell.driver.context import compiler_context
from stepwell.lowering.vector_to_llvm import bound_loops
from stepwell.passes.infra.state import CompileState

_WRITES = 12

_KERNEL = f"""
func.func private @kernel(%table: memref<256xi64>, %out: memref<8xf32>)
    attributes {{stepwell.kernel = {{class = "elementwise"}}, stepwell.extents = array<i64: 0>,
                stepwell.table_argument = 0 : i64}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c8 step %c1 {{
    %tile = memref.alloca() : memref<8xf32>
    {"memref.store %zero, %tile[%c0] : memref<8xf32> " * _WRITES}
    %last = memref.load %tile[%c0] : memref<8xf32>
    memref.store %last, %out[%i] : memref<8xf32>
  }}
  return
}}
"""


def test_uses_of_memory_are_looked_at_once_per_loop(monkeypatch: pytest.MonkeyPatch):
    asked: list[ir.Value] = []
    is_local = bound_loops.is_local
    monkeypatch.setattr(bound_loops, "is_local", lambda root, loop: asked.append(root) is None and is_local(root, loop))
    with compiler_context(), ir.Location.unknown():
        module = ir.Module.parse(_KERNEL)
        bound_loops.BoundLoopsPass().run(module.operation, CompileState())
        assert "arith.minsi" in str(module)
    assert len(asked) == 1
