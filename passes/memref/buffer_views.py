"""Locations of tensors in memory: buffers, and views of parts of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from ..kernel.views import Box, is_contiguous, kept_dims, row_major

_Range = tuple[int, int]

ALIASES = frozenset(
    {
        "builtin.unrealized_conversion_cast",
        "stepwell.reshape",
        "tensor.bitcast",
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.expand_shape",
        "tensor.reshape",
    }
)
CONSTANTS = frozenset({"arith.constant", "stepwell.constant"})


@dataclass(frozen=True)
class BufferView:
    """The elements of a buffer that form a tensor.

    Attributes:
        offset: index of its first element.
        sizes: extents of its dimensions.
        strides: distance between consecutive indices of each dimension, in elements.
        whole: extents of the tensor that fills the buffer.
        box: for each dimension of `whole`, the first index of the view and the one after the last.
        shifts: pairs of an index known only at run time and its stride in elements; their products add to `offset`.
    """

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    whole: tuple[int, ...]
    box: tuple[_Range, ...]
    shifts: tuple[tuple[ir.Value, int], ...] = ()

    @staticmethod
    def of(shape: Sequence[int]) -> BufferView:
        """The whole buffer as a tensor of `shape`."""
        sizes = tuple(shape)
        return BufferView(0, sizes, tuple(row_major(sizes)), sizes, tuple((0, extent) for extent in sizes))

    @property
    def is_whole(self) -> bool:
        """True if the view is the whole buffer."""
        return not self.shifts and self.box == tuple((0, extent) for extent in self.whole)

    @property
    def is_part(self) -> bool:
        """True if the view is more than a reshape of all or the first elements of the buffer."""
        return self.offset != 0 or bool(self.shifts) or not self.is_contiguous

    @property
    def is_contiguous(self) -> bool:
        """True if its elements are contiguous in row-major order."""
        return is_contiguous(self.sizes, self.strides)

    @property
    def span(self) -> int:
        """The number of elements from its first to its last one."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.sizes, self.strides, strict=True))

    def part(self, box: Box, shape: Sequence[int]) -> BufferView:
        """The box of this view as a tensor of `shape`, which may lack dimensions of size 1."""
        starts, sizes, steps = box
        kept = kept_dims(sizes, shape)
        offset = self.offset + sum(start * stride for start, stride in zip(starts, self.strides, strict=True))
        strides = tuple(self.strides[axis] * steps[axis] for axis in kept)
        return BufferView(offset, tuple(shape), strides, self.whole, self._part_box(box), self.shifts)

    def row(self, index: ir.Value, shape: Sequence[int]) -> BufferView:
        """One index of the first dimension, known only at run time, as a tensor of `shape`.

        Its box is that of this view, since nothing more precise is known.
        """
        kept = kept_dims([1, *self.sizes[1:]], shape)
        strides = tuple(self.strides[axis] for axis in kept)
        return BufferView(
            self.offset, tuple(shape), strides, self.whole, self.box, (*self.shifts, (index, self.strides[0]))
        )

    def reshaped(self, shape: Sequence[int]) -> BufferView:
        """The same elements in another shape; the view must be contiguous."""
        if self.is_whole:
            return BufferView.of(shape)
        sizes = tuple(shape)
        return BufferView(self.offset, sizes, tuple(row_major(sizes)), self.whole, self.box, self.shifts)

    def overlaps(self, other: BufferView) -> bool:
        """Returns whether the two views may share an element."""
        if self.shifts or other.shifts:
            return True
        if self.whole != other.whole:
            return self.offset < other.offset + other.span and other.offset < self.offset + self.span
        pairs = zip(self.box, other.box, strict=True)
        return all(mine[0] < others[1] and others[0] < mine[1] for mine, others in pairs)

    def _part_box(self, box: Box) -> tuple[_Range, ...]:
        if list(self.strides) != row_major(self.whole):
            # The indices in the whole tensor are unknown, so the box of this view is the tightest bound.
            return self.box
        ranges = zip(*box, self.box, strict=True)
        return tuple((low + start, low + start + (size - 1) * step + 1) for start, size, step, (low, _) in ranges)


@dataclass(eq=False)
class Buffer:
    """Memory for one or more tensors.

    Attributes:
        size: size in bytes.
        home: its memory: "arena", "argument" (of `@main`: an input, a parameter or an output) or "constant".
        block: the block that it is local to, as long as nothing outside of it uses the buffer.
        label: name of its producer, for reports.
        node: the model's op whose result it is, for reports.
        index: position of the argument within its group.
        group: "inputs", "outputs" or "parameters", for an argument.
        constant: the op that holds the contents of a constant.
        first: the first step that writes it.
        last: the last step that uses it.
    """

    size: int
    home: str = "arena"
    block: ir.Block | None = None
    label: str = ""
    node: str = ""
    index: int = 0
    group: str = ""
    constant: ir.Operation | None = None
    first: int = -1
    last: int = -1
    merged_into: Buffer | None = field(default=None, repr=False)

    def root(self) -> Buffer:
        """The buffer that this one was merged into, or this one."""
        return self if self.merged_into is None else self.merged_into.root()


@dataclass(frozen=True)
class TensorLocation:
    """The location of a tensor in memory.

    Attributes:
        buffer: its memory.
        view: its part of the buffer.
        since: the step at which it was complete; later writes to its elements belong to another tensor.
    """

    buffer: Buffer
    view: BufferView
    since: int = 0


class Writes:
    """Log of writes to buffers, which detects that a tensor has been overwritten."""

    def __init__(self) -> None:
        self._places: dict[Buffer, list[TensorLocation]] = {}

    def record(self, place: TensorLocation) -> None:
        """Records that all of `place` was written at the step `place.since`."""
        self._places.setdefault(place.buffer, []).append(place)

    def hide(self, place: TensorLocation) -> bool:
        """Returns whether a part of `place` was overwritten after it was complete."""
        later = (other for other in self._places.get(place.buffer, ()) if other.since > place.since)
        return any(other.view.overlaps(place.view) for other in later)


@dataclass(frozen=True)
class BufferCopy:
    """A copy of contents from one buffer to another."""

    source: TensorLocation
    destination: TensorLocation
    kind: ir.Type
