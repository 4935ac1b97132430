"""`stepwell-record-alignment`: records the alignment of the addresses passed to kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import body_of, dictionaries, main_function
from ..ir.memory_layout import element_bytes
from ..ir.rewriting import walk
from .views import EXTRACT, INSERT, box_of, insertion_of, row_index, row_major

WHOLE = 16
"""Minimum alignment of whole tensors in bytes."""
_SAME_PLACE = frozenset({"stepwell.reshape", "tensor.cast"})


@register
@dataclass(frozen=True)
class RecordAlignmentPass(Pass):
    """Record the arguments and results of kernels whose addresses are aligned to less than 16 bytes.

    Only views of parts can have such addresses; whole tensors are aligned to 16 bytes. GPU kernels access 16 bytes at
    once only at addresses with that alignment.

    ```mlir
    %0 = tensor.extract_slice %x[1, 0] [3, 5] [1, 1] : tensor<4x5xf32> to tensor<3x5xf32>
    %1 = call @k(%0)
    // -->
    func.func private @k(%arg: tensor<3x5xf32> {stepwell.alignment = 4})
    ```

    Preconditions: `stepwell-merge-kernels` has run.
    """

    name = "stepwell-record-alignment"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits every call of a kernel in @main."""
        found: dict[str, list[int]] = {}
        for call in walk(main_function(op)):
            if call.name == "func.call":
                callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
                here = [*map(_alignment, call.operands), *map(_alignment, call.results)]
                found[callee] = [*map(min, found.get(callee, here), here)]
        symbols = ir.SymbolTable(op)
        for name, alignments in found.items():
            if min(alignments) < WHOLE:
                _record(symbols[name].operation, alignments)


def _record(kernel: ir.Operation, alignments: list[int]) -> None:
    count = len(body_of(kernel).arguments)
    for key, values in (("arg_attrs", alignments[:count]), ("res_attrs", alignments[count:])):
        entries = [{item.name: item.attr for item in entry} for entry in dictionaries(kernel, key)]
        for entry, value in zip(entries, values, strict=True):
            if value < WHOLE:
                entry |= discardable.ALIGNMENT.entry(value)
        kernel.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in entries])


def _alignment(value: ir.Value) -> int:
    if not isinstance(value.type, ir.RankedTensorType):
        return WHOLE
    insertion = insertion_of(value)
    if insertion is not None:
        return math.gcd(_step(insertion, insertion.operands[1], value), _alignment(insertion.results[0]))
    if isinstance(value.owner, ir.Block):
        return WHOLE
    op = value.owner.operation
    if op.name == EXTRACT:
        return math.gcd(_step(op, op.operands[0], value), _alignment(op.operands[0]))
    return _alignment(op.operands[0]) if op.name in _SAME_PLACE else WHOLE


def _step(op: ir.Operation, whole: ir.Value, part: ir.Value) -> int:
    """The offset of a part in its tensor in bytes; for a computed offset, a divisor of it."""
    assert op.name in (EXTRACT, INSERT)
    strides, size = row_major(ir.RankedTensorType(whole.type).shape), element_bytes(part.type)
    if row_index(op) is not None:
        return math.gcd(strides[0] * size, WHOLE)
    offsets, _, _ = box_of(op)
    return math.gcd(sum(first * step for first, step in zip(offsets, strides, strict=True)) * size, WHOLE)
