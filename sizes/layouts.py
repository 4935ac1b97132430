"""Memory layouts that are known only in a call: entries of the table of extents that are not expressions over sizes.

An input to which a program appends is read in the caller's memory, which may also be the memory of an output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STRIDE = "%stride."
"""Prefix of the table's entries for strides; it contains a character that no dimension's name contains."""

COPIED = "%copied."
"""Prefix of the table's entries for the number of elements to copy."""


def is_of_layout(entry: Any) -> bool:
    """Returns whether an entry of the table of extents depends on the memory of a call, not only on its sizes."""
    return isinstance(entry, str) and entry.startswith("%")


@dataclass(frozen=True)
class Appended:
    """An input that a program appends to, and reads in the caller's memory.

    Attributes:
        input: its index.
        output: the index of the output that has its data with more appended, and may be in the same memory; -1 if there
            is none.
        layout: indices in the table of extents: of the stride in elements along each dimension before the one that
            grows (-1 for a dimension of one element), then of the number of elements to copy.
    """

    input: int
    output: int
    layout: tuple[int, ...]

    @property
    def axis(self) -> int:
        """The dimension that grows."""
        return len(self.layout) - 1

    def record(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return {"input": self.input, "output": self.output, "layout": list(self.layout)}

    @staticmethod
    def read(record: Mapping[str, Any], ranks: Sequence[int], outputs: int, entries: int) -> Appended:
        """Reads what `record` returned.

        Args:
            record: the record.
            ranks: the numbers of dimensions of the program's inputs.
            outputs: number of the program's outputs.
            entries: number of entries of the table.

        Raises:
            ValueError, KeyError, TypeError: it is not such a record.
        """
        made = Appended(int(record["input"]), int(record["output"]), tuple(map(int, record["layout"])))
        if not 0 <= made.input < len(ranks) or not -1 <= made.output < outputs:
            raise ValueError(f"there is no input {made.input}, or no output {made.output}")
        if not 1 <= len(made.layout) <= ranks[made.input] or not all(-1 <= item < entries for item in made.layout):
            raise ValueError(f"{made.layout} is not a layout of input {made.input}")
        if made.layout[-1] < 0:
            raise ValueError("the table has no number of elements to copy")
        return made
