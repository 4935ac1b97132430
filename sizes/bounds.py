"""The sizes that a program serves, and its table and output extents, which depend on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..support.errors import InputError
from ..support.short_repr import short_repr
from .expressions import Expression, evaluate, text_of
from .layouts import is_of_layout
from .ranges import Range, union_of


@short_repr
@dataclass(frozen=True)
class Bounds:
    """The sizes that one program serves.

    Attributes:
        ranges: the values of each size.
        table: expressions for the contents of the program's last input.
        outputs: valid extents of each output, whose shape is given by the upper bounds.
        derived: dimensions of inputs that follow from others, as expressions over those.
        is_inferred: whether the ranges follow from the sizes of calls; calls with other sizes are valid too.
    """

    ranges: Mapping[str, Range]
    table: Sequence[Expression] = ()
    outputs: Sequence[Sequence[Expression]] = field(default=(), repr=False)
    derived: Mapping[str, Expression] = field(default_factory=dict)
    is_inferred: bool = False

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Returns whether the program serves the given sizes.

        In declared ranges, a size that does not follow from others as declared is an error (`check_derived`). If they
        are inferred, such sizes need another program.
        """
        if any(sizes[name] not in values for name, values in self.ranges.items()):
            return False
        if not self.is_inferred:
            return True
        return all(sizes[name] == evaluate(item, sizes) for name, item in self.derived.items())

    @property
    def volume(self) -> int:
        """The product of the upper bounds: a program with a smaller product does less redundant work."""
        return math.prod(values.high for values in self.ranges.values())


def table_of(bounds: Bounds, length: int, sizes: Mapping[str, int]) -> np.ndarray:
    """Returns the last input of a program at given sizes: `length` int64, the table followed by zeros.

    Entries for layouts in memory are 0.
    """
    table = np.zeros(length, np.int64)
    table[: len(bounds.table)] = [0 if is_of_layout(item) else evaluate(item, sizes) for item in bounds.table]
    return table


def with_derived(sizes: Mapping[str, Any], derived: Mapping[str, Expression]) -> dict[str, Any]:
    """Returns sizes, numeric or symbolic, and those of the dimensions that follow from them."""
    return {**sizes, **{name: evaluate(item, sizes) for name, item in derived.items()}}


def check_derived(derived: Mapping[str, Expression], sizes: Mapping[str, int]) -> None:
    """Checks sizes that follow from others.

    Raises:
        InputError: a size differs from the value of its expression.
    """
    for name, size in with_derived(sizes, derived).items():
        if sizes[name] != size:
            raise InputError(f"dimension '{name}' is {sizes[name]}, but must be {text_of(derived[name])} = {size}")


def union(bounds: Iterable[Bounds]) -> dict[str, Range]:
    """Returns the smallest ranges that contain the declared ones of several programs; empty if there are none."""
    several = [item for item in bounds if not item.is_inferred]
    names = several[0].ranges if several else ()
    return {name: union_of([item.ranges[name] for item in several]) for name in names}


def encode_bounds(bounds: Bounds | None) -> dict[str, Any] | None:
    """Returns the sizes of a program as a record for JSON."""
    if bounds is None:
        return None
    ranges = {name: [values.low, values.high, values.step] for name, values in bounds.ranges.items()}
    outputs = [list(shape) for shape in bounds.outputs]
    record = {"ranges": ranges, "table": list(bounds.table), "outputs": outputs, "derived": dict(bounds.derived)}
    return {**record, "inferred": bounds.is_inferred}


def decode_bounds(record: Mapping[str, Any] | None) -> Bounds | None:
    """Reads the sizes of a program from a record of `encode_bounds`.

    Raises:
        ValueError, KeyError, TypeError: it is not such a record.
    """
    if record is None:
        return None
    bounds = Bounds(
        ranges={str(name): Range(*map(int, values)) for name, values in record["ranges"].items()},
        table=tuple(record["table"]),
        outputs=tuple(tuple(shape) for shape in record["outputs"]),
        derived={str(name): item for name, item in record.get("derived", {}).items()},
        is_inferred=bool(record["inferred"]),
    )
    if any(not 0 <= values.low <= values.high or values.step < 1 for values in bounds.ranges.values()):
        raise ValueError("a range of sizes must go from a smaller to a larger one")
    most = {name: values.high for name, values in bounds.ranges.items()}
    with_derived(most, bounds.derived)
    table = (item for item in bounds.table if not is_of_layout(item))
    for expression in (*table, *(dim for shape in bounds.outputs for dim in shape)):
        evaluate(expression, most)
    return bounds
