"""`stepwell-lower-vectors`: lowers vector ops of any rank to those with a machine instruction."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector
from mlir.dialects.transform import interpreter

from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.named_ops import ops_named
from .reversed_reads import read_backwards

# Contractions come first, as outer products: their operands are then rows, which the second group reads from memory one
# by one. sink_mem_ops replaces the extraction from a loaded vector by the broadcast of a loaded scalar, one
# instruction.
_SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.apply_patterns to %root {
      transform.apply_patterns.vector.lower_contraction lowering_strategy = outerproduct
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = innerreduction
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_patterns to %root {
      transform.apply_patterns.vector.transfer_to_scf max_transfer_rank = 1 full_unroll = true
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_patterns to %root {
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
_Transfer = vector.TransferReadOp | vector.TransferWriteOp
_TRANSFERS = frozenset({"vector.transfer_read", "vector.transfer_write"})
_FLOAT_OPS = frozenset({"arith.addf", "arith.mulf", "arith.subf"})


@register
@dataclass(frozen=True)
class LowerVectorsPass(Pass):
    """Lower contractions, reductions, transfers, transposes and shape casts to vectors of one dimension.

        vector.contract ... vector<6x1xf32>, vector<1x16xf32> into vector<6x16xf32>
        --> vector.fma %row, %column, %accumulator : vector<16xf32>, six times

    Transfers from and to memory that is not contiguous become scalar accesses here: upstream would convert them to
    loops, and sink_mem_ops would then move loads that depend on the loop out of it. Gathers of consecutive elements in
    reverse order become loads.

    Products and sums may become one instruction without the rounding between them (`fastmath<contract>`).

    Preconditions: bufferised.
    """

    name = "stepwell-lower-vectors"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every function."""
        exact, contract = (ir.Attribute.parse(f"#arith.fastmath<{flag}>") for flag in ("none", "contract"))
        for inner in ops_named(op, *_FLOAT_OPS, *_TRANSFERS, "vector.gather"):
            if inner.name in _FLOAT_OPS and inner.attributes["fastmath"] == exact:
                inner.attributes["fastmath"] = contract
            elif inner.name in _TRANSFERS and _is_strided(inner):
                _unroll(inner)
            elif inner.name == "vector.gather":
                read_backwards(inner)
        script = ir.Module.parse(_SCRIPT)
        interpreter.apply_named_sequence(op, script.body.operations[0], script.operation)


def _is_strided(transfer: ir.Operation) -> bool:
    """Returns whether a transfer of one dimension, all in bounds, accesses memory that is not contiguous."""
    view = _view(transfer)
    memory = view.base.type
    if not isinstance(memory, ir.MemRefType) or ir.VectorType(_vector(view).type).rank != 1:
        return False
    strides, _ = memory.get_strides_and_offset()
    if strides[-1] == 1:
        return False
    is_last = str(view.permutation_map.value.results[0]) == f"d{len(strides) - 1}"
    is_known = view.mask is None or view.mask.owner.name == "vector.constant_mask"
    is_inside = all(bool(ir.BoolAttr(item).value) for item in view.in_bounds)
    return is_last and is_known and is_inside


def _view(transfer: ir.Operation) -> _Transfer:
    view = transfer.opview
    assert isinstance(view, vector.TransferReadOp | vector.TransferWriteOp)
    return view


def _vector(view: _Transfer) -> ir.Value:
    return view.results[0] if isinstance(view, vector.TransferReadOp) else view.valueToStore


def _unroll(transfer: ir.Operation) -> None:
    """Replaces a transfer by a scalar access per lane."""
    view = _view(transfer)
    kind = ir.VectorType(_vector(view).type)
    lanes = kind.shape[0]
    used = lanes if view.mask is None else ir.DenseI64ArrayAttr(view.mask.owner.attributes["mask_dim_sizes"])[0]
    with transfer.location, ir.InsertionPoint(transfer):
        *outer, first = view.indices
        indices = [arith.addi(first, arith.constant(ir.IndexType.get(), lane)) for lane in range(used)]
        if isinstance(view, vector.TransferReadOp):
            read = [memref.load(view.base, [*outer, index]) for index in indices]
            made = vector.from_elements(kind, [*read, *[view.padding] * (lanes - used)])
            view.results[0].replace_all_uses_with(made)
        else:
            for lane, index in enumerate(indices):
                memref.store(vector.extract(view.valueToStore, [], [lane]), view.base, [*outer, index])
    transfer.erase()
