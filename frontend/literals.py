"""Constants and weights in an imported module."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mlir import ir
from mlir.dialects import func

from ..dialects.stepwell.constant import ConstantOp, ParameterOp
from ..passes.ir.named_ops import ops_named

_LITERALS = (ConstantOp.OPERATION_NAME, ParameterOp.OPERATION_NAME)


def is_literal(value: ir.Value) -> bool:
    """Returns whether a value is a constant or a weight."""
    return not isinstance(value.owner, ir.Block) and value.owner.name in _LITERALS


def read_parameters(main: func.FuncOp, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Erases the constants and weights that nothing reads, which folding leaves behind; returns the other weights."""
    _sweep(main.operation)
    read = {ParameterOp(op).name for op in ops_named(main, ParameterOp.OPERATION_NAME)}
    return {name: array for name, array in parameters.items() if name in read}


def _sweep(op: ir.Operation) -> None:
    for region in op.regions:
        for block in region:
            for inner in reversed([item.operation for item in block.operations]):
                _sweep(inner)
                if inner.name in _LITERALS and next(iter(inner.results[0].uses), None) is None:
                    inner.erase()
