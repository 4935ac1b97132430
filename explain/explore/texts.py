"""The text of IR, deduplicated by function, with the model's nodes that each line belongs to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from mlir import ir

_STRING = r'"(?:[^"\\]|\\.)*"'


def _balanced(depth: int) -> str:
    inner = rf"|\({_balanced(depth - 1)}\)" if depth else ""
    return rf'(?:[^()"]|{_STRING}{inner})*'


# Strings are matched first, so that a location inside a string is not replaced.
_LOCATION = re.compile(rf" ?\bloc\(({_balanced(5)})\)|{_STRING}")
_LEAF = re.compile(rf"({_STRING})((?::\d+:\d+)?)")
_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_SYMBOL = re.compile(rf"@({_STRING}|[\w.$-]+)")
_LARGE = 32
"""Number of elements beyond which constants are left out: a choice."""


class Texts:
    """Printed functions of IR, each text stored once.

    Attributes:
        chunks: for each text its symbol, the text without locations, and runs of lines with the same location.
        locations: for each location the indices of its `places`; the first location is unknown.
        places: names of the model's nodes, or positions in files.
    """

    def __init__(self) -> None:
        self.chunks: list[dict[str, Any]] = []
        self.locations: list[list[int]] = [[]]
        self.places: list[str] = []
        self._chunk_of: dict[bytes, int] = {}
        self._location_of: dict[str, int] = {}
        self._place_of: dict[str, int] = {}

    def of_module(self, op: ir.Operation) -> list[int]:
        """Returns the chunks of a module, in its order."""
        return [self._chunk(text) for text in _pieces(print_op(op))]

    def of_function(self, op: ir.Operation) -> int:
        """Returns the chunk of a function, printed as in its module."""
        return self._chunk("\n".join(f"  {line}" for line in print_op(op).rstrip("\n").split("\n")))

    def add(self, symbol: str, lines: list[str], locations: list[int]) -> int:
        """Adds a chunk of text that is not IR, with the location of each line."""
        self.chunks.append({"symbol": symbol, "text": "\n".join(lines), "runs": _runs(locations)})
        return len(self.chunks) - 1

    def location(self, text: str) -> int:
        """Returns the index of a location by its text, as in `loc(...)`."""
        known = self._location_of.get(text)
        if known is not None:
            return known
        places = sorted({self.place(name) for name in places_in(text)})
        self._location_of[text] = len(self.locations) if places else 0
        if places:
            self.locations.append(places)
        return self._location_of[text]

    def place(self, name: str) -> int:
        """Returns the index of a place."""
        index = self._place_of.setdefault(name, len(self.places))
        if index == len(self.places):
            self.places.append(name)
        return index

    def _chunk(self, text: str) -> int:
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        known = self._chunk_of.get(key)
        if known is not None:
            return known
        lines, locations = [], []
        for line in text.split("\n"):
            bare, place = self.split(line)
            lines.append(bare)
            locations.append(place)
        found = _SYMBOL.search(lines[0])
        symbol = found[1].strip('"') if found and not lines[0].startswith("module") else ""
        self._chunk_of[key] = self.add(symbol, lines, locations)
        return self._chunk_of[key]

    def split(self, line: str) -> tuple[str, int]:
        """Returns a line without its locations, and the index of the last one, which is that of the op."""
        if "loc(" not in line:
            return line, 0
        found: list[str] = []

        def take(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0]
            found.append(match[1])
            return ""

        bare = _LOCATION.sub(take, line)
        return bare, self.location(found[-1]) if found else 0


def print_op(op: ir.Operation, elide: bool = True) -> str:
    """Prints an op with inline locations, so that a function's text does not depend on the rest of the module.

    Args:
        op: the op.
        elide: whether to leave out the elements of large constants.
    """
    limit = _LARGE if elide else None
    text = op.get_asm(enable_debug_info=True, use_local_scope=True, assume_verified=True, large_elements_limit=limit)
    return str(text)


def places_in(location: str) -> Iterator[str]:
    """Yields the names of nodes and the positions in files of a location, as text."""
    for match in _LEAF.finditer(location):
        yield _ESCAPED.sub(_unescaped, match[1][1:-1]) + match[2]


def relocated(text: str, texts: Texts, filename: str) -> str:
    """Replaces the locations in IR by lines of a fictitious file: the indices of locations, 0 for unknown."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        # LLVM requires a line for every call in a function that has lines.
        return f' loc("{filename}":{texts.location(match[1])}:1)'

    return _LOCATION.sub(replace, text)


def _unescaped(match: re.Match[str]) -> str:
    """Decodes an escape of MLIR: two hexadecimal digits, or a backslash before a backslash or a quote."""
    return chr(int(match[1], 16)) if len(match[1]) == 2 else match[1]


def _pieces(text: str) -> Iterator[str]:
    """Splits a module's text into its head, each op directly inside, and its end; two spaces of indent start an op."""
    lines = text.rstrip("\n").split("\n")
    if not lines[0].startswith(("module", '"builtin.module"')):
        yield "\n".join(lines)
        return
    piece: list[str] = []
    for line in lines:
        starts = line[:2] == "  " and line[2:3] not in (" ", "}", "^", "")
        if piece and (starts or line[:1] == "}"):
            yield "\n".join(piece)
            piece = []
        piece.append(line)
    yield "\n".join(piece)


def _runs(values: list[int]) -> list[int]:
    """Encodes values as runs: the length and the value of each."""
    runs: list[int] = []
    for value in values:
        if runs and runs[-1] == value:
            runs[-2] += 1
        else:
            runs += [1, value]
    return runs
