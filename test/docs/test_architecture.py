"""The drawing of the architecture agrees with the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"

_spec = importlib.util.spec_from_file_location("architecture_drawing", DOCS / "architecture_drawing.py")
assert _spec is not None and _spec.loader is not None
drawing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(drawing)


def test_drawing_has_the_layers_and_imports_of_the_code() -> None:
    svg = drawing.SVG.read_text(encoding="utf-8")
    layers = [names.split() for names in re.findall(r'data-layer="([^"]*)"', svg)]
    arrows = {tuple(names.split()) for names in re.findall(r'data-arrow="([^"]*)"', svg)}
    is_current = (layers, arrows) == (drawing.layers(), set(drawing.imports()[0]))
    assert is_current, "run `python docs/architecture_drawing.py`"


def test_imports_point_down() -> None:
    rooms = [room for layer in drawing.layers() for room in layer]
    assert all(rooms.index(room) < rooms.index(other) for room, other in drawing.imports()[0])
