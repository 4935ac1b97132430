"""`stepwell-record-launches`: records the launches of a kernel as an attribute, visible without the kernel's body."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects import discardable
from ....passes.infra.base import Pass, PassError, register
from ....passes.infra.state import CompileState
from ....passes.ir.functions import body_of, kernels_in
from ....passes.ir.values import i64


@register
@dataclass(frozen=True)
class RecordLaunchesPass(Pass):
    """Record the launches of every kernel in its attribute `stepwell.launches`, from which launch plans are made.

    ```mlir
    func.func private @k(%x: memref<64xf32>, %out: memref<64xf32>) {
      gpu.launch_func @k.gpu::@k_0 blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1) args(%x, %out)
    // -->
    func.func private @k(...) attributes {stepwell.launches = [
      {entry = "k_0", grid = array<i64: 1, 1, 1>, block = array<i64: 64, 1, 1>, cluster = array<i64: 1, 1, 1>,
       shared_bytes = 0, arguments = [{argument = 0, offset = 0, bytes = 256}, {argument = 1, ...}]}]}
    ```

    Preconditions: `stepwell-plan-workspaces` has run.
    """

    name = "stepwell-record-launches"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Records the launches of every kernel of a module."""
        for kernel in kernels_in(op):
            launches = [_launch(item.operation) for item in body_of(kernel).operations if _is_launch(item)]
            discardable.LAUNCHES.write(kernel, launches)


def _is_launch(op: ir.OpView) -> bool:
    return op.operation.name == "gpu.launch_func"


def _launch(op: ir.Operation) -> ir.DictAttr:
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    groups, operands = [], list(op.operands)
    for size in segments:
        groups.append(operands[:size])
        operands = operands[size:]
    numbers = [_number(value, op) for group in groups[1:7] for value in group]
    cluster = [_number(value, op) for group in groups[7:10] for value in group] or [1, 1, 1]
    shared = _number(groups[10][0], op) if groups[10] else 0
    path = list(ir.SymbolRefAttr(op.attributes["kernel"]).value)
    return ir.DictAttr.get(
        {
            "entry": ir.StringAttr.get(path[-1]),
            "grid": ir.DenseI64ArrayAttr.get(numbers[:3]),
            "block": ir.DenseI64ArrayAttr.get(numbers[3:]),
            "cluster": ir.DenseI64ArrayAttr.get(cluster),
            "shared_bytes": i64(shared),
            "arguments": ir.ArrayAttr.get([_argument(value) for value in groups[11]]),
        }
    )


def _argument(value: ir.Value) -> ir.DictAttr:
    """Returns the index of the kernel argument that holds the value, with offset and size of the value in bytes."""
    entries: dict[str, ir.Attribute] = {}
    if isinstance(value.owner, ir.Operation | ir.OpView) and discardable.TENSOR_MAP.is_on(value.owner):
        entries["map"] = discardable.TENSOR_MAP.required(value.owner)
        value = value.owner.operands[0]
    kind = ir.MemRefType(value.type)
    size = kind.shape[0] * element_bytes(kind.element_type)
    offset = 0
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "memref.view":
            offset += _number(op.operands[1], op)
        elif op.name != "memref.reinterpret_cast":
            raise PassError(f"'{op.name}' op makes a launch operand: expected a view of an argument", op.location)
        value = op.operands[0]
    numbers = {"argument": ir.BlockArgument(value).arg_number, "offset": offset, "bytes": size}
    return ir.DictAttr.get(entries | {name: i64(number) for name, number in numbers.items()})


def element_bytes(element: ir.Type) -> int:
    """Returns the size of an element in bytes."""
    return (element.width if isinstance(element, ir.IntegerType) else ir.FloatType(element).width) // 8


def _number(value: ir.Value, reader: ir.Operation) -> int:
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        raise PassError(f"'{reader.name}' op: a size or an offset of a launch is not a constant", reader.location)
    return ir.IntegerAttr(value.owner.attributes["value"]).value
