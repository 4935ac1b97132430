"""Segments of the body of a bufferised kernel, and which of them may run at the same time.

A segment is an op that does work: a parallel loop, or anything else that writes memory. Everything between segments
is cheap and free of effects (views, constants, uniform vectors), or reads memory that no kernel writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from mlir import ir

from ...passes.ir.functions import body_of, dictionaries
from ...passes.ir.named_ops import ops_named
from ...passes.ir.parallel import trip_counts
from ...passes.ir.rewriting import find_ops, walk

_READS = frozenset(
    {"memref.load", "vector.load", "vector.transfer_read", "vector.maskedload", "vector.gather", "vector.expandload"}
)
_WRITES = frozenset(
    {"memref.store", "vector.store", "vector.transfer_write", "vector.maskedstore", "vector.scatter"}
    | {"vector.compressstore"}
)
_VIEWS = frozenset(
    {"memref.cast", "memref.collapse_shape", "memref.expand_shape", "memref.reinterpret_cast", "memref.subview"}
)
# Parts of the workspace do not overlap, so each counts as separate memory; `memref.assume_alignment` does not.
_SOURCES = frozenset({"memref.alloca", "memref.get_global", "memref.view"})
_NO_EFFECT = frozenset({"memref.dim", "memref.prefetch", "memref.assume_alignment", "memref.extract_strided_metadata"})
_HARMLESS = _VIEWS | _SOURCES | _NO_EFFECT
_PURE = ("arith.", "math.")


@dataclass(frozen=True)
class Region:
    """A part of some memory.

    Attributes:
        root: argument or op that the memory comes from.
        view: value that the box is cut out of: the root in some shape; None for all of the root.
        box: first index and extent along each dimension.
    """

    root: ir.Value
    view: ir.Value | None = None
    box: tuple[tuple[int, int], ...] = ()

    def overlaps(self, other: Region) -> bool:
        """Returns whether two regions may have an element in common."""
        if self.root != other.root:
            return False
        if self.view is None or other.view is None or self.view != other.view:
            return True
        return all(
            first < start + extent and start < first + size
            for (first, size), (start, extent) in zip(self.box, other.box, strict=True)
        )


@dataclass
class Segment:
    """Work that one call of the kernel may do without the rest.

    Attributes:
        ops: the op; several ops if the first ones pass values to the last.
        blocks: number of parts that it can be divided into.
        reads: regions that it may read.
        writes: regions that it may write.
    """

    ops: list[ir.Operation]
    blocks: int
    reads: list[Region]
    writes: list[Region]

    @property
    def op(self) -> ir.Operation:
        """The last op."""
        return self.ops[-1]

    def must_follow(self, earlier: Segment) -> bool:
        """Returns whether the order of two segments matters."""
        pairs = [(self.writes, earlier.writes), (self.writes, earlier.reads), (self.reads, earlier.writes)]
        return any(mine.overlaps(other) for left, right in pairs for mine in left for other in right)


def phases_of(kernel: ir.Operation) -> list[list[Segment]] | None:
    """Returns the segments of a kernel in groups: those of one group are independent, and groups run in order.

    Returns:
        The groups; None if the body cannot be divided: several segments use the same memory on the stack, or memory
        that the kernel may write is read between them.
    """
    segments: list[Segment] = []
    constant = _read_only(kernel)
    ops = [item.operation for item in body_of(kernel).operations][:-1]
    while ops:
        op = ops[0]
        reads, writes = _effects(op)
        if op.name == "scf.forall" or (writes and not len(op.results)):
            segments.append(Segment([op], _blocks(op), reads, writes))
        elif writes or len(op.regions) or any(region.root not in constant for region in reads):
            segment = _chain(ops, constant)
            if segment is None:
                return None
            segments.append(segment)
            ops = ops[ops.index(segment.op) :]
        ops = ops[1:]
    if _share_stack(segments):
        return None
    phases: list[list[Segment]] = []
    for segment in segments:
        if not phases or any(segment.must_follow(earlier) for earlier in phases[-1]):
            phases.append([])
        phases[-1].append(segment)
    return phases


def _chain(ops: Sequence[ir.Operation], constant: Sequence[ir.Value]) -> Segment | None:
    """Returns the first op with all ops that need its results; None if other work is in between."""
    chain, results = [ops[0]], list(ops[0].results)
    for op in ops[1:]:
        if any(value in results for inner in (op, *walk(op)) for value in inner.operands):
            chain.append(op)
            results += op.results
    for op in ops[: ops.index(chain[-1])]:
        reads, writes = _effects(op)
        if op not in chain and (writes or len(op.regions) or any(region.root not in constant for region in reads)):
            return None
    effects = [_effects(op) for op in chain]
    reads, writes = ([region for item in effects for region in item[kind]] for kind in (0, 1))
    if not writes or any(op.name == "scf.forall" for op in chain):
        return None
    return Segment(chain, 1, reads, writes)


def _read_only(kernel: ir.Operation) -> list[ir.Value]:
    """Returns memory that is not written while the kernel runs."""
    arguments = body_of(kernel).arguments
    marked = zip(arguments, dictionaries(kernel, "arg_attrs"), strict=True)
    found: list[ir.Value] = [argument for argument, attributes in marked if "llvm.readonly" in attributes]
    return found + [op.results[0] for op in ops_named(kernel, "memref.get_global")]


def _share_stack(segments: Sequence[Segment]) -> bool:
    seen: list[ir.Value] = []
    for segment in segments:
        regions = [*segment.reads, *segment.writes]
        roots = [item.root for item in regions if isinstance(item.root.owner, ir.Operation | ir.OpView)]
        local = [
            root for root in roots if root.owner.name == "memref.alloca" and not _is_inside(root.owner, segment.ops)
        ]
        if any(root in seen for root in local):
            return True
        seen += local
    return False


def _is_inside(op: ir.Operation | ir.OpView, outer: Sequence[ir.Operation]) -> bool:
    parent = op.operation.parent
    while parent is not None and parent.operation not in outer:
        parent = parent.operation.parent
    return parent is not None


def _blocks(op: ir.Operation) -> int:
    return math.prod(trip_counts(op)) if op.name == "scf.forall" else 1


def _effects(op: ir.Operation) -> tuple[list[Region], list[Region]]:
    """Returns the memory that `op` and all ops in it may read and write."""
    # A kernel is mostly arithmetic, and its many memory accesses use few memrefs.
    reads: dict[ir.Value, None] = {}
    writes: dict[ir.Value, None] = {}
    for inner in [op, *find_ops(op, _has_effects)] if _has_effects(op) else find_ops(op, _has_effects):
        name = inner.name
        memory = dict.fromkeys(value for value in inner.operands if isinstance(value.type, ir.MemRefType))
        if name not in _WRITES:
            reads |= memory
        if name not in _READS:
            writes |= memory
    return [*map(region_of, reads)], [*map(region_of, writes)]


def _has_effects(op: ir.Operation) -> bool:
    name = op.name
    return name not in _HARMLESS and not name.startswith(_PURE)


def region_of(value: ir.Value) -> Region:
    """Returns the part of memory that a memref may reach: the box of the first constant subview on the way to it."""
    box: ir.OpView | None = None
    for op in _views(value):
        if op.name == "memref.subview":
            box = op
    if box is None:
        return Region(_root(value))
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(box.operation.attributes[f"static_{name}"]))
        for name in ("offsets", "sizes", "strides")
    )
    if any(ir.ShapedType.is_dynamic_size(number) for number in (*offsets, *sizes, *strides)):
        return Region(_root(value))
    spans = tuple(
        (offset, (size - 1) * stride + 1) for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )
    return Region(_root(value), box.operation.operands[0], spans)


def _views(value: ir.Value) -> Iterator[ir.OpView]:
    """Yields the views that a memref is made by, from the last to the first."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        owner = cast(ir.OpView, value.owner)
        yield owner
        value = owner.operands[0]


def _root(value: ir.Value) -> ir.Value:
    for op in _views(value):
        value = op.operands[0]
    return value
