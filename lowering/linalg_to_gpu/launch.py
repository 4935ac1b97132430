"""What an emitter gets and gives: a launch, its arguments in memory, and how many threads do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, vector

from ...passes.functions import body_of
from ...passes.kernel.views import row_major
from ..target import Capability, Target
from .indices import Index, add, offset, value_of

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class TensorMap:
    """A tensor that the copy engine reads or writes by boxes: a further argument of the kernel, of 128 bytes.

    Attributes:
        argument: which argument of the launch holds the tensor.
        element: its element type, as `runtime.cuda.launch_plan.ELEMENT_BYTES` names it.
        sizes: elements in each dimension, innermost first, as all that follows.
        strides: bytes from element to element in each dimension but the innermost.
        box: the elements of one copy in each dimension.
        swizzle: how many bytes 16-byte pieces are permuted within.
        fill: what is read out of bounds, "zero" or "nan".
        promotion: bytes that a miss brings to the second-level cache.
        steps: of which elements one is taken; all 1 if empty.
        offset: bytes from the argument's first element to the tensor's.
    """

    argument: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zero"
    promotion: int = 128
    steps: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True)
class Geometry:
    """How many threads do a launch.

    Attributes:
        grid: blocks in x, y and z.
        block: threads of a block in x, y and z.
        cluster: blocks of a cluster; (1, 1, 1) for none.
        shared_bytes: dynamic shared memory of a block.
        blocks_per_multiprocessor: how many blocks the code must leave registers for; 0 for any.
    """

    grid: Dims
    block: Dims
    cluster: Dims = (1, 1, 1)
    shared_bytes: int = 0
    blocks_per_multiprocessor: int = 0


@dataclass(frozen=True)
class Memory:
    """An argument of a launch as a kernel sees it: elements some strides apart.

    Attributes:
        base: a memref of one dimension; where there is no code for a GPU yet, the tensor.
        shape: its extents.
        strides: elements from one index of each dimension to the next.
        alignment: what the address of `base` is a multiple of, in bytes.
        offset: the element of `base` at which it begins.
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
        """The size of an element."""
        return width_of(self.element) // 8

    def width(self, most_bytes: int = 16) -> int:
        """How many neighbours along the last dimension one access may take, at indices that are multiples of that."""
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
        """The element at some indices, or a vector of `width` neighbours along the last dimension."""
        place = [self._place(indices)]
        if width == 1:
            return ir.Operation.create("memref.load", [self.element], [self.base, *place]).result
        kind = ir.VectorType.get([width], self.element)
        return vector.LoadOp(kind, self.base, place, alignment=width * self.element_bytes).result

    def store(self, value: ir.Value, indices: Sequence[Index]) -> None:
        """Writes an element, or a vector of neighbours along the last dimension."""
        place = [self._place(indices)]
        if not isinstance(value.type, ir.VectorType):
            ir.Operation.create("memref.store", [], [value, self.base, *place])
            return
        size = ir.VectorType(value.type).shape[0] * self.element_bytes
        vector.StoreOp(value, self.base, place, alignment=size)

    def _place(self, indices: Sequence[Index]) -> ir.Value:
        return value_of(add(self.offset, offset(indices, self.strides)))


@dataclass
class Launch:
    """What an emitter turns into the body of a GPU kernel.

    Attributes:
        function: a `func.func` of linalg on tensors: inputs first, the destination last, whose new contents it returns.
        schedule: the numbers of its schedule by name.
        target: what to make code for.
        arguments: its arguments in memory, by the function's block arguments.
        kernel: the `gpu.func` that is being written.
        maps: the tensor maps that the emitter asked for.
    """

    function: ir.Operation
    schedule: Mapping[str, object]
    target: Target
    arguments: Mapping[ir.Value, Memory]
    kernel: ir.Operation
    maps: list[TensorMap] = field(default_factory=list)

    @property
    def capability(self) -> Capability:
        """What the GPU has."""
        assert self.target.capability is not None
        return self.target.capability

    @property
    def inputs(self) -> Sequence[ir.Value]:
        """The tensors that are read."""
        return list(body_of(self.function).arguments)[:-1]

    @property
    def destination(self) -> Memory:
        """Where the result goes."""
        return self.arguments[list(body_of(self.function).arguments)[-1]]

    @property
    def result(self) -> ir.Value:
        """The tensor that is returned."""
        operations = body_of(self.function).operations
        return operations[len(operations) - 1].operands[0]

    def add_map(self, tensor_map: TensorMap) -> ir.Value:
        """A further argument of the kernel: the address of a tensor map."""
        self.maps.append(tensor_map)
        return body_of(self.kernel).add_argument(ir.Type.parse("!llvm.ptr"), self.kernel.location)


def width_of(element: ir.Type) -> int:
    """The bits of an element in memory."""
    if isinstance(element, ir.IntegerType):
        return max(8, element.width)
    return 64 if isinstance(element, ir.IndexType) else ir.FloatType(element).width


def is_row_major(memory: Memory) -> bool:
    """Whether its elements lie side by side."""
    pairs = zip(memory.shape, memory.strides, row_major(memory.shape), strict=True)
    return all(extent == 1 or stride == wanted for extent, stride, wanted in pairs)


def thread_id(axis: str = "x") -> ir.Value:
    """The number of this thread in its block along an axis."""
    return _place("gpu.thread_id", axis)


def block_id(axis: str = "x") -> ir.Value:
    """The number of this block in the grid along an axis."""
    return _place("gpu.block_id", axis)


def _place(name: str, axis: str) -> ir.Value:
    attributes = {"dimension": ir.Attribute.parse(f"#gpu<dim {axis}>")}
    return ir.Operation.create(name, [ir.IndexType.get()], [], attributes).result


def below(index: ir.Value, limit: int) -> ir.Value:
    """Whether an index is smaller than a number."""
    return arith.cmpi(arith.CmpIPredicate.ult, index, value_of(limit))
