"""Where tensors are: buffers, and parts of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from ..kernel.views import Box, is_contiguous, kept_dims, row_major

Range = tuple[int, int]

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
class View:
    """Elements of a buffer that are a tensor.

    Attributes:
        offset: the element at which it begins.
        sizes: the extents of its dimensions.
        strides: how many elements lie from one index of a dimension to the next.
        whole: the extents of the tensor that fills the buffer.
        box: for each dimension of `whole`, the first index of the view and the one after the last.
        shifts: what is added to `offset` in each run: indices, and how many elements lie from one to the next.
    """

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    whole: tuple[int, ...]
    box: tuple[Range, ...]
    shifts: tuple[tuple[ir.Value, int], ...] = ()

    @staticmethod
    def of(shape: Sequence[int]) -> View:
        """All of a buffer, as a tensor of `shape`."""
        sizes = tuple(shape)
        return View(0, sizes, tuple(row_major(sizes)), sizes, tuple((0, extent) for extent in sizes))

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the buffer."""
        return not self.shifts and self.box == tuple((0, extent) for extent in self.whole)

    @property
    def is_part(self) -> bool:
        """Whether it is more than another shape of all or the first elements of the buffer."""
        return self.offset != 0 or bool(self.shifts) or not self.is_contiguous

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie side by side in row-major order."""
        return is_contiguous(self.sizes, self.strides)

    @property
    def span(self) -> int:
        """The elements from its first to its last one."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.sizes, self.strides, strict=True))

    def part(self, box: Box, shape: Sequence[int]) -> View:
        """The box of this view that is a tensor of `shape`, which may lack dimensions of size 1."""
        starts, sizes, steps = box
        kept = kept_dims(sizes, shape)
        offset = self.offset + sum(start * stride for start, stride in zip(starts, self.strides, strict=True))
        strides = tuple(self.strides[axis] * steps[axis] for axis in kept)
        return View(offset, tuple(shape), strides, self.whole, self._part_box(box), self.shifts)

    def row(self, index: ir.Value, shape: Sequence[int]) -> View:
        """One index of the first dimension, which is known when the program runs, as a tensor of `shape`.

        Of the box nothing is known but that of this view.
        """
        kept = kept_dims([1, *self.sizes[1:]], shape)
        strides = tuple(self.strides[axis] for axis in kept)
        return View(self.offset, tuple(shape), strides, self.whole, self.box, (*self.shifts, (index, self.strides[0])))

    def reshaped(self, shape: Sequence[int]) -> View:
        """The same elements in another shape, of a view that is contiguous."""
        if self.is_whole:
            return View.of(shape)
        sizes = tuple(shape)
        return View(self.offset, sizes, tuple(row_major(sizes)), self.whole, self.box, self.shifts)

    def overlaps(self, other: View) -> bool:
        """Whether some element may be in both."""
        if self.shifts or other.shifts:
            return True
        if self.whole != other.whole:
            return self.offset < other.offset + other.span and other.offset < self.offset + self.span
        pairs = zip(self.box, other.box, strict=True)
        return all(mine[0] < others[1] and others[0] < mine[1] for mine, others in pairs)

    def _part_box(self, box: Box) -> tuple[Range, ...]:
        if list(self.strides) != row_major(self.whole):
            # Which index of the whole is meant cannot be told any more: at most all of what this view has.
            return self.box
        ranges = zip(*box, self.box, strict=True)
        return tuple((low + start, low + start + (size - 1) * step + 1) for start, size, step, (low, _) in ranges)


@dataclass(eq=False)
class Buffer:
    """Memory for one or more tensors.

    Attributes:
        size: bytes.
        home: where it is: "arena", "argument" (of `@main`: an input, a parameter or an output) or "constant".
        block: the block that it is local to, while nothing outside of it has a claim on it.
        label: what makes its contents, for reports.
        node: the model's op whose result it is, for reports.
        index: the position of the argument, counted in its group.
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
        """The buffer that this one became part of."""
        return self if self.merged_into is None else self.merged_into.root()


@dataclass(frozen=True)
class Place:
    """Where a tensor is.

    Attributes:
        buffer: the memory.
        view: the part of it.
        since: the step at which it was complete; what is written to its elements later, is another tensor's.
    """

    buffer: Buffer
    view: View
    since: int = 0


class Writes:
    """What was written where, to tell whether a tensor is still there."""

    def __init__(self) -> None:
        self._places: dict[Buffer, list[Place]] = {}

    def record(self, place: Place) -> None:
        """Notes that all of `place` was written at the step `place.since`."""
        self._places.setdefault(place.buffer, []).append(place)

    def hide(self, place: Place) -> bool:
        """Whether something was written over `place` since it was complete."""
        later = (other for other in self._places.get(place.buffer, ()) if other.since > place.since)
        return any(other.view.overlaps(place.view) for other in later)


@dataclass(frozen=True)
class Copy:
    """Contents that have to be moved from one buffer to another."""

    source: Place
    destination: Place
    kind: ir.Type
