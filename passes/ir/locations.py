"""Locations of ops that stand for several nodes of the model, and the node names in them.

One rule holds for every op made from several ops: its location lists all their nodes, each once, and the node that
does most of the work comes first. `fused_location` makes such locations, `inherit` gives them to the results of a
rewrite, `dominant` and `names_in` read them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ...dialects.registry import OPS, view_of
from ...dialects.specs import size_of
from .kernel_classes import ANCHOR_ORDER, kernel_class

AGAIN = ".again"
"""Suffix of the names of ops that compute a value of the forward pass a second time, to save memory."""
_WITHOUT_WORK = ("stepwell.constant", "stepwell.parameter")


def names_in(location: ir.Location | None) -> list[str]:
    """The names of the model's nodes in a location, each once; the one that does most of the work comes first."""
    if location is None:
        return []
    if location.is_a_name():
        return [str(location.name_str)]
    if location.is_a_callsite():
        return names_in(location.callee)
    if location.is_a_fused():
        return list(dict.fromkeys(name for part in location.locations for name in names_in(part)))
    return []


def dominant(location: ir.Location | None) -> str:
    """The name of the node that does most of the work at a location; "" if the location has no name."""
    return next(iter(names_in(location)), "")


def is_repeated(location: ir.Location | None) -> bool:
    """Returns whether ops at a location compute values a second time, to save memory; see `AGAIN`."""
    return any(name.endswith(AGAIN) for name in names_in(location))


def heaviest_first(ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The ops in their order, except that the one that does most of the work comes first.

    The class of an op decides first (contractions before reductions before elementwise ops), then its floating-point
    operations, then its position in `ops`.
    """
    if len(ops) < 2:
        return list(ops)
    ranks = [_rank(op) for op in ops]
    best = [op for op, rank in zip(ops, ranks, strict=True) if rank == min(ranks)]
    first = best[0] if len(best) == 1 else max(best, key=_flops)
    return [first, *(op for op in ops if op is not first)]


def fused_location(ops: Sequence[ir.Operation]) -> ir.Location:
    """The location of an op made from several ops: their locations, each once, that of the heaviest op first."""
    parts: dict[ir.Location, None] = {}
    for op in heaviest_first(ops):
        parts.update(dict.fromkeys(_leaves(op.location)))
    return ir.Location.fused(list(parts)) if parts else ops[0].location


def inherit(fresh: Sequence[ir.Operation], replaced: Sequence[ir.Operation]) -> None:
    """Gives the ops that a rewrite made the locations of the ops that it replaced.

    A fresh op takes the locations of the replaced ops with its name and number of elements. It also takes those of the
    replaced ops that match no fresh op. If no replaced op matches it, it takes the locations of all replaced ops.
    Movement ops that a rewrite removes leave no work, and so no name:

        relu@"a", transpose@"b"         --> transpose@"b", relu@"a"
        conv@"c", batch_norm@"n"        --> conv@["c", "n"]
        matmul@"q", softmax@"s"         --> attention@["q", "s"]
        matmul@"m", transpose@"t"       --> matmul@"m"

    Args:
        fresh: ops that the rewrite made; one whose location differs from that of `replaced[0]` keeps its location.
        replaced: the root op of the rewrite and the ops that became dead with it.
    """
    placed = [op for op in fresh if op.location != replaced[0].location]
    known = {name for op in placed for name in names_in(op.location)}
    lost = [op for op in replaced if not known.intersection(names_in(op.location))] or replaced[:1]
    moved = [op for op in fresh if op not in placed]
    kinds = {_kind(op) for op in moved}
    working = [op for op in lost if kernel_class(op) not in (None, "movement")]
    orphans = [op for op in working if _kind(op) not in kinds]
    for op in moved:
        own = [other for other in lost if _kind(other) == _kind(op)]
        op.location = fused_location([*own, *orphans] if own else working or lost[:1])


def left_unread(op: ir.Operation) -> list[ir.Operation]:
    """The ops read only by the unread `op`, directly or through other such ops, except weights and constants."""
    dead = {op.results[0]: op}
    pending = [op]
    while pending:
        for value in pending.pop().operands:
            maker = None if isinstance(value.owner, ir.Block) else value.owner.operation
            if maker is None or maker.name not in OPS or maker.name in _WITHOUT_WORK:
                continue
            readers = (use.owner.operation for result in maker.results for use in result.uses)
            if maker.results[0] not in dead and all(_first_result(reader) in dead for reader in readers):
                dead[maker.results[0]] = maker
                pending.append(maker)
    return list(dead.values())[1:]


def _first_result(op: ir.Operation) -> ir.Value | None:
    return op.results[0] if len(op.results) else None


def _leaves(location: ir.Location) -> list[ir.Location]:
    """The locations that a fused location consists of, without unknown ones."""
    if location.is_a_fused():
        return [leaf for part in location.locations for leaf in _leaves(part)]
    return [] if str(location) == "loc(unknown)" else [location]


def _kind(op: ir.Operation) -> tuple[str, int]:
    kind = op.results[0].type
    is_static = isinstance(kind, ir.RankedTensorType) and kind.has_static_shape
    return op.name, size_of(op.results[0]) if is_static else -1


def _rank(op: ir.Operation) -> int:
    kind = kernel_class(op)
    return ANCHOR_ORDER.index(kind) if kind is not None else len(ANCHOR_ORDER)


def _flops(op: ir.Operation) -> int:
    view = view_of(op)
    values = [*op.operands, *op.results]
    is_static = all(isinstance(item.type, ir.RankedTensorType) and item.type.has_static_shape for item in values)
    return view.flops() if view is not None and is_static else 0
