"""The text of IR in pieces that repeat: functions, each once, with the places in the model that its lines stand for."""

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


# Strings come first, so that what looks like a location inside of one is left alone.
_LOCATION = re.compile(rf" ?\bloc\(({_balanced(5)})\)|{_STRING}")
_LEAF = re.compile(rf"({_STRING})((?::\d+:\d+)?)")
_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_SYMBOL = re.compile(rf"@({_STRING}|[\w.$-]+)")
_LARGE = 32


class Texts:
    """Functions of IR as they were printed, each text once.

    Attributes:
        chunks: each the symbol, the text without locations, and runs of lines with the same location.
        locations: each the places that a line stands for, as indices of `places`; the first is nowhere.
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
        """The chunks of a module, in its order."""
        return [self._chunk(text) for text in _pieces(print_op(op))]

    def of_function(self, op: ir.Operation) -> int:
        """The chunk of a function, printed as it is in its module."""
        return self._chunk("\n".join(f"  {line}" for line in print_op(op).rstrip("\n").split("\n")))

    def add(self, symbol: str, lines: list[str], locations: list[int]) -> int:
        """A chunk of text that is no IR, with the location of each line."""
        self.chunks.append({"symbol": symbol, "text": "\n".join(lines), "runs": _runs(locations)})
        return len(self.chunks) - 1

    def location(self, text: str) -> int:
        """The index of a location by its text, as in `loc(...)`."""
        known = self._location_of.get(text)
        if known is not None:
            return known
        places = sorted({self.place(name) for name in places_in(text)})
        self._location_of[text] = len(self.locations) if places else 0
        if places:
            self.locations.append(places)
        return self._location_of[text]

    def place(self, name: str) -> int:
        """The index of a place."""
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
        """A line without its locations, and the last of them, which is that of the op."""
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
    """An op with all locations in place, so that the text of a function depends on nothing else in the module.

    Args:
        op: what to print.
        elide: whether to leave out the numbers of large constants.
    """
    limit = _LARGE if elide else None
    text = op.get_asm(enable_debug_info=True, use_local_scope=True, assume_verified=True, large_elements_limit=limit)
    return str(text)


def places_in(location: str) -> Iterator[str]:
    """The names of nodes and the positions in files that a location consists of, as text."""
    for match in _LEAF.finditer(location):
        yield _ESCAPED.sub(_unescaped, match[1][1:-1]) + match[2]


def relocated(text: str, texts: Texts, filename: str) -> str:
    """IR whose locations are lines of a file that does not exist: numbers of locations, zero for nowhere."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        # LLVM wants a line for every call in a function that has lines at all.
        return f' loc("{filename}":{texts.location(match[1])}:1)'

    return _LOCATION.sub(replace, text)


def _unescaped(match: re.Match[str]) -> str:
    """MLIR escapes a character by its two hexadecimal digits or, if it is a backslash or a quote, by a backslash."""
    return chr(int(match[1], 16)) if len(match[1]) == 2 else match[1]


def _pieces(text: str) -> Iterator[str]:
    """The head of a module, each op directly inside, and the end: lines indented by two start an op."""
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
    """How often a value comes in a row, and the value, for each run."""
    runs: list[int] = []
    for value in values:
        if runs and runs[-1] == value:
            runs[-2] += 1
        else:
            runs += [1, value]
    return runs
