"""The lowering of `example.shrink`: one element of its result, so that it fuses like other elementwise ops."""

import numpy as np
from mlir import ir
from mlir.dialects import arith
from shrink_op import ShrinkOp
from stepwell.dialects.core import Op
from stepwell.lowering.builders.scalars import number
from stepwell.lowering.stepwell_to_linalg.elementwise import SCALAR


@SCALAR.attach(ShrinkOp)
def shrink(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    """min(x + by, 0) + max(x - by, 0)"""
    by, zero = number(op.attribute_values()["by"], value.type), number(0, value.type)
    negative = arith.minimumf(arith.addf(value, by), zero)
    return arith.addf(negative, arith.maximumf(arith.subf(value, by), zero))
