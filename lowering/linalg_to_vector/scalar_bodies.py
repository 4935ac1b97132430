"""Executes the scalar body of a linalg op on vectors."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, vector


def evaluate_body(block: ir.Block, arguments: Sequence[ir.Value | None], lanes: int) -> ir.Value:
    """Returns the value that `block` yields for arguments that are vectors of `lanes` elements (None: not read)."""
    known: dict[ir.Value, ir.Value] = {
        argument: value for argument, value in zip(block.arguments, arguments, strict=True) if value is not None
    }
    ops = list(block.operations)
    for op in ops[:-1]:
        if _is_contracted_product(op):
            continue
        known[op.results[0]] = _evaluate(op.operation, known, lanes)
    return _vector(ops[-1].operands[0], known, lanes)


def _evaluate(op: ir.Operation, known: dict[ir.Value, ir.Value], lanes: int) -> ir.Value:
    kind = ir.VectorType.get([lanes], op.results[0].type)
    if op.name == "arith.constant":
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, op.attributes["value"]))
    product = _contracted_product(op)
    if product is not None:
        total = next(operand for operand in op.operands if operand != product.results[0])
        left, right = (_vector(operand, known, lanes) for operand in product.operands)
        return vector.fma(left, right, _vector(total, known, lanes))
    operands = [_vector(operand, known, lanes) for operand in op.operands]
    if op.name == "arith.extf" and (scalar := _repeated(operands[0])) is not None:
        # A value that is the same in all lanes is extended once.
        return vector.broadcast(kind, arith.extf(op.results[0].type, scalar))
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.Operation.create(op.name, [kind], operands, attributes).results[0]


def _vector(value: ir.Value, known: dict[ir.Value, ir.Value], lanes: int) -> ir.Value:
    if value not in known:  # a scalar from outside the body
        known[value] = vector.broadcast(ir.VectorType.get([lanes], value.type), value)
    return known[value]


def _repeated(value: ir.Value) -> ir.Value | None:
    """Returns the scalar that a vector holds in every lane, if it is a broadcast."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "vector.broadcast":
        return None
    source = value.owner.operands[0]
    return None if isinstance(source.type, ir.VectorType) else source


def _contracted_product(op: ir.Operation) -> ir.Operation | None:
    """Returns the product that a float addition may contract into a fused multiply-add."""
    if op.name != "arith.addf" or not _may_contract(op) or op.operands[0] == op.operands[1]:
        return None
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, ir.Block) or owner.name != "arith.mulf" or not _may_contract(owner.operation):
            continue
        if sum(1 for _ in operand.uses) == 1:
            return owner.operation
    return None


def _is_contracted_product(op: ir.OpView) -> bool:
    if op.operation.name != "arith.mulf" or not _may_contract(op.operation):
        return False
    users = [use.owner for use in op.operation.results[0].uses]
    return len(users) == 1 and _contracted_product(users[0].operation) == op.operation


def _may_contract(op: ir.Operation) -> bool:
    return "fastmath" in op.attributes and any(word in str(op.attributes["fastmath"]) for word in ("contract", "fast>"))
