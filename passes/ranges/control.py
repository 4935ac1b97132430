"""Control flow in programs for ranges of sizes: values that iterations carry, or branches yield, keep their extents."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ..ir.values import is_tensor
from .errors import RangesError
from .rewriter import Rewriter

_LOOP, _WHILE, _IF = "scf.for", "scf.while", "scf.if"


def bind_control(graph: Rewriter, op: ir.Operation) -> None:
    """Propagates extents through an op of another dialect than stepwell, outer ops before inner ones.

    Raises:
        RangesError: the extents of a value differ between iterations or branches, or the op computes with tensors.
    """
    if op.name == _LOOP:
        initial = list(op.operands)[3:]
        _propagate(graph, initial, list(op.regions[0].blocks[0].arguments)[1:])
        _propagate(graph, initial, op.results)
    elif op.name == _WHILE:
        _propagate(graph, op.operands, op.regions[0].blocks[0].arguments)
    elif op.name == "scf.condition":
        parent = _parent(op)
        _propagate(graph, list(op.operands)[1:], parent.regions[1].blocks[0].arguments)
        _propagate(graph, list(op.operands)[1:], parent.results)
    elif op.name == "scf.yield":
        _yield(graph, op)
    elif op.name == "tensor.cast":
        _propagate(graph, op.operands, op.results)
    elif op.name != _IF and any(is_tensor(value) and graph.dynamic(value) for value in op.operands):
        raise RangesError("it has no rule for varying dimensions")


def _yield(graph: Rewriter, op: ir.Operation) -> None:
    parent = _parent(op)
    if parent.name == _IF:
        if not any(value in graph.extents for value in parent.results):
            _propagate(graph, op.operands, parent.results)
        _require_alike(graph, op.operands, parent.results)
    elif parent.name == _WHILE:
        _require_alike(graph, op.operands, parent.regions[0].blocks[0].arguments)
    else:
        _require_alike(graph, op.operands, parent.results)


def _propagate(graph: Rewriter, values: Sequence[ir.Value], receivers: Sequence[ir.Value]) -> None:
    for value, receiver in zip(values, receivers, strict=True):
        if is_tensor(value):
            graph.extents[receiver] = graph.of(value)


def _require_alike(graph: Rewriter, values: Sequence[ir.Value], receivers: Sequence[ir.Value]) -> None:
    for value, receiver in zip(values, receivers, strict=True):
        if is_tensor(value) and graph.of(value) != graph.of(receiver):
            raise RangesError("the dimensions of a tensor that it passes on vary between iterations or branches")


def _parent(op: ir.Operation) -> ir.Operation:
    assert op.parent is not None
    return op.parent.operation
