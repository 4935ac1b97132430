"""`stepwell-lower-vectors`: vector ops of any rank become those that have an instruction."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects.transform import interpreter

from ...passes.base import Pass, register
from ...passes.rewriting import walk

# Contractions first, as outer products: their operands are then rows, which the second group reads from memory one by
# one (sink_mem_ops makes a broadcast of a loaded scalar, one instruction, out of the extraction from a loaded vector).
_SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %functions = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.lower_contraction lowering_strategy = outerproduct
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = innerreduction
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.transfer_to_scf max_transfer_rank = 1 full_unroll = true
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.lower_transpose lowering_strategy = shuffle_1d
      transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
      transform.apply_patterns.vector.lower_shape_cast
      transform.apply_patterns.vector.sink_mem_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.yield
  }
}
"""
_FLOAT_OPS = frozenset({"arith.addf", "arith.mulf", "arith.subf"})


@register
@dataclass(frozen=True)
class LowerVectorsPass(Pass):
    """Lower contractions, reductions, transfers, transposes and shape casts to vectors of one dimension.

        vector.contract ... vector<6x1xf32>, vector<1x16xf32> into vector<6x16xf32>
        --> vector.fma %row, %column, %accumulator : vector<16xf32>, six times

    Products and sums may become one instruction without the rounding between them (`fastmath<contract>`).

    Preconditions: bufferised.
    """

    name = "stepwell-lower-vectors"

    def run(self, op: ir.Operation) -> None:
        """Rewrites every function."""
        contract = ir.Attribute.parse("#arith.fastmath<contract>")
        for inner in walk(op):
            if inner.name in _FLOAT_OPS and str(inner.attributes["fastmath"]) == "#arith.fastmath<none>":
                inner.attributes["fastmath"] = contract
        script = ir.Module.parse(_SCRIPT)
        interpreter.apply_named_sequence(op, script.body.operations[0], script.operation)
