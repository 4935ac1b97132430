"""Patterns that sink transposes until they meet their inverse or an op that they cannot pass.

Each pattern rewrites op(transpose(x, p)) to transpose(op'(x), p'). Transposes only move downwards, so this terminates.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.core import Op
from ....dialects.registry import OPS
from ....dialects.specs import size_of
from ....dialects.stepwell.elementwise import BinaryOp, CastOp, ComparisonOp, LogicalOp, MaskOp, SelectOp, UnaryOp
from ....dialects.stepwell.movement import (
    ConcatOp,
    GatherOp,
    PadOp,
    ResampleOp,
    ReshapeOp,
    ResizeOp,
    ReverseOp,
    SliceOp,
    TileOp,
    TransposeOp,
)
from ....dialects.stepwell.normalization import LayerNormOp, LogSoftmaxOp, RmsNormOp, SoftmaxOp
from ....dialects.stepwell.reduction import ArgmaxOp, ReductionOp
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op, has_one_use
from ..values import is_fixed, rank_of, static_shape

Permutation = tuple[int, ...]


def inverse(permutation: Sequence[int]) -> Permutation:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def transposed(value: ir.Value, permutation: Permutation) -> ir.Value:
    """transpose(value), merged with a transpose before it; `value` itself if the permutation is the identity."""
    if permutation == tuple(range(len(permutation))):
        return value
    inner = defining_op(value, TransposeOp)
    if inner is None:
        return TransposeOp(value, permutation=permutation).result
    return transposed(inner.input, tuple(inner.permutation[axis] for axis in permutation))


def is_free(value: ir.Value, permutation: Permutation) -> bool:
    """Returns whether transposing a value is free: it undoes a transpose, moves no data, or happens at compile time."""
    inner = defining_op(value, TransposeOp)
    if inner is not None:
        return is_free(inner.input, tuple(inner.permutation[axis] for axis in permutation))
    shape = static_shape(value)
    return shape is not None and (_moves_only_units(shape, permutation) or is_fixed(value))


class SinkThroughUnary(Pattern):
    """f(transpose(x, p)) --> transpose(f(x), p)"""

    root = (UnaryOp, CastOp)

    def rewrite(self, op: UnaryOp | CastOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None:
            return None
        return transposed(type(op)(inner.input, **op.attribute_values()).result, inner.permutation)


class SinkThroughElementwise(Pattern):
    """f(transpose(x, p), transpose(y, p)) --> transpose(f(x, y), p)

    Every other operand gets the inverse transpose if that is free. It may also get a transpose that exists for another
    reader, if a reader of the result undoes p and the rewrite removes a transpose; or a new transpose, if all readers
    of the result undo p and it costs at most as much as the rewrite saves.
    """

    root = (BinaryOp, ComparisonOp, LogicalOp, SelectOp, MaskOp, ConcatOp)

    def rewrite(self, op: Op) -> Replacement:
        result = op.operation.results[0]
        rank = rank_of(result)
        operands = list(op.operation.operands)
        transposes = [found for value in operands if (found := defining_op(value, TransposeOp)) is not None]
        # Identity transposes are dropped by another pattern; here they would sink endlessly.
        moving = [(permutation, found.input) for found in transposes if _moves(permutation := found.permutation)]
        # A transpose at compile time is free and stays.
        permutations = {permutation for permutation, value in moving if rank_of(value) == rank and not is_fixed(value)}
        for permutation in sorted(permutations):
            moved = _moved(op, operands, permutation)
            if isinstance(moved, list):
                attributes = op.attribute_values()
                if isinstance(op, ConcatOp):
                    attributes["axis"] = permutation[op.axis % rank]
                return transposed(type(op)(*moved, **attributes).operation.results[0], permutation)
        return Refusal("another operand would have to be transposed instead") if permutations else None


def _moves(permutation: Permutation) -> bool:
    return permutation != tuple(range(len(permutation)))


def _moved(op: Op, operands: list[ir.Value], permutation: Permutation) -> list[ir.Value] | None:
    """The operands with the inverse transpose; None if that costs more than it saves."""
    undo = inverse(permutation)
    costs = 0
    saved: dict[ir.Value, int] = {}
    existing: dict[ir.Value, ir.Value] = {}
    for value in operands:
        shape = static_shape(value)
        if shape is None:
            return None
        if _is_free_aligned(value, shape, undo):
            if defining_op(value, TransposeOp) is not None and has_one_use(value) and not is_fixed(value):
                saved[value] = size_of(value)
        elif (found := _transposed_before(value, undo, op.operation)) is not None:
            existing[value] = found
        else:
            costs += size_of(value)
    # A transpose that stays because it replaces another operand saves nothing.
    saves = sum(size for value, size in saved.items() if value not in existing.values())
    # Terminates, because each rewrite removes one transpose: one before the op and one after it are dropped.
    if existing and not (saves and _has_undoing_reader(op.operation.results[0], undo)):
        return None
    if costs and (costs > saves or not _is_undone(op.operation.results[0], undo)):
        return None

    def moved(value: ir.Value) -> ir.Value:
        if value in existing:
            return existing[value]
        # Scalars need no transpose.
        return _transposed_operand(_aligned(value, len(undo)), undo) if rank_of(value) else value

    return [moved(value) for value in operands]


def _transposed_before(value: ir.Value, permutation: Permutation, op: ir.Operation) -> ir.Value | None:
    """The transpose of a value in the block of `op`, before it; None if there is none."""
    for use in value.uses:
        maker = use.owner.operation
        if maker.name != TransposeOp.OPERATION_NAME or TransposeOp(maker).permutation != permutation:
            continue
        if maker.block == op.block and maker.is_before_in_block(op) and _is_read_as_it_is(maker):
            return maker.results[0]
    return None


def _transposed_operand(value: ir.Value, undo: Permutation) -> ir.Value:
    """transpose(value), as a reshape if that is equivalent, because a transpose would sink again."""
    shape = static_shape(value)
    assert shape is not None
    if defining_op(value, TransposeOp) is None and _moves_only_units(shape, undo):
        return ReshapeOp(value, shape=tuple(shape[axis] for axis in undo)).result
    return transposed(value, undo)


def _moves_only_units(shape: tuple[int, ...], permutation: Permutation) -> bool:
    moving = [axis for axis in permutation if shape[axis] != 1]
    return moving == sorted(moving)


def _is_free_aligned(value: ir.Value, shape: tuple[int, ...], undo: Permutation) -> bool:
    if len(shape) == len(undo):
        return is_free(value, undo)
    return _moves_only_units((1,) * (len(undo) - len(shape)) + shape, undo) or is_fixed(value)


def _aligned(value: ir.Value, rank: int) -> ir.Value:
    """`value` with leading unit dimensions up to a rank."""
    shape = static_shape(value)
    assert shape is not None
    return value if len(shape) == rank else ReshapeOp(value, shape=(1,) * (rank - len(shape)) + shape).result


def _is_undone(value: ir.Value, undo: Permutation) -> bool:
    """Returns whether every reader of `value` is the transpose `undo` with a reader that is not a transpose."""
    readers = [use.owner for use in value.uses]
    return bool(readers) and all(
        reader.name == TransposeOp.OPERATION_NAME
        and TransposeOp(reader.operation).permutation == undo
        and _is_read_as_it_is(reader.operation)
        for reader in readers
    )


def _has_undoing_reader(value: ir.Value, undo: Permutation) -> bool:
    """Returns whether a reader of `value`, or of a unary op on it, is the transpose `undo` and not only transposed."""
    return any(_undoes(use.owner.operation, undo) for use in value.uses)


def _undoes(reader: ir.Operation, undo: Permutation) -> bool:
    if reader.name == TransposeOp.OPERATION_NAME:
        return TransposeOp(reader).permutation == undo and _is_read_as_it_is(reader)
    kind = OPS.get(reader.name)
    return kind is not None and issubclass(kind, UnaryOp) and _has_undoing_reader(reader.results[0], undo)


def _is_read_as_it_is(transpose: ir.Operation) -> bool:
    return any(use.owner.name != TransposeOp.OPERATION_NAME for use in transpose.results[0].uses)


def _is_undone_later(value: ir.Value, undo: Permutation) -> bool:
    """As `_is_undone`, but looks through further gathers and selects, as for the other dimension of an image."""
    if has_one_use(value):
        (use,) = value.uses
        reader = use.owner.operation
        if reader.name == SelectOp.OPERATION_NAME and rank_of(reader.results[0]) == len(undo):
            return _is_undone_later(reader.results[0], undo)
        if reader.name == GatherOp.OPERATION_NAME and use.operand_number == 0 and rank_of(reader.operands[1]) == 1:
            return _is_undone_later(reader.results[0], undo)
    return _is_undone(value, undo)


class SinkThroughMovement(Pattern):
    """slice | pad | tile | reverse | resize (transpose(x, p)) --> transpose(slice | ... (x), p)"""

    root = (SliceOp, PadOp, TileOp, ReverseOp, ResizeOp)

    def rewrite(self, op: SliceOp | PadOp | TileOp | ReverseOp | ResizeOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None or (isinstance(op, ResizeOp) and not has_one_use(op.input)):
            return None
        undo = inverse(inner.permutation)
        attributes = op.attribute_values()
        for name in _PER_AXIS & attributes.keys():
            attributes[name] = tuple(attributes[name][axis] for axis in undo)
        if isinstance(op, ReverseOp):
            attributes["axes"] = tuple(sorted(inner.permutation[axis] for axis in op.axes))
        if isinstance(op, ResizeOp):
            attributes["scales"] = op.scales[list(undo)]
            attributes["layout"] = "channels_last" if inner.permutation[1] == len(undo) - 1 else op.layout
        return transposed(type(op)(inner.input, **attributes).result, inner.permutation)


_PER_AXIS = {"starts", "stops", "steps", "low", "high", "repeats", "sizes"}


class SinkThroughLookup(Pattern):
    """resample(transpose(x, p), axis) --> transpose(resample(x, p[axis]), p), the same for gather with 1-D indices

    A gather only if its readers undo p, because its result may be larger or smaller than its input.
    """

    root = (ResampleOp, GatherOp)

    def rewrite(self, op: ResampleOp | GatherOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None or not has_one_use(op.input):
            return None
        if isinstance(op, GatherOp):
            if rank_of(op.indices) != 1:
                return None
            if not _is_undone_later(op.result, inverse(inner.permutation)):
                return Refusal("the readers of the result do not undo the transpose")
        attributes = op.attribute_values()
        attributes["axis"] = inner.permutation[op.axis % len(inner.permutation)]
        operands = [inner.input, *list(op.operation.operands)[1:]]
        return transposed(type(op)(*operands, **attributes).result, inner.permutation)


class SinkThroughReduction(Pattern):
    """reduce(transpose(x, p), axes) --> transpose(reduce(x, p[axes]), p'), the same for argmax"""

    root = (ReductionOp, ArgmaxOp)

    def rewrite(self, op: ReductionOp | ArgmaxOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None:
            return None
        permutation = inner.permutation
        if isinstance(op, ArgmaxOp):
            axes = (permutation[op.axis % len(permutation)],)
            result = ArgmaxOp(inner.input, axis=axes[0], keepdims=op.keepdims).result
        else:
            axes = tuple(sorted(permutation[axis % len(permutation)] for axis in op.axes))
            result = type(op)(inner.input, axes=axes, keepdims=op.keepdims).result
        if op.keepdims:
            return transposed(result, permutation)
        kept = [axis for axis in range(len(permutation)) if axis not in axes]
        return transposed(result, tuple(kept.index(axis) for axis in permutation if axis not in axes))


class SinkThroughSoftmax(Pattern):
    """softmax(transpose(x, p), axis) --> transpose(softmax(x, p[axis]), p), unless only p makes the axis innermost"""

    root = (SoftmaxOp, LogSoftmaxOp)

    def rewrite(self, op: SoftmaxOp | LogSoftmaxOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None:
            return None
        rank = len(inner.permutation)
        axis = inner.permutation[op.axis % rank]
        if op.axis % rank == rank - 1 and axis != rank - 1:
            return Refusal("the softmax would no longer be along the innermost dimension")
        return transposed(type(op)(inner.input, axis=axis).result, inner.permutation)


class SinkThroughNorm(Pattern):
    """layer_norm(transpose(x, p)) --> transpose(layer_norm(x), p), if p keeps the normalised dimensions in place"""

    root = (LayerNormOp, RmsNormOp)

    def rewrite(self, op: LayerNormOp | RmsNormOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        if inner is None:
            return None
        rank = len(inner.permutation)
        first = op.axis % rank
        if inner.permutation[first:] != tuple(range(first, rank)):
            return Refusal("the normalised dimensions are transposed")
        operands = [inner.input, *op.operand_values()[1:]]
        return transposed(type(op)(*operands, **op.attribute_values()).result, inner.permutation)


PATTERNS: tuple[Pattern, ...] = (
    SinkThroughUnary(),
    SinkThroughElementwise(),
    SinkThroughMovement(),
    SinkThroughLookup(),
    SinkThroughReduction(),
    SinkThroughSoftmax(),
    SinkThroughNorm(),
)


class JoinTransposes(Pattern[TransposeOp]):
    """transpose(f(x), p) and transpose(g(x), p) --> f(y) and g(y), with y = transpose(x, p)

    f and g are functions of single elements. Sinking made two transposes of one, and none was cancelled.
    """

    root = TransposeOp

    def rewrite(self, op: TransposeOp) -> Replacement:
        source, functions = _origin(op.input)
        if not functions or is_fixed(source):
            return None
        others = [found for use in source.uses if (found := _transposed_function(use.owner.operation)) is not None]
        if all(found.operation == op.operation or found.permutation != op.permutation for found in others):
            return None
        moved = transposed(source, op.permutation)
        for function in reversed(functions):
            operands = [moved if value == source else value for value in function.operand_values()]
            source = function.operation.results[0]
            moved = type(function)(*operands, **function.attribute_values()).operation.results[0]
        return moved


def _origin(value: ir.Value) -> tuple[ir.Value, list[Op]]:
    """The value of which another one is a function of single elements, and the ops between them, the last one first.

    The ops have no other readers.
    """
    functions: list[Op] = []
    while not isinstance(value.owner, ir.Block) and _has_one_reader(value):
        function = _elementwise(value.owner.operation)
        if function is None:
            break
        functions.append(function)
        value = _tensors(function)[0]
    return value, functions


def _transposed_function(op: ir.Operation) -> TransposeOp | None:
    """The transpose at the end of the functions of single elements that begin with `op`."""
    while _elementwise(op) is not None and _has_one_reader(op.results[0]):
        op = next(iter(op.results[0].uses)).owner.operation
    return TransposeOp(op) if op.name == TransposeOp.OPERATION_NAME else None


def _elementwise(op: ir.Operation) -> UnaryOp | BinaryOp | CastOp | None:
    """The op if its operands are one tensor, perhaps more than once, and scalars."""
    kind = OPS.get(op.name)
    if kind is None or not issubclass(kind, UnaryOp | BinaryOp | CastOp):
        return None
    made = kind(op)
    tensors = _tensors(made)
    is_one = len(set(tensors)) == 1 and rank_of(tensors[0]) == rank_of(op.results[0])
    return made if is_one and static_shape(tensors[0]) == static_shape(op.results[0]) is not None else None


def _tensors(op: Op) -> list[ir.Value]:
    return [value for value in op.operation.operands if rank_of(value)]


def _has_one_reader(value: ir.Value) -> bool:
    return len({use.owner.operation for use in value.uses}) == 1
