"""Texts that are compiled: files, the standard input, and the parts of either between markers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlir import ir

from ..runtime.large_file import contents_of

DEFAULT_MARKER = "// -----"
_BYTECODE_MAGIC = b"ML\xefR"


@dataclass(frozen=True)
class Source:
    """A text that is being compiled.

    Attributes:
        filename: what locations in it are called by MLIR.
        title: what users are shown instead.
        contents: text or bytecode.
    """

    filename: str
    title: str
    contents: bytes

    @property
    def text(self) -> str:
        """The contents as text; bytecode has none."""
        return "" if self.contents.startswith(_BYTECODE_MAGIC) else self.contents.decode(errors="replace")

    def line(self, number: int) -> str | None:
        """The line with this number, counted from one, if there is one."""
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else None

    def parse(self, implicit_module: bool = True) -> ir.Module | ir.Operation:
        """The IR in the current context: a module around it all, or else the one operation that there is.

        Raises:
            ir.MLIRError: the text is wrong; diagnostics say how.
        """
        if not implicit_module:
            return ir.Operation.parse(self.text, source_name=self.filename).operation
        if self.filename == "-":
            return ir.Module.parse(self.contents)
        return ir.Module.parseFile(self.filename)


def read_source(name: str) -> Source:
    """The file called `name`; the standard input for `-`.

    Raises:
        OSError: there is no such file; MLIR reads it once more, so it must be one.
    """
    if name == "-":
        return Source("-", "<stdin>", sys.stdin.buffer.read())
    try:
        return Source(name, name, contents_of(Path(name)))
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None


def split_source(source: Source, marker: str) -> Iterator[Source]:
    """The parts between markers. What a marker has on its line after it is the first line of the next part."""
    if marker not in source.text:
        yield source
        return
    line = 1
    for part in re.split(re.escape(marker), source.text):
        yield Source("-", f"within split at {source.title}:{line} offset ", part.encode())
        line += part.count("\n")
