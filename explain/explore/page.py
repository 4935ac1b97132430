"""Renders the record of a compile as one self-contained HTML file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

_HERE = Path(__file__).parent
_D3 = ("color", "dispatch", "ease", "interpolate", "timer", "selection", "drag", "transition", "zoom")
_VENDORED = (*(f"d3-{name}" for name in _D3), "diff", "highlight")
_OWN = ("data", "code", "graph", "page")


def render(record: Mapping[str, Any]) -> str:
    """Renders the page for a record.

    No text of a model becomes markup: the record is packed, and the page sets text contents. The page's security policy
    allows only its own scripts, and no connections.
    """
    scripts = [_read(f"vendor/{name}.min.js") for name in _VENDORED] + [_read(f"assets/{name}.js") for name in _OWN]
    packed = gzip.compress(json.dumps(record, separators=(",", ":")).encode(), compresslevel=6, mtime=0)
    return Template(_read("assets/page.html")).substitute(
        title=html.escape(f"{record['model']}: every level"),
        style=_read("assets/page.css"),
        hashes=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        record=base64.b64encode(packed).decode(),
        layout=_read("vendor/dagre.min.js"),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
