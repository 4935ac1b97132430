"""Generates machine code in which every line is attributed to nodes of the model."""

from __future__ import annotations

import json
import re

from mlir import ir

from ...passes.infra.guarded import Note, guarded
from ...targets.registry import backend_of
from .recorder import ModuleRecord
from .texts import print_op, relocated

_LINE = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
# Debug information, and directives for linkers and unwinders, are not executed.
_NOISE = re.compile(
    r"\s*\.(?:file|loc|cfi_\w+|ident|addrsig\w*|type|size|globl|p2align|intel_syntax|text|hidden)\b|(?:\.L|\$L__)(?:func|tmp|pc|cu)\w*:"
    r"|\s*\.section\s+\"?\.(?:note|debug)"
)
_REST = re.compile(r"^\s*\.section\s+\"?\.debug", re.MULTILINE)
_COMMENT = re.compile(r"\s+#.*$|\s+//.*$")
_THREADS = 2
"""Number of functions compiled concurrently: a choice, as the default of `Options.codegen_threads`."""


def add_assembly(piece: ModuleRecord, module: ir.Operation, target: str) -> None:
    """Compiles a module of the LLVM dialect once more, with its locations as line numbers of debug information.

    LLVM does not let debug information change the code. Each line is the number of a location of the piece.

    Raises:
        Crash: LLVM ended the child process.
    """
    text = relocated(print_op(module, elide=False), piece.texts, "places")

    def work(note: Note) -> bytes:
        note("the generation of machine code with line numbers")
        with module.context, ir.Location.unknown():
            copy = ir.Module.parse(text)
            return json.dumps(backend_of(target).assembly(copy, target, _THREADS)).encode()

    # In a child process: a crash here must not end the exploration.
    data = guarded(work)
    for symbol, code in json.loads(data or b"{}").items():
        piece.assembly[symbol] = piece.texts.add(symbol, *_lines(code, len(piece.texts.locations)))


def _lines(text: str, count: int) -> tuple[list[str], list[int]]:
    """Returns the instructions and labels, and the location of each."""
    lines: list[str] = []
    locations: list[int] = []
    current = 0
    for line in _REST.split(text)[0].split("\n"):
        if found := _LINE.match(line):
            current = int(found[1]) if int(found[1]) < count else 0
        if not line.strip() or _NOISE.match(line) or line.lstrip().startswith(("#", "//")):
            continue
        is_code = line[:1].isspace() and not line.lstrip().startswith(".")
        lines.append(_COMMENT.sub("", line).replace("\t", "    ", 1).replace("\t", " ").rstrip())
        locations.append(current if is_code else 0)
    return lines, locations
