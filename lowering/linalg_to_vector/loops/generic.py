"""View of a linalg.generic with the properties that the code generator needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import tensor

from ...builders.indices import Index, subtract, value_of


@dataclass(frozen=True)
class Padded:
    """Operand padded with constants, represented by the tensor inside the padding.

    Attributes:
        inner: tensor without the padding.
        shift: offset added to the operand's indices to get those of `inner`.
        value: constant of the padding.
    """

    inner: ir.Value
    shift: tuple[Index, ...]
    value: ir.Value


@dataclass
class Generic:
    """One linalg.generic on tensors."""

    op: ir.Operation
    maps: list[list[ir.AffineExpr]] = field(init=False)
    iterators: list[str] = field(init=False)

    def __post_init__(self) -> None:
        attributes = self.op.attributes
        self.maps = [list(ir.AffineMapAttr(attr).value.results) for attr in ir.ArrayAttr(attributes["indexing_maps"])]
        kinds = ir.ArrayAttr(attributes["iterator_types"])
        self.iterators = ["reduction" if "reduction" in str(kind) else "parallel" for kind in kinds]

    @property
    def num_inputs(self) -> int:
        """Number of operands that are only read."""
        return ir.DenseI32ArrayAttr(self.op.attributes["operandSegmentSizes"])[0]

    @property
    def operands(self) -> list[ir.Value]:
        """Inputs, then destinations."""
        return list(self.op.operands)

    @property
    def outputs(self) -> list[ir.Value]:
        """Destinations."""
        return self.operands[self.num_inputs :]

    @property
    def output_maps(self) -> list[list[ir.AffineExpr]]:
        """Index expressions of each destination."""
        return self.maps[self.num_inputs :]

    @property
    def block(self) -> ir.Block:
        """Block of the scalar computation."""
        return self.op.regions[0].blocks[0]

    @property
    def results(self) -> list[ir.Value]:
        """Result tensors."""
        return list(self.op.results)

    @property
    def reductions(self) -> tuple[int, ...]:
        """Reduction loops."""
        return tuple(dim for dim, kind in enumerate(self.iterators) if kind == "reduction")

    @property
    def parallels(self) -> tuple[int, ...]:
        """Parallel loops."""
        return tuple(dim for dim, kind in enumerate(self.iterators) if kind == "parallel")

    def extents(self) -> list[tuple[ir.Value, int] | None]:
        """Returns an operand and its dimension that is as long as the loop, for each loop."""
        found: list[tuple[ir.Value, int] | None] = [None] * len(self.iterators)
        for value, exprs in zip(self.operands, self.maps, strict=True):
            for position, expr in enumerate(exprs):
                plain = expr.maybe_downcast()
                if isinstance(plain, ir.AffineDimExpr) and found[plain.position] is None:
                    found[plain.position] = (value, position)
        return found

    def static_sizes(self) -> list[int | None]:
        """Returns the length of each loop; None if it is not known at compile time."""
        sizes: list[int | None] = []
        for extent in self.extents():
            assert extent is not None, "linalg.generic has a loop that no operand spans"
            kind = ir.RankedTensorType(extent[0].type)
            sizes.append(None if kind.is_dynamic_dim(extent[1]) else kind.shape[extent[1]])
        return sizes

    def sizes(self) -> list[Index]:
        """Returns the length of each loop; emits code for those not known at compile time."""
        return [
            size if size is not None else tensor.dim(extent[0], value_of(extent[1]))
            for size, extent in zip(self.static_sizes(), self.extents(), strict=True)
            if extent is not None
        ]

    def fill_value(self, output: int) -> ir.Value | None:
        """Returns the scalar that destination `output` was filled with; None if it holds something else."""
        filler = as_generic(sliced(self.outputs[output]))
        return None if filler is None else filler.filled_with()

    def filled_with(self) -> ir.Value | None:
        """Returns the scalar that this op writes everywhere; None if it computes something."""
        if self.num_inputs != 1 or isinstance(self.operands[0].type, ir.ShapedType):
            return None
        (yielded,) = self.block.operations[len(self.block.operations) - 1].operands
        return self.operands[0] if yielded == self.block.arguments[0] else None


def as_generic(value: ir.Value) -> Generic | None:
    """Returns the linalg.generic that makes `value`, if there is one."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != "linalg.generic" else Generic(owner.operation)


def sliced(value: ir.Value) -> ir.Value:
    """Returns the tensor that `value` is a slice of, or `value` itself."""
    owner = value.owner
    is_slice = not isinstance(owner, ir.Block) and owner.name == "tensor.extract_slice"
    return owner.operands[0] if is_slice else value


def padded(value: ir.Value) -> Padded | None:
    """Looks through slices for constant padding; returns None if there is none."""
    shift: list[Index] = [0] * ir.RankedTensorType(value.type).rank
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "tensor.extract_slice":
        if any(step != 1 for step in ir.DenseI64ArrayAttr(owner.attributes["static_strides"])):
            return None
        source = owner.operands[0]
        if ir.RankedTensorType(source.type).rank != len(shift):
            return None
        dynamic = iter(list(owner.operands)[1:])
        marker = ir.ShapedType.get_dynamic_stride_or_offset()
        offsets = ir.DenseI64ArrayAttr(owner.attributes["static_offsets"])
        shift = [next(dynamic) if offset == marker else offset for offset in offsets]
        owner = source.owner
    if isinstance(owner, ir.Block) or owner.name != "tensor.pad":
        return None
    block = owner.operation.regions[0].blocks[0]
    (value,) = block.operations[len(block.operations) - 1].operands
    low = ir.DenseI64ArrayAttr(owner.attributes["static_low"])
    moved = tuple(subtract(index, by) for index, by in zip(shift, low, strict=True))
    return Padded(owner.operands[0], moved, value)
