"""The declarative op layer: an op is a class, and everything else about the op comes from that class.

    class SoftmaxOp(Op):
        \"\"\"Softmax along `axis`.\"\"\"

        OPERATION_NAME = "stepwell.softmax"
        input = operand()
        axis = attribute(int, default=-1)
        result = result()

        @staticmethod
        def infer(input: TensorSpec, *, axis: int) -> TensorSpec: ...

        @staticmethod
        def reference(input: np.ndarray, *, axis: int) -> np.ndarray: ...

The fields give the IRDL definition, the accessors and the builder `SoftmaxOp(x, axis=1)`, which infers its result
types. `infer` gives verification and shape inference; `reference` gives constant folding and the interpreter.
`infer` and `reference` take operands by position (an absent optional one as None) and attributes by keyword. `infer`
raises OpError if the op is invalid. Fields are declared in the order in which MLIR stores them.

The number of operands of an op is fixed: IRDL requires all values of a variadic group to have the same type, which the
operands of a concat do not have.
"""

from __future__ import annotations

from .attributes import AttributeField, OpError, attribute
from .dialect import DIALECTS, OPS, Dialect
from .fields import OperandField, ResultField, operand, optional_operand, result
from .op import Op
from .specs import check_extents, spec_of
from .traits import KernelTraits, Rounding

__all__ = [
    "DIALECTS",
    "OPS",
    "AttributeField",
    "Dialect",
    "KernelTraits",
    "Op",
    "OpError",
    "OperandField",
    "ResultField",
    "Rounding",
    "attribute",
    "check_extents",
    "operand",
    "optional_operand",
    "result",
    "spec_of",
]
