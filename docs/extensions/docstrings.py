"""Translates the Markdown in docstrings to what autodoc reads: code blocks, and names of pages, which become links."""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")


def restructured(text: str) -> str:
    """Returns a docstring as reStructuredText."""
    return _PAGE.sub(r":doc:`/docs/\1`", _FENCE.sub(_block, text))


def _block(fence: re.Match[str]) -> str:
    indent, language, code = fence.groups()
    lines = "".join(f"   {line}" if line.strip() else line for line in code.splitlines(keepends=True))
    return f"{indent}.. code-block:: {language or 'text'}\n\n{lines}"


def _process(app: Any, kind: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines)).splitlines()


def setup(app: Any) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
