"""Moves the last tile of a loop back if it overhangs the bounds, so that every tile has the same static size."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import affine

from ...passes.infra.base import PassError
from ...passes.infra.upstream import PreparedPipelines
from ...passes.ir.named_ops import ops_named
from ...passes.ir.values import constant_index, integer_of
from ..builders.linear_forms import linear_form

_CLEAN_UP = "func.func(canonicalize,cse)"
_VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape")
_BOUNDS = 3  # number of operands of a loop before its iteration arguments


def clamp_tiles(kernel: ir.Operation, pipelines: PreparedPipelines, fills_sink: bool = False) -> None:
    """Makes the last tile of a loop overlap the one before it if it would overhang.

    Some results are then computed twice, to the same values: a kernel's linalg ops read nothing that they write.

    Args:
        kernel: the function.
        pipelines: runs MLIR's passes.
        fills_sink: whether `sink_fills` runs next, so that sums that start outside of a loop will start in it.

    Raises:
        PassError: a schedule lets overlapping tiles add to sums that start outside of the loop.

        scf.for %i = %c0 to %c41 step %c14 {
          %size = affine.min (41 - %i, 14)
          ... [%i] [%size] ...
        // -->
        scf.for %i = %c0 to %c41 step %c14 {
          %start = affine.min (%i, 27)
          ... [%start] [14] ...
    """
    pipelines.run(_CLEAN_UP, kernel)
    # The bounds of inner loops become constants only when outer tiles have static sizes.
    while sum(_clamp_loop(loop, fills_sink) for loop in ops_named(kernel, "scf.for", "scf.forall")):
        pipelines.run(_CLEAN_UP, kernel)


def _clamp_loop(op: ir.Operation, fills_sink: bool) -> bool:
    """Clamps the tiles of one loop; returns whether there were any to clamp."""
    if op.name == "scf.for":
        lower, upper, step = (integer_of(value) for value in list(op.operands)[:3])
        if lower is None or upper is None or step is None:
            return False
        body = op.regions[0].blocks[0]
        return _clamp(body.arguments[0], body, fills_sink, lower, upper, step)
    names = ("staticLowerBound", "staticUpperBound", "staticStep")
    bounds = [ir.DenseI64ArrayAttr(op.attributes[name]) for name in names]
    block = op.regions[0].blocks[0]
    tiles = zip(block.arguments, *bounds, strict=False)
    return sum(_clamp(index, block, fills_sink, *entry) for index, *entry in tiles) > 0


def _clamp(index: ir.Value, body: ir.Block, fills_sink: bool, lower: int, upper: int, step: int) -> bool:
    sizes = [use.owner.operation for use in index.uses if use.owner.operation.name == "affine.min"]
    sizes = [op for op in sizes if _is_rest(op, index, upper, step)]
    if lower != 0 or not sizes:
        return False
    if upper % step and not fills_sink and any(map(_is_summed_up, body.arguments)):
        raise PassError(
            f"tiles of {step} of {upper} overlap and would be added twice: tile by a divisor, or with the linalg.fill",
            body.owner.location,
        )
    with index.context, body.owner.location, ir.InsertionPoint.at_block_begin(body):
        full = constant_index(step)
        start = index if upper % step == 0 else _at_most(index, upper - step)
    for op in sizes:
        op.results[0].replace_all_uses_with(full)
        op.erase()
    if start != index:
        index.replace_all_uses_except(start, start.owner.operation)
    return True


def _is_summed_up(value: ir.Value) -> bool:
    """Returns whether an op accumulates into a tensor that a loop carries, or into a slice of it."""
    if not isinstance(value.type, ir.RankedTensorType):
        return False
    for use in value.uses:
        op = use.owner.operation
        if op.name in _VIEWS:
            summed = use.operand_number == 0 and _is_summed_up(op.results[0])
        elif op.name == "scf.for":
            summed = use.operand_number >= _BOUNDS and _is_summed_up(
                op.regions[0].blocks[0].arguments[use.operand_number - _BOUNDS + 1]
            )
        else:
            is_op = op.name.startswith("linalg.") and op.name not in ("linalg.fill", "linalg.yield")
            summed = is_op and len(list(op.regions[0].blocks[0].arguments[use.operand_number].uses)) > 0
        if summed:
            return True
    return False


def _at_most(index: ir.Value, last: int) -> ir.Value:
    bounds = ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_constant(last)])
    return affine.AffineMinOp(ir.AffineMapAttr.get(bounds), [index]).result


def _is_rest(minimum: ir.Operation, index: ir.Value, upper: int, step: int) -> bool:
    """Returns whether `minimum` is min(upper - index, step), `upper` being a constant in its map or an operand."""
    bounds = ir.AffineMapAttr(minimum.attributes["map"]).value
    if bounds.n_symbols:
        return False
    places = {}
    for position, operand in enumerate(minimum.operands):
        number = integer_of(operand)
        places[position] = operand if number is None else number
    return {linear_form(expr, places) for expr in bounds.results} == {(upper, ((index, -1),)), (step, ())}
