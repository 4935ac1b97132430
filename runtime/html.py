"""Parts of HTML, for what notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MOST_ROWS = 50
"""The most rows of a table that a notebook shows."""


def heading(text: str) -> str:
    """A line above a table."""
    return f"<p><b>{escape(text)}</b></p>"


def paragraph(text: str) -> str:
    """A line of text."""
    return f"<p>{escape(text)}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of at most `MOST_ROWS` rows; the last line says how many more there are."""
    listed = list(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in listed[:MOST_ROWS])
    more = paragraph(f"and {len(listed) - MOST_ROWS} more") if len(listed) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
