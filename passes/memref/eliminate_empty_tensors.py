"""`stepwell-eliminate-empty-tensors`: computes temporaries directly in their final destinations."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import functions_with_bodies
from ..ir.named_ops import ops_named

# The inserted tensor is the first operand.
_INSERTIONS = frozenset(
    {"tensor.insert_slice", "tensor.parallel_insert_slice", "bufferization.materialize_in_destination"}
)


@register
@dataclass(frozen=True)
class EliminateEmptyTensorsPass(Pass):
    """Compute a `tensor.empty` in place if it is inserted into a tensor later: upstream's pass, run selectively.

    Upstream's pass analyses a function as thoroughly as bufferisation does, even if it has no such empty tensor.

        %0 = tensor.empty() : tensor<4xf32>
        %1 = linalg.fill ... outs(%0 : tensor<4xf32>)
        %2 = tensor.insert_slice %1 into %out[0] [4] [1]
        -->
        %0 = tensor.extract_slice %out[0] [4] [1]
        %1 = linalg.fill ... outs(%0 : tensor<4xf32>)
        %2 = tensor.insert_slice %1 into %out[0] [4] [1]
    """

    name = "stepwell-eliminate-empty-tensors"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the functions of a module."""
        concerned = [
            function for function in functions_with_bodies(op) if any(map(_may_be_eliminated, _empty_tensors(function)))
        ]
        for function in concerned:
            state.pipelines.run("func.func(eliminate-empty-tensors)", function)


def _empty_tensors(function: ir.Operation) -> list[ir.Operation]:
    return ops_named(function, "tensor.empty")


def _may_be_eliminated(empty: ir.Operation) -> bool:
    """Returns whether a tensor computed into an empty one may be inserted as a whole somewhere; parts do not count."""
    pending, seen = list(empty.results), set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.owner.operation
            if user.name in _INSERTIONS and use.operand_number == 0:
                return True
            if user.name != "tensor.extract_slice":
                pending += _follow(user)
    return False


def _follow(user: ir.Operation) -> list[ir.Value]:
    """The tensors that an operand of `user` may become: its results, or those of the loop or branch that it ends."""
    holders = [user]
    while not len(holders[-1].results) and holders[-1].parent is not None:
        holders.append(holders[-1].parent.operation)
    blocks = [block for holder in holders for region in holder.regions for block in region]
    values = [value for item in (*holders, *blocks) for value in _values(item)]
    return [value for value in values if isinstance(value.type, ir.RankedTensorType)]


def _values(item: ir.Operation | ir.Block) -> list[ir.Value]:
    return list(item.arguments if isinstance(item, ir.Block) else item.results)
