"""Snapshots of models at concrete sizes."""

from __future__ import annotations

from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.passes.graph.bounded.snapshot import Snapshot

MODULE = """
func.func @main(%x: index, %y: index) -> i1 {{
  %0 = arith.cmpi {predicate}, %x, %y : index
  return %0 : i1
}}
"""


def test_snapshots_tell_attributes_of_other_dialects_apart() -> None:
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        modules = [ir.Module.parse(MODULE.format(predicate=name)) for name in ("slt", "slt", "sgt")]
        first, same, other = (Snapshot.of(module, {"n": 4}).ops[0].attributes for module in modules)
    assert first == same != other
