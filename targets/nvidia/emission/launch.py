"""Interface of the emitters: a launch, its arguments in memory, and its launch geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, vector

from ....machines.gpus import Capability
from ....passes.ir.functions import body_of
from ....runtime.launch_plan import LaunchGeometry, TensorBoxes
from ..target import GpuTarget
from .indices import Index, add, offset, value_of


@dataclass(frozen=True)
class TensorMapArgument(TensorBoxes):
    """Tensor map as an extra kernel argument of 128 bytes; its buffer has no address yet when kernels are emitted.

    Attributes:
        argument: index of the launch argument that holds the tensor.
        offset: bytes from the argument's first element to the tensor's.
    """

    argument: int = field(kw_only=True)
    offset: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class EmittedGeometry(LaunchGeometry):
    """Geometry of a launch, and the occupancy that its code must permit.

    Attributes:
        blocks_per_multiprocessor: number of resident blocks that the register allocation must permit; 0 for any.
    """

    blocks_per_multiprocessor: int = 0


@dataclass(frozen=True)
class Memory:
    """Strided layout of a launch argument.

    Attributes:
        base: one-dimensional memref, or the tensor itself before GPU code is written.
        shape: extent of each dimension.
        strides: stride of each dimension in elements.
        alignment: alignment of the address of `base` in bytes.
        offset: index in `base` of the first element.
    """

    base: ir.Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int = 16
    offset: int = 0

    @property
    def element(self) -> ir.Type:
        """The element type."""
        return ir.ShapedType(self.base.type).element_type

    @property
    def element_bytes(self) -> int:
        """The size of an element in bytes."""
        return width_of(self.element) // 8

    def width(self, most_bytes: int = 16) -> int:
        """Returns the widest vector access along the last dimension, at indices that are multiples of the width."""
        if not self.shape or self.strides[-1] != 1:
            return 1
        width = max(1, most_bytes // self.element_bytes)
        while width > 1 and not self._fits(width):
            width //= 2
        return width

    def _fits(self, width: int) -> bool:
        rows = [stride for extent, stride in zip(self.shape[:-1], self.strides[:-1], strict=True) if extent > 1]
        whole = self.shape[-1] % width == 0 or len(self.shape) == 1
        return whole and not any(step % width for step in (*rows, self.offset)) and self._is_aligned(width)

    def _is_aligned(self, width: int) -> bool:
        return self.alignment % (width * self.element_bytes) == 0

    def load(self, indices: Sequence[Index], width: int = 1) -> ir.Value:
        """Loads the element at the given indices, or a vector of `width` neighbours along the last dimension."""
        place = [self._place(indices)]
        if width == 1:
            return ir.Operation.create("memref.load", [self.element], [self.base, *place]).result
        kind = ir.VectorType.get([width], self.element)
        return vector.LoadOp(kind, self.base, place, alignment=width * self.element_bytes).result

    def store(self, value: ir.Value, indices: Sequence[Index]) -> None:
        """Stores an element, or a vector of neighbours along the last dimension."""
        place = [self._place(indices)]
        if not isinstance(value.type, ir.VectorType):
            ir.Operation.create("memref.store", [], [value, self.base, *place])
            return
        size = ir.VectorType(value.type).shape[0] * self.element_bytes
        vector.StoreOp(value, self.base, place, alignment=size)

    def _place(self, indices: Sequence[Index]) -> ir.Value:
        return value_of(add(self.offset, offset(indices, self.strides)))


@dataclass
class LaunchContext:
    """Input of an emitter, which writes the body of a GPU kernel from it.

    Attributes:
        function: a `func.func` of linalg on tensors: inputs first, the destination last, whose new contents it returns.
        schedule: the parameters of its schedule by name.
        target: the target of the code.
        arguments: layout of the arguments, keyed by the function's block arguments.
        kernel: the `gpu.func` that is being written.
        maps: the tensor maps that the emitter requested.
    """

    function: ir.Operation
    schedule: Mapping[str, object]
    target: GpuTarget
    arguments: Mapping[ir.Value, Memory]
    kernel: ir.Operation
    maps: list[TensorMapArgument] = field(default_factory=list)

    @property
    def capability(self) -> Capability:
        """The compute capability of the GPU."""
        return self.target.capability

    @property
    def inputs(self) -> Sequence[ir.Value]:
        """The tensors that are read."""
        return list(body_of(self.function).arguments)[:-1]

    @property
    def destination(self) -> Memory:
        """The memory that receives the result."""
        return self.arguments[list(body_of(self.function).arguments)[-1]]

    @property
    def result(self) -> ir.Value:
        """The tensor that is returned."""
        operations = body_of(self.function).operations
        return operations[len(operations) - 1].operands[0]

    def add_map(self, tensor_map: TensorMapArgument) -> ir.Value:
        """Adds a tensor map as an argument of the kernel, and returns the map's address."""
        self.maps.append(tensor_map)
        return body_of(self.kernel).add_argument(ir.Type.parse("!llvm.ptr"), self.kernel.location)


def width_of(element: ir.Type) -> int:
    """Returns the size in memory of an element in bits."""
    if isinstance(element, ir.IntegerType):
        return max(8, element.width)
    return 64 if isinstance(element, ir.IndexType) else ir.FloatType(element).width


def thread_id(axis: str = "x") -> ir.Value:
    """Returns the index of this thread in its block along an axis."""
    return _place("gpu.thread_id", axis)


def block_id(axis: str = "x") -> ir.Value:
    """Returns the index of this block in the grid along an axis."""
    return _place("gpu.block_id", axis)


def _place(name: str, axis: str) -> ir.Value:
    attributes = {"dimension": ir.Attribute.parse(f"#gpu<dim {axis}>")}
    return ir.Operation.create(name, [ir.IndexType.get()], [], attributes).result


def below(index: ir.Value, limit: int) -> ir.Value:
    """Returns whether an index is below a limit, as an i1."""
    return arith.cmpi(arith.CmpIPredicate.ult, index, value_of(limit))
