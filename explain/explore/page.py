"""The record of a compile as one HTML file, with everything in it that it needs."""

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
    """The page for a record.

    Nothing that comes from a model is markup: the record is packed, and the page sets text. The page allows itself
    only the scripts that it was made with, and no connection to anywhere.
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
