"""HTML fragments for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MOST_ROWS = 50
"""Maximum number of rows of a table in a notebook."""


def heading(text: str) -> str:
    """Returns a line above a table."""
    return f"<p><b>{escape(text)}</b></p>"


def paragraph(text: str) -> str:
    """Returns a line of text."""
    return f"<p>{escape(text)}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns a table of at most `MOST_ROWS` rows; the last line gives the number of further rows."""
    listed = list(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in listed[:MOST_ROWS])
    more = paragraph(f"and {len(listed) - MOST_ROWS} more") if len(listed) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
