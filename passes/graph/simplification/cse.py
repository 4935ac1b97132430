"""The pass `stepwell-cse`: common subexpression elimination."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass

from mlir import ir

from ....dialects.registry import OPS
from ....runtime.remarks import SHARED
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.locations import is_repeated, names_in
from ...ir.rewriting import replace_op

_ALSO = {"tensor.extract", "arith.constant"}
_COMMUTATIVE = {f"stepwell.{name}" for name in ("add", "mul", "minimum", "maximum", "equal", "and", "or", "xor")}


@register
@dataclass(frozen=True)
class CsePass(Pass):
    """Compute equal values once: of two ops with the same name, operands and attributes, the second is removed.

    A nested region can reuse values of the regions around it, but not the other way round. Operands of commutative ops
    may be in either order. Ops that compute a value of the forward pass again, so that it is not kept, stay.

    ```mlir
    %0 = "stepwell.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "stepwell.add"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "stepwell.mul"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // -->
    %0 = "stepwell.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "stepwell.mul"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "stepwell-cse"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Walks forward once with a table of computed values, one scope per region."""
        _share(op, ChainMap(), state)


def _share(op: ir.Operation, seen: ChainMap[Hashable, ir.Operation], state: CompileState) -> None:
    for region in op.regions:
        for block in region:
            scope = seen.new_child()
            for inner in [item.operation for item in block.operations]:
                _share_one(inner, scope, state)


def _share_one(op: ir.Operation, scope: ChainMap[Hashable, ir.Operation], state: CompileState) -> None:
    if op.name not in OPS and op.name not in _ALSO:
        # Values of one function are not visible in another.
        _share(op, ChainMap() if op.name == "func.func" else scope, state)
        return
    first = _lookup(scope, _key(op), op)
    if first is not op:
        names, others = names_in(op.location), names_in(first.location)
        state.passed("Share", names, f"equal to {', '.join(others)}", how=SHARED, into=tuple(others))
        replace_op(op, list(first.results))


def _lookup(scope: MutableMapping[Hashable, ir.Operation], key: Hashable, op: ir.Operation) -> ir.Operation:
    found = scope.get(key)
    if found is None:
        scope[key] = found = op
    return found


def _key(op: ir.Operation) -> Hashable:
    operands = list(op.operands)
    if op.name in _COMMUTATIVE:
        operands.sort(key=hash)
    attributes = tuple((name, op.attributes[name]) for name in op.attributes)
    return op.name, tuple(operands), attributes, tuple(result.type for result in op.results), is_repeated(op.location)
