"""Pages for the files and folders of the code that documentation links to: the site is complete without network.

A link to a file leads to its highlighted text, a link to a folder to its list of files with their summaries.
"""

# Types are also checked where the extra `docs` is not installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import ast
import html
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

_FOLDER = "source"
_MOST_LINES = 1000  # of data files
_BUILT = ("__pycache__", "build")
_REFERENCES = (addnodes.pending_xref, addnodes.download_reference)


class SourceLinks(SphinxTransform):
    """Turns links to files and folders that are no pages into links to their source pages."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Replaces the references that MyST made."""
        for node in [node for kind in _REFERENCES for node in self.document.findall(kind)]:
            place = _place(node, Path(self.app.srcdir), self.env)
            if place is not None:
                uri = self.app.builder.get_relative_uri(self.env.docname, f"{_FOLDER}/{place}")
                reference = nodes.reference("", "", *node.children, internal=True, refuri=uri, reftitle=place)
                node.replace_self(reference)
                self.env.metadata[self.env.docname].setdefault("sources", []).append(place)


def _place(node: nodes.Element, root: Path, env: Any) -> str | None:
    """Returns the path, from the root, of the file or folder that a reference leads to; None for other references."""
    if node.get("reftype") != "myst" or node["reftarget"] in env.found_docs:
        return None
    if node.get("refdomain") == "doc":
        # A file that is no page although it has a page's suffix, which MyST has removed.
        paths = [
            path for suffix in env.config.source_suffix if (path := root / f"{node['reftarget']}{suffix}").exists()
        ]
    else:
        paths = [Path(os.path.normpath(root / env.docname / ".." / node["reftarget"]))]
    inside = [path.relative_to(root).as_posix() for path in paths if path.exists() and path.is_relative_to(root)]
    return inside[0] if inside else None


def _pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields the page of each file and folder that a link leads to."""
    root = Path(app.srcdir)
    wanted = {place for data in app.env.metadata.values() for place in data.get("sources", ())}
    for place in sorted(wanted):
        title = html.escape(place)
        body = _listing(app, root, place, wanted) if (root / place).is_dir() else _text(root / place)
        yield f"{_FOLDER}/{place}", {"title": title, "body": f"<h1>{title}</h1>\n{body}"}, "page.html"


def _text(path: Path) -> str:
    """Returns the highlighted text of a file; of long ones the first lines."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(cssclass="highlight", linenos="inline")
    rest = f"<p>and {len(lines) - _MOST_LINES:,} more lines</p>" if len(lines) > _MOST_LINES else ""
    return f"{highlight(''.join(lines[:_MOST_LINES]), lexer, formatter)}{rest}"


def _listing(app: Any, root: Path, place: str, wanted: set[str]) -> str:
    """Returns a table of the files and folders in a folder, with links to those that have pages."""
    rows = []
    for name in sorted(path.name for path in (root / place).iterdir() if path.name not in _BUILT):
        path, text = f"{place}/{name}", f"<code>{html.escape(name)}{'/' * (root / place / name).is_dir()}</code>"
        if path in wanted:
            uri = app.builder.get_relative_uri(f"{_FOLDER}/{place}", f"{_FOLDER}/{path}")
            text = f'<a href="{html.escape(uri)}">{text}</a>'
        rows.append(f"<tr><td>{text}</td><td>{html.escape(_summary(root / path))}</td></tr>\n")
    return f'<div class="table-wrapper"><table class="docutils">\n{"".join(rows)}</table></div>'


def _summary(path: Path) -> str:
    """Returns the first line of a module's or package's docstring; "" if there is none."""
    path = path / "__init__.py" if path.is_dir() else path
    if path.suffix != ".py" or not path.exists():
        return ""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def setup(app: Any) -> dict[str, bool]:
    """Registers the extension."""
    app.add_transform(SourceLinks)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True}
