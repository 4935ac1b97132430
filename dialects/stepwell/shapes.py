"""Shape rules that several ops share."""

from __future__ import annotations

from ..core import OpError
from ..dims import Dim, Shape, Sym
from ..types import TensorSpec


def broadcast(*shapes: Shape) -> Shape:
    """The shape of several shapes broadcast together by numpy's rules.

    A symbol beside a number greater than 1 is that number, and beside 1 is itself; two different symbols are taken to
    be equal, as one of them being 1 could not be told at compile time.

    Raises:
        OpError: two dimensions differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_broadcast_dim(dims, shapes) for dims in zip(*padded, strict=True))


def _broadcast_dim(dims: tuple[Dim, ...], shapes: tuple[Shape, ...]) -> Dim:
    numbers = {dim for dim in dims if isinstance(dim, int) and dim != 1}
    if len(numbers) > 1:
        raise OpError(f"shapes {' and '.join(map(str, shapes))} cannot be broadcast together")
    if numbers:
        return numbers.pop()
    return next((dim for dim in dims if isinstance(dim, Sym)), 1)


def same_dtype(*specs: TensorSpec) -> None:
    """Checks that all element types agree.

    Raises:
        OpError: they do not.
    """
    if len({spec.dtype for spec in specs}) > 1:
        raise OpError(f"operands must have one element type, but have {', '.join(str(spec.dtype) for spec in specs)}")


def normalize_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises:
        OpError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise OpError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank
