"""Widths of the panels of packed weights."""

from __future__ import annotations

import math

from .machine import Machine
from .matrix_units import GRAIN_BYTES, LINE_BYTES, takes_rows

# Cost of multiply-adds by the registers of a panel's row. With one register a load feeds only one multiply-add; with
# four there is room for few rows only. Three take fewer loads than two, and leave enough rows if there are 32.
_ONE, _TWO, _THREE, _THREE_OF_FEW, _FOUR = 1.15, 1.0, 0.98, 1.02, 1.08

# Cost of a width that is not a multiple of half a register: every panel is unaligned and masked.
_UNALIGNED = 1.1

_MANY_REGISTERS = 32
"""Vector registers of AVX-512, Neon and SVE; AVX2 has half as many."""


LEAST_SHARED_ROWS = 4
"""Minimum number of rows from which the width of panels does not depend on it, but for matrix units."""


def choose_panel(
    machine: Machine, columns: int, lanes: int, rows: int, *, even: bool = False, in_tiles: bool = False
) -> int:
    """Returns the panel width with the lowest estimated cost in a micro-kernel.

    Args:
        machine: the machine.
        columns: number of columns.
        lanes: number of sums in a vector register.
        rows: number of rows multiplied with the weight. If there are few, a panel of several registers provides the
            independent multiply-adds that the rows do not.
        even: whether to reject panels of three registers if they leave a narrower panel.
        in_tiles: whether a matrix unit, if there is one, multiplies elements of this type.
    """
    if in_tiles and takes_rows(machine, rows):
        # Two tiles across and two down take the fewest loads.
        return min(columns, 2 * LINE_BYTES // GRAIN_BYTES)
    if rows < LEAST_SHARED_ROWS:
        return min(columns, lanes * (8 // rows))
    parts = [part for part in range(1, math.isqrt(columns) + 1) if columns % part == 0]
    widths = {2 * lanes, *(width for part in parts for width in (part, columns // part) if width <= 4 * lanes)}
    if _takes_three(machine) and columns > 3 * lanes and not (even and columns % (3 * lanes)):
        widths.add(3 * lanes)
    return min(widths, key=lambda width: _cost(machine, columns, width, lanes))


def _takes_three(machine: Machine) -> bool:
    """Returns whether rows of three registers leave room for enough rows.

    Multiply-adds by lane take one more register per row.
    """
    return machine.vector_registers >= _MANY_REGISTERS and not machine.multiplies_by_lane


def _cost(machine: Machine, columns: int, width: int, lanes: int) -> tuple[float, int]:
    full, rest = divmod(columns, width)
    registers = full * -(-width // lanes) + -(-rest // lanes)
    third = _THREE if _takes_three(machine) else _THREE_OF_FEW
    factor = {1: _ONE, 2: _TWO, 3: third}.get(-(-width // lanes), _FOUR)
    unaligned = _UNALIGNED if width % (lanes // 2) and width != columns else 1.0
    groups = (full > 0) + (rest > 0)
    return registers * factor * unaligned + (groups - 1) / 2, width
