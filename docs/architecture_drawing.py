"""Draws `docs/architecture.svg` from the code: the rooms, in the layers of the import contract, and their imports.

python docs/architecture_drawing.py
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SVG = ROOT / "docs" / "architecture.svg"

_WIDTH, _BOX, _HEIGHT, _GAP, _MARGIN, _LANE, _TURN = 900, 112, 52, 20, 16, 8, 10
_FEW = 15  # arrows of fewer files have no number
_COLOURS = ["#6b4c7a", "#27506b", "#2c6279", "#2f6f73", "#3f7a5c", "#5b7a3d", "#7d7a34", "#a06a2c", "#a5573a"]
_STYLE = """
    text { font-family: DejaVu Sans, Verdana, sans-serif; text-anchor: middle; font-size: 11px; fill: #fff }
    .name { font-size: 15px; font-weight: bold }
    .note { text-anchor: start; font-size: 13px; fill: #444 }
    .number { fill: #333; stroke: #fff; stroke-width: 3px; paint-order: stroke }
    .layer { fill: #8899a6; fill-opacity: .14 }
    @media (prefers-color-scheme: dark) { .note { fill: #c5ccd2 } .number { fill: #e8ecef; stroke: #10151a } }
"""
_NOTES = (
    "An arrow: files of the upper room import the lower one.",
    f"Its width: how many files; from {_FEW} on also as a number.",
    "A band: a layer of the import contract. Imports point down;",
    "rooms in the same band do not import each other.",
)


def layers() -> list[list[str]]:
    """Returns the layers of the import contract from the top down, each as the names of its rooms."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^layers = (\[.*?^\])", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    return [re.findall(r"stepwell\.(\w+)", layer) for layer in ast.literal_eval(listed[1])]


def imports() -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Returns the number of files of a room that import another room, and the number of lines of each room."""
    rooms, arrows, lines = {room for layer in layers() for room in layer}, Counter(), Counter()
    for room in rooms:
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            lines[room] += text.count("\n")
            package = path.relative_to(ROOT).parts[:-1]
            found = {name for node in _statements(ast.parse(text)) for name in _imported(node, package)}
            arrows.update((room, other) for other in found & rooms - {room})
    return arrows, lines


def common(arrows: Counter[tuple[str, str]]) -> list[str]:
    """Returns the rooms in the lower half that all rooms above them import; arrows to them would say nothing."""
    rooms = [room for layer in layers() for room in layer]
    above = {room: rooms[:index] for index, room in enumerate(rooms)}
    return [room for room in rooms[len(rooms) // 2 :] if all((item, room) in arrows for item in above[room])]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the statements inside a node; expressions, which are most of the nodes, hold no imports."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from _statements(child)


def _imported(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    """Returns the top-level folders of this project that a statement imports."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        start = ".".join(("stepwell", *package[: len(package) + 1 - node.level])) if node.level else ""
        names = [".".join(filter(None, (start, node.module, alias.name))) for alias in node.names]
    return [name.split(".")[1] for name in names if name.startswith("stepwell.")]


def drawing() -> str:
    """Returns the drawing as SVG: each room has a step of a stair, and arrows turn down to the rooms they lead to."""
    (arrows, lines), rooms = imports(), [room for layer in layers() for room in layer]
    everywhere = common(arrows)
    arrows = {pair: files for pair, files in arrows.items() if pair[1] not in everywhere}
    pitch = (_WIDTH - 2 * _MARGIN - _BOX) / (len(rooms) - 1)
    left = {room: round(_MARGIN + index * pitch) for index, room in enumerate(rooms)}
    top = {room: _MARGIN + index * (_HEIGHT + _GAP) for index, room in enumerate(rooms)}
    height = top[rooms[-1]] + _HEIGHT + _MARGIN
    bands, shapes, texts = [], [], []
    for layer in layers():
        x, y, end = left[layer[0]] - _GAP / 2, top[layer[0]] - 8, top[layer[-1]] + _HEIGHT + 8
        box = f'x="{x}" y="{y}" width="{_WIDTH - x}" height="{end - y}" rx="6"'
        bands.append(f'<rect class="layer" data-layer="{" ".join(layer)}" {box}/>')
    for index, room in enumerate(rooms):
        # Farther targets leave higher and farther sources arrive more to the right: arrows of one room do not cross.
        colour, targets = _COLOURS[index % len(_COLOURS)], [item for item in reversed(rooms) if (room, item) in arrows]
        for lane, other in enumerate(targets):
            files, end = arrows[room, other], top[other]
            start, y = left[room] + _BOX, round(top[room] + _HEIGHT * (lane + 1) / (len(targets) + 1), 1)
            x = left[other] + _BOX - _LANE * sum((item, other) in arrows for item in rooms[: index + 1])
            width = round(1 + 0.6 * math.sqrt(files))
            line = f"M{start} {y}H{x - _TURN}Q{x} {y} {x} {y + _TURN:.1f}V{end - 6}"
            head = f"M{x - 2.5 - width / 2} {end - 7}h{5 + width}L{x} {end}Z"
            paint = f'fill="none" stroke="{_lighter(colour)}" stroke-width="{width}"'
            shapes.append(f'<path data-arrow="{room} {other}" d="{line}" {paint}/>')
            shapes.append(f'<path d="{head}" fill="{_lighter(colour)}"/>')
            if files >= _FEW:
                # Beside the arrow if its level part is too short for the number.
                middle, below = (x - 18, 4) if x - start > 44 else (x + 14, 16)
                texts.append(f'<text class="number" x="{middle}" y="{y + below:.1f}">{round(files, -1)}</text>')
        x, y, middle = left[room], top[room], left[room] + _BOX / 2
        shapes.append(f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_HEIGHT}" rx="4" fill="{colour}"/>')
        texts.append(f'<text class="name" x="{middle}" y="{y + 23}">{room}/</text>')
        texts.append(f'<text x="{middle}" y="{y + 40}">{round(lines[room], -3):,} lines</text>')
    notes = [*_NOTES, *(f"All rooms above {room}/ import it: no arrows." for room in everywhere)]
    first = height - 2 - 20 * len(notes)
    texts += [f'<text class="note" x="16" y="{first + 20 * row}">{note}</text>' for row, note in enumerate(notes)]
    title = "<title>The rooms of Stepwell, in the layers of the import contract, and their imports</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *bands, *shapes, *texts, "</svg>\n"])


def _lighter(colour: str) -> str:
    """Mixes a colour with white, to be visible on a dark background too."""
    return "#" + "".join(f"{round(0.75 * byte + 0.25 * 255):02x}" for byte in bytes.fromhex(colour[1:]))


if __name__ == "__main__":
    SVG.write_text(drawing(), encoding="utf-8")
