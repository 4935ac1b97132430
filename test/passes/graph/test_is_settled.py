"""Modules for which shape inference has nothing left to do."""

from __future__ import annotations

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.passes.graph.shapes.inference import is_settled
from stepwell.passes.ir.functions import main_function

SETTLED = '%0 = "stepwell.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SETTLED, True),
        ('%0 = "stepwell.relu"(%x) : (tensor<2xf32>) -> tensor<?xf32>', False),
        ("%0 = tensor.cast %x : tensor<2xf32> to tensor<2xf32>", False),
        (f"%c = arith.constant true scf.if %c {{ {SETTLED} }}", False),
    ],
)
def test_static_modules_without_control_flow_are_settled(body, expected):
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.parse(f"func.func @main(%x: tensor<2xf32>) {{ {body} return }}")
        assert is_settled(main_function(module.operation)) is expected
