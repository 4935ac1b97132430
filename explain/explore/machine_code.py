"""Generates machine code in which every line is attributed to nodes of the model."""

from __future__ import annotations

import json
import re

from mlir import ir

from ...lowering.llvm_to_object.codegen import emit_assembly
from ...lowering.target import Target
from ...passes.infra.guarded import Note, guarded
from ...passes.infra.pipeline import Pipeline
from ...targets.nvidia.ptx import emit_ptx
from .recorder import ModuleRecord
from .texts import print_op, relocated

_SCOPES = Pipeline(("ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}",))
_LINE = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
# Debug information, and directives for linkers and unwinders, are not executed.
_NOISE = re.compile(
    r"\s*\.(?:file|loc|cfi_\w+|ident|addrsig\w*|type|size|globl|p2align|intel_syntax|text|hidden)\b|(?:\.L|\$L__)(?:func|tmp|pc|cu)\w*:"
    r"|\s*\.section\s+\"?\.(?:note|debug)"
)
_REST = re.compile(r"^\s*\.section\s+\"?\.debug", re.MULTILINE)
_COMMENT = re.compile(r"\s+#.*$|\s+//.*$")


def add_assembly(piece: ModuleRecord, module: ir.Operation, target: Target, threads: int = 2) -> None:
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
            if not target.is_gpu:
                _SCOPES.run(copy, verify=False)
                return json.dumps(emit_assembly(copy, target, threads)).encode()
            for op in copy.body.operations:
                if op.operation.name == "gpu.module":
                    _add_scopes(op.operation)
            codes = emit_ptx(copy, target)
            return json.dumps({name: _without_debug(code.decode()) for name, code in codes.items()}).encode()

    # In a child process: a crash here must not end the exploration.
    data = guarded(work)
    for symbol, code in json.loads(data or b"{}").items():
        piece.assembly[symbol] = piece.texts.add(symbol, *_lines(code, len(piece.texts.locations)))


def _add_scopes(gpu_module: ir.Operation) -> None:
    """Runs the pass on the contents of a GPU module; the pass itself only takes top-level modules."""
    block = gpu_module.regions[0].blocks[0]
    plain = ir.Module.create()
    with ir.InsertionPoint(plain.body):
        for op in block.operations:
            op.operation.clone()
    _SCOPES.run(plain, verify=False)
    for op in [op.operation for op in block.operations]:
        op.erase()
    with ir.InsertionPoint(block):
        for op in plain.body.operations:
            op.operation.clone()


def _without_debug(code: str) -> str:
    """Removes the debug mode from the PTX target."""
    return re.sub(r"^(\.target \w+), debug$", r"\1", code, flags=re.MULTILINE)


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
