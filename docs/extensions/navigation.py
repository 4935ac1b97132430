"""Builds the navigation from the index page: a section becomes a caption, and the links in its table the entries.

So the index is readable in viewers of repositories, and no second list of pages is kept.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_SECTION = re.compile(r"^##+ (.*)\n((?:(?!#).*\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^\| \[[^]]*\]\(([^)#]+)\.(?:md|py)\) \|", re.MULTILINE)
_TOCTREE = "```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"
# The start page redirects to the index, whose path has the folder of the pages.
_START = (
    '<!DOCTYPE html><meta charset="utf-8"><title>Stepwell</title><meta http-equiv="refresh" content="0; url={url}">'
)


def toctrees(index: str, folder: str) -> str:
    """Returns the hidden trees of pages that the index in a folder lists."""
    trees = []
    for caption, text in _SECTION.findall(index):
        entries = ["/" + posixpath.normpath(posixpath.join(folder, link)) for link in _ENTRY.findall(text)]
        if entries:
            trees.append(_TOCTREE.format(caption=caption, entries="\n".join(entries)))
    return "\n".join(trees)


def _read(app: Any, docname: str, source: list[str]) -> None:
    if docname == app.config.root_doc:
        source[0] += "\n" + toctrees(source[0], posixpath.dirname(docname))


def _write_start(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        url = app.builder.get_target_uri(app.config.root_doc)
        (Path(app.outdir) / "index.html").write_text(_START.format(url=url) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("source-read", _read)
    app.connect("build-finished", _write_start)
    return {"parallel_read_safe": True}
