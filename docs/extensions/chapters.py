"""Reads the chapters in `examples/`, Python scripts in the percent format of notebooks, as Markdown pages.

Cells that start with `# %% [markdown]` are prose in comments, cells that start with `# %%` are code. Lines `# > ...` in
a cell of code are the output of the code above them; a test compares them with what the script prints.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

_CELL = re.compile(r"^# %%(?P<kind> \[markdown\])?\n", re.MULTILINE)
_OUTPUT = re.compile(r"# >(?: |$)")


def page(script: str) -> str:
    """Returns a chapter as Markdown."""
    _, *parts = _CELL.split(script)
    cells = zip(parts[::2], parts[1::2], strict=True)
    return "\n".join(_prose(text) if kind else _code(text) for kind, text in cells)


def output(script: str) -> str:
    """Returns the output that a chapter shows."""
    return "".join(f"{_OUTPUT.sub('', line, 1)}\n" for line in script.splitlines() if _OUTPUT.match(line))


def _prose(text: str) -> str:
    return "".join(f"{line.removeprefix('#').removeprefix(' ')}\n" for line in text.strip().splitlines())


def _code(text: str) -> str:
    """Returns alternating blocks of code and output."""
    blocks = []
    for is_output, lines in groupby(text.splitlines(), key=lambda line: _OUTPUT.match(line) is not None):
        block = "\n".join(_OUTPUT.sub("", line, 1) if is_output else line for line in lines).strip("\n")
        if block:
            kind = "python" if not is_output else "console" if block.startswith("$ ") else "text"
            blocks.append(f"```{kind}\n{block}\n```\n")
    return "\n".join(blocks)


def _read(app: Any, docname: str, source: list[str]) -> None:
    if Path(app.env.doc2path(docname)).suffix == ".py":
        source[0] = page(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
