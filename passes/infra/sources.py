"""Source texts: files, the standard input, and the parts of either between split markers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cached_property

from ...support.large_file import contents_of
from .bindings import ir

DEFAULT_MARKER = "// -----"
SHORTEST_MARKER = 3
"""Minimum length of a marker: one more than the characters that a near miss may lack."""
_BYTECODE_MAGIC = b"ML\xefR"
_CHECKED = 2  # Number of characters at the end of a marker; a line that lacks only these is a near miss.


class SourceText:
    """A text that is being compiled.

    Args:
        filename: name of the file in locations.
        title: name of the file in messages.
        contents: text or bytecode.
        whole: contents of the file if this is a part of it; None if this is the whole file.
    """

    def __init__(self, filename: str, title: str, contents: bytes, whole: bytes | None = None) -> None:
        self.filename, self.title, self.contents = filename, title, contents
        self.whole = contents if whole is None else whole
        self.is_part = whole is not None

    @property
    def is_bytecode(self) -> bool:
        """True if the contents are bytecode."""
        return self.contents.startswith(_BYTECODE_MAGIC)

    @property
    def text(self) -> str:
        """The contents as text; "" for bytecode."""
        return "" if self.is_bytecode else self.contents.decode(errors="replace")

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines of the whole file, without line endings."""
        return (
            []
            if self.whole.startswith(_BYTECODE_MAGIC)
            else [line.removesuffix(b"\r") for line in self.whole.split(b"\n")]
        )

    def line(self, number: int) -> bytes | None:
        """The line with this number, counted from one; None if there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None

    def parse(self, implicit_module: bool = True, context: ir.Context | None = None) -> ir.Module | ir.Operation:
        """Parses the IR: a module, or the only operation if `implicit_module` is False.

        Args:
            implicit_module: whether to wrap other IR in a module.
            context: context in which to make the IR; None for the current one.

        Raises:
            ir.MLIRError: the text is invalid; diagnostics explain why.
        """
        if implicit_module or self.is_bytecode:
            is_named = not self.is_part and self.filename not in ("-", "")
            parsed = (
                ir.Module.parseFile(self.filename, context) if is_named else ir.Module.parse(self.contents, context)
            )
            if implicit_module or len(parsed.body.operations) != 1:
                return parsed
            inner = parsed.body.operations[0].operation
            inner.detach_from_parent()
            return inner
        return ir.Operation.parse(self.text, source_name=self.filename, context=context).operation


def read_source(name: str) -> SourceText:
    """Reads the file called `name`, or the standard input for `-`.

    Raises:
        OSError: there is no regular file of that name (MLIR reads it a second time, so it must be one).
    """
    if name == "-":
        return SourceText("-", "<stdin>", sys.stdin.buffer.read())
    from pathlib import Path

    try:
        return SourceText(name, name, contents_of(Path(name)))
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None


def split_source(source: SourceText, marker: str, near_miss: Callable[[int, int], None]) -> Iterator[SourceText]:
    """The parts between markers, split as MLIR's own tools do.

    A part starts right after its marker. It is padded at its front, so that its line and column numbers match the file.

    Args:
        source: the whole source.
        marker: split marker, at least `SHORTEST_MARKER` characters long.
        near_miss: called with the line and column at which a marker lacks its last characters.
    """
    whole, start = source.contents, marker.encode()[:-_CHECKED]
    ending = marker.encode()[-_CHECKED:]
    begin, position = 0, 0
    # Nothing precedes the first marker: no part comes before it, and its last characters start the first part.
    has_part = bool(whole.partition(start)[0])
    while (found := whole.find(start, position)) >= 0:
        position = found + len(start)
        if not has_part:
            begin, has_part = position, not whole.startswith(start, position) and position < len(whole)
        elif whole.startswith(ending, position) and len(_piece(whole, start, position)) > _CHECKED:
            yield _part(source, begin, found)
            begin = position = position + _CHECKED
            has_part = bool(_piece(whole, start, position))
        else:
            near_miss(*_place(whole, position))
    if has_part:
        yield _part(source, begin, len(whole))


def _piece(whole: bytes, start: bytes, position: int) -> bytes:
    """The text from a position up to the next possible marker."""
    end = whole.find(start, position)
    return whole[position : end if end >= 0 else len(whole)]


def _place(whole: bytes, position: int) -> tuple[int, int]:
    """The line and the column of a position, both counted from one."""
    return whole.count(b"\n", 0, position) + 1, position - whole.rfind(b"\n", 0, position)


def _part(source: SourceText, begin: int, end: int) -> SourceText:
    line, column = _place(source.contents, begin)
    padding = b"\n" * (line - 1) + b" " * (column - 1)
    return SourceText("-", source.title, padding + source.contents[begin:end], source.contents)
