"""`stepwell-move-narrow-floats`: moves vectors of bf16 as integers."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.named_ops import ops_named

_MOVES = ("llvm.select", "llvm.shufflevector", "llvm.intr.masked.load", "llvm.intr.masked.store")


@register
@dataclass(frozen=True)
class MoveNarrowFloatsPass(Pass):
    """Select, shuffle, load and store bf16 values as integers of 16 bits.

    On CPUs without bf16 instructions, LLVM would convert to f32 and back, calling a rounding function that only the
    newest libgcc has.

        %0 = llvm.select %c, %a, %b : vector<4xi1>, vector<4xbf16>
        -->
        %1 = llvm.bitcast %a : vector<4xbf16> to vector<4xi16>
        %2 = llvm.bitcast %b : vector<4xbf16> to vector<4xi16>
        %3 = llvm.select %c, %1, %2 : vector<4xi1>, vector<4xi16>
        %0 = llvm.bitcast %3 : vector<4xi16> to vector<4xbf16>
    """

    name = "stepwell-move-narrow-floats"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every such op."""
        for move in list(ops_named(op, *_MOVES)):
            if any(_bits(value.type) != value.type for value in (*move.operands, *move.results)):
                _rewrite(move)


def _rewrite(move: ir.Operation) -> None:
    with move.location, ir.InsertionPoint(move):
        operands = [_cast(value, _bits(value.type)) for value in move.operands]
        attributes = {name: move.attributes[name] for name in move.attributes}
        results = [_bits(result.type) for result in move.results]
        made = ir.Operation.create(move.name, results, operands, attributes)
        for old, new in zip(move.results, made.results, strict=True):
            old.replace_all_uses_with(_cast(new, old.type))
    move.erase()


def _bits(kind: ir.Type) -> ir.Type:
    """The type with bf16 replaced by i16; other types unchanged."""
    short = ir.IntegerType.get_signless(16)
    if isinstance(kind, ir.BF16Type):
        return short
    if isinstance(kind, ir.VectorType) and isinstance(kind.element_type, ir.BF16Type):
        return ir.VectorType.get(kind.shape, short)
    return kind


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    if value.type == kind:
        return value
    return ir.Operation.create("llvm.bitcast", [kind], [value]).result
