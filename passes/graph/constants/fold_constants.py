"""The pass `stepwell-fold-constants`: constant folding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.dims import is_known
from ....dialects.registry import view_of
from ....dialects.specs import size_of
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.elementwise import BinaryOp, CastOp, UnaryOp
from ....dialects.stepwell.movement import BroadcastToOp, DynamicBroadcastToOp, DynamicReshapeOp, ReshapeOp, TransposeOp
from ....dialects.stepwell.shape import FillOp, SizesOp
from ....dialects.types import TensorSpec, array_of
from ....runtime.remarks import FOLDED
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.functions import functions_with_bodies
from ...ir.locations import names_in
from ...ir.rewriting import erase_dead_ops, replace_op, walk
from ..shapes.inference import infer_function, input_specs
from ..values import constant, constant_of, dtype_of, splat_constant

WORK_PER_ELEMENT = 64
"""An op is evaluated only if its operands have at most this many times `max_elements` elements."""

_KEEPS_SPLATS = (
    UnaryOp,
    BinaryOp,
    CastOp,
    BroadcastToOp,
    DynamicBroadcastToOp,
    DynamicReshapeOp,
    ReshapeOp,
    TransposeOp,
)


@register
@dataclass(frozen=True)
class FoldConstantsPass(Pass):
    """Replace values computed only from constants by constants.

    The shape of a static tensor is a constant, so a model's shape arithmetic disappears. A splat constant stays compact
    at any size. A branch whose condition is known is inlined.

    ```mlir
    %0 = "stepwell.shape_of"(%x) : (tensor<2x3xf32>) -> tensor<2xi64>
    %1 = "stepwell.gather"(%0, %i) {axis = 0 : i64} : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
    // -->
    %1 = "stepwell.constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
    ```

    Attributes:
        max_elements: maximum number of elements of a result to compute, unless it is a splat.
    """

    name = "stepwell-fold-constants"
    max_elements: int = 1024

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Folds every function with a body."""
        for function in functions_with_bodies(op):
            inference = infer_function(function, input_specs(function))
            for inner in walk(function):
                view = view_of(inner)
                if view is None or isinstance(view, ConstantOp):
                    continue
                specs = [inference.spec(result) for result in inner.results]
                with inner.location, ir.InsertionPoint(inner):
                    values = _sizes(view, specs) or self._fold(view, [spec.value for spec in specs])
                if values is not None:
                    names = names_in(inner.location)
                    state.passed("Fold", names, "computed at compile time", how=FOLDED)
                    replace_op(inner, values)
            erase_dead_ops(function, state)

    def _fold(self, view: Op, known: list[np.ndarray | None]) -> list[ir.Value] | None:
        if all(array is not None and array.dtype != object for array in known):
            return [constant(array) for array in known if array is not None]
        if not view.operation.operands or not all(
            ir.RankedTensorType(result.type).has_static_shape for result in view.operation.results
        ):
            return None
        if all(size_of(result) == 0 for result in view.operation.results):
            return [constant(_empty(result)) for result in view.operation.results]
        operands = {value: _contents(value) for value in view.operation.operands}
        if any(array is None for array in operands.values()):
            return None
        arrays = {value: array for value, array in operands.items() if array is not None}
        return _fold_splat(view, arrays) or self._evaluate(view, arrays)

    def _evaluate(self, view: Op, operands: dict[ir.Value, np.ndarray]) -> list[ir.Value] | None:
        sizes = [size_of(result) for result in view.operation.results]
        work = sum(array.size for array in operands.values())
        if max(sizes) > self.max_elements or work > WORK_PER_ELEMENT * self.max_elements:
            return None
        return [constant(array) for array in view.evaluate(operands.__getitem__)]


def _sizes(view: Op, specs: Sequence[TensorSpec]) -> list[ir.Value] | None:
    """The results of an op that computes expressions over sizes, as `sizes`; None for other ops."""
    if isinstance(view, SizesOp):
        return None
    known = [(spec.symbols, spec.dtype) for spec in specs if spec.symbols is not None]
    if len(known) < len(specs) or not all(is_known(entry) for symbols, _ in known for entry in symbols.flat):
        return None
    return [SizesOp.of_contents(symbols, dtype).result for symbols, dtype in known]


def _contents(value: ir.Value) -> np.ndarray | None:
    """The contents of a value if it is a constant or empty; None otherwise."""
    kind = ir.RankedTensorType(value.type)
    return _empty(value) if kind.has_static_shape and size_of(value) == 0 else constant_of(value)


def _empty(value: ir.Value) -> np.ndarray:
    return np.empty(ir.RankedTensorType(value.type).shape, dtype_of(value))


def _fold_splat(view: Op, operands: dict[ir.Value, np.ndarray]) -> list[ir.Value] | None:
    """The splat that an op computes from splats, evaluated on one element; None for other ops and operands."""
    shape = tuple(ir.RankedTensorType(view.operation.results[0].type).shape)
    if isinstance(view, FillOp):
        return [splat_constant(view.value.flat[0], shape)]
    if not isinstance(view, _KEEPS_SPLATS):
        return None
    if isinstance(view, UnaryOp | BinaryOp | CastOp):
        if not all(_is_splat(value) for value in operands):
            return None
        (element,) = view.evaluate(lambda value: operands[value].reshape(-1)[:1].reshape(()))
        return [splat_constant(element.dtype.type(element), shape)]
    source = view.operation.operands[0]
    return [splat_constant(operands[source].flat[0], shape)] if _is_splat(source) else None


def _is_splat(value: ir.Value) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != ConstantOp.OPERATION_NAME:
        return False
    return ir.DenseElementsAttr(owner.attributes["value"]).is_splat and array_of(owner.attributes["value"]).size > 0
