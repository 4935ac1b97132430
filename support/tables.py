"""Tables as text."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence


def aligned(
    headers: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = (), width: int | None = None
) -> str:
    """Returns a table as lines of text; the columns in `numbers` are aligned to the right.

    With a width, cells are folded so that lines are at most as long.
    """
    from rich.console import Console  # imported here: most runs print no table
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, header in enumerate(headers):
        table.add_column(
            header, justify="right" if column in numbers else "left", no_wrap=width is None, overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    stream = io.StringIO()
    Console(file=stream, width=width or 10_000, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())
