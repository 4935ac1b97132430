"""`stepwell-lower-matrix-tiles`: converts products of two-dimensional tiles to instructions of a matrix unit (AMX)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, llvm, memref, scf, vector

from ...dialects.types import numpy_dtype
from ...machines import caches
from ...machines.matrix_units import LINE_BYTES, REGISTERS, configuration
from ...passes.infra.base import Pass, PassError, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, kernels_in
from ...passes.ir.named_ops import ops_named
from ..target import Target
from .passing_tiles import passes_by

_ITERATORS = 4
"""Dimensions of a product of tiles: rows, columns, grains, and the elements of a grain."""

_SUM_RANK, _SUM_BYTES = 2, 4
"""Dimensions of a tile of sums, and the size of a sum in bytes."""

_WIDENING = ("arith.extui", "arith.extsi", "arith.extf", "vector.shape_cast")

Shapes = tuple[tuple[int, int], ...]
"""Rows and bytes per row of every tile register; 0 for those that are not used."""


@register
@dataclass(frozen=True)
class LowerMatrixTilesPass(Pass):
    """Convert products of two-dimensional tiles to loads, products and stores of tile registers.

    ```mlir
    %1 = scf.for ... iter_args(%0 = %zeros) -> (vector<16x16xi32>) {
      %a = vector.transfer_read %x[%c0, %c0, %c0] : memref<16x16x4xi8, strided<[256, 4, 1]>>, vector<16x16x4xi8>
      %w = vector.transfer_read %y[%c0, %c0] : memref<16x64xi8>, vector<16x64xi8>
      %2 = vector.contract (arith.extui %a) (arith.extsi (vector.shape_cast %w)) %0
      scf.yield %2
    }
    vector.transfer_write %1, %s[%c0, %c0]
    // -->
    llvm.call_intrinsic "llvm.x86.ldtilecfg"(%shapes)
    llvm.call_intrinsic "llvm.x86.tilezero"(0)
    scf.for ... {
      llvm.call_intrinsic "llvm.x86.tileloadd64"(1, %x_pointer, 256)
      llvm.call_intrinsic "llvm.x86.tileloadd64"(2, %y_pointer, 64)
      llvm.call_intrinsic "llvm.x86.tdpbusd"(0, 1, 2)
    }
    llvm.call_intrinsic "llvm.x86.tilestored64"(0, %s_pointer, 64)
    llvm.call_intrinsic "llvm.x86.tilerelease"()
    ```

    Registers are assigned here, not by LLVM, which fixes the shape of each for the whole function. Shapes are set
    outside of all loops that have no others. Weights that pass an input in the first-level cache, which does not hold
    both, are loaded by `tileloaddt164`, which does not replace what is there. Without such a unit, the products stay;
    `stepwell-lower-vectors` then computes them in vectors.

    Preconditions: bufferised.

    Attributes:
        target: machine that the kernels are for, in the form that `Target.parse` accepts.
    """

    name = "stepwell-lower-matrix-tiles"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every kernel that has such products."""
        machine = Target.parse(self.target).machine
        if not machine.matrix_rate:
            return
        for kernel in kernels_in(op):
            if any(_is_tile_product(inner) for inner in ops_named(kernel, "vector.contract")):
                _Lowering(caches.near_bytes(machine)).run(kernel)


def _is_tile_product(op: ir.Operation) -> bool:
    """Returns whether an op is a product of tiles, the only contraction of this many dimensions."""
    return op.name == "vector.contract" and len(ir.ArrayAttr(op.attributes["iterator_types"])) == _ITERATORS


@dataclass
class _Pool:
    """Registers for tiles of one operand, the least recently used of which is loaded next.

    Attributes:
        numbers: the registers.
        passes: whether its tiles only pass through the first-level cache.
    """

    numbers: list[int]
    passes: bool = False
    _held: dict[ir.Value, int] = field(default_factory=dict)

    def register_of(self, read: vector.TransferReadOp) -> int:
        """Returns the register that holds what an op reads; loads it if there is none."""
        number = self._held.pop(read.result, None)
        if number is None:
            free = [item for item in self.numbers if item not in self._held.values()]
            number = free[0] if free else self._held.pop(next(iter(self._held)))
            _load(number, read, passes=self.passes)
        self._held[read.result] = number
        return number


@dataclass
class _Lowering:
    """The tile registers that hold the two-dimensional vectors of a kernel.

    Attributes:
        near: bytes that stay in the first-level cache.
    """

    near: int
    _sums: dict[ir.Value, int] = field(default_factory=dict)
    _old: list[ir.Operation] = field(default_factory=list)
    _sites: list[tuple[ir.Operation, Shapes]] = field(default_factory=list)
    _marker: ir.Operation | None = None

    def run(self, kernel: ir.Operation) -> None:
        """Rewrites a kernel."""
        body = body_of(kernel)
        self._visit(body)
        for op in reversed(self._old):
            op.erase()
        # Nothing reads the vectors any more; lowering them would take a thousand ops each.
        for op in reversed(ops_named(kernel, *_WIDENING, "vector.transfer_read")):
            if _is_tile(op.results[0].type) and not any(True for _ in op.results[0].uses):
                op.erase()
        for place, shapes in _outermost(self._sites, kernel):
            with place.location, ir.InsertionPoint(place):
                _configure(shapes)
        last = body.operations[len(body.operations) - 1]
        with last.location, ir.InsertionPoint(last):
            _emit("tilerelease", [])

    def _visit(self, block: ir.Block) -> None:
        for op in [item.operation for item in block.operations]:
            with op.location, ir.InsertionPoint(op):
                if op.name == "scf.for" and any(map(_is_sum, list(op.operands)[3:])):
                    with self._site():
                        self._loop(op)
                elif _is_tile_product(op) and op.results[0] not in self._sums:
                    with self._site():
                        self._products(block, op)
                elif op.name == "vector.transfer_write" and op.operands[0] in self._sums:
                    self._store(op.opview)
                else:
                    for region in op.regions:
                        for inner in region.blocks:
                            self._visit(inner)

    @contextmanager
    def _site(self) -> Iterator[None]:
        """Marks, outside of loops that carry sums, where the registers must have their shapes."""
        if self._marker is not None:
            yield
            return
        self._marker = arith.ConstantOp(ir.IndexType.get(), 0).operation
        yield
        self._marker = None

    def _loop(self, op: ir.Operation) -> None:
        """Replaces a loop that carries sums by one whose sums are in registers."""
        # Products in the loop, which use its arguments, are erased before it.
        self._old.append(op)
        lower, upper, step, *starts = op.operands
        old = op.regions[0].blocks[0]
        index, *carried = old.arguments
        sums = {number for number, value in enumerate(starts) if _is_sum(value)}
        registers = {number: self._start(starts[number], number) for number in sorted(sums)}
        others = [number for number in range(len(starts)) if number not in sums]
        loop = scf.ForOp(lower, upper, step, [starts[number] for number in others])
        for item in op.attributes:
            loop.operation.attributes[item.name] = item.attr
        index.replace_all_uses_with(loop.induction_variable)
        for number, after, result in zip(others, loop.inner_iter_args, loop.results, strict=True):
            carried[number].replace_all_uses_with(after)
            op.results[number].replace_all_uses_with(result)
        for number, place in registers.items():
            self._sums[carried[number]] = self._sums[op.results[number]] = place
        *inside, yielded = [item.operation for item in old.operations]
        for inner in inside:
            inner.detach_from_parent()
            loop.body.append(inner)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp([yielded.operands[number] for number in others])
        self._visit(loop.body)
        self._check_order(yielded, registers)
        yielded.erase()

    def _check_order(self, yielded: ir.Operation, registers: dict[int, int]) -> None:
        """Checks that each sum stays in its register.

        Raises:
            PassError: it does not.
        """
        for number, place in registers.items():
            if self._sums.get(yielded.operands[number]) != place:
                raise PassError("sums of a matrix unit must not change places in a loop", yielded.location)

    def _start(self, value: ir.Value, number: int) -> int:
        """Returns the register of a sum; the `number`th if it has none yet, in which it is loaded or set to 0.

        Raises:
            PassError: the sum begins with something else.
        """
        if value in self._sums:
            return self._sums[value]
        op = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if op is not None and op.name == "vector.transfer_read":
            view = op.opview
            assert isinstance(view, vector.TransferReadOp)
            _load(number, view)
        elif op is not None and _is_zero(op):
            _emit("tilezero", [_register(number)])
        else:
            raise PassError("sums of a matrix unit must begin with 0 or in memory", value.location)
        return number

    def _products(self, block: ir.Block, first: ir.Operation) -> None:
        """Rewrites the products from `first` on up to the next store of a tile, which add to different sums."""
        rest = itertools.dropwhile(lambda op: op != first, [op.operation for op in block.operations])
        near = itertools.takewhile(lambda op: op.name != "vector.transfer_write", rest)
        products = [op for op in near if _is_tile_product(op)]
        operands = [[_source(value) for value in list(op.operands)[:2]] for op in products]
        counts = [len({read.result for read in reads}) for reads in zip(*operands, strict=True)]
        free = REGISTERS - len(products)
        if free < 2:
            raise PassError(f"{len(products)} sums of a matrix unit leave no register for its operands", first.location)
        middle = len(products) + max(1, min(counts[0], free - 1))
        assert self._marker is not None
        inputs, weights = zip(*operands, strict=True)
        passes = passes_by(inputs, weights, first, self._marker, self.near)
        pools = _Pool([*range(len(products), middle)]), _Pool([*range(middle, REGISTERS)], passes)
        for number, (op, reads) in enumerate(zip(products, operands, strict=True)):
            with op.location, ir.InsertionPoint(op):
                total = self._start(op.operands[2], number)
                tiles = [pool.register_of(read) for pool, read in zip(pools, reads, strict=True)]
                _emit(_product_of(op), [_register(item) for item in (total, *tiles)])
            self._sums[op.results[0]] = total
            self._old.append(op)
        shapes = [_shape(products[0].results[0].type)] * len(products)
        for pool, read in zip(pools, operands[0], strict=True):
            shapes += [_shape(read.result.type)] * len(pool.numbers)
        self._sites.append((self._marker, tuple(shapes)))

    def _store(self, view: ir.OpView) -> None:
        assert isinstance(view, vector.TransferWriteOp)
        _emit("tilestored64", [_register(self._sums[view.valueToStore]), *_place(view)])
        self._old.append(view.operation)


def _is_sum(value: ir.Value) -> bool:
    """Returns whether a value is a tile of sums; loops carry vectors of two dimensions only for these."""
    return isinstance(value.type, ir.VectorType) and value.type.rank == _SUM_RANK


def _is_tile(kind: ir.Type) -> bool:
    return isinstance(kind, ir.VectorType) and kind.rank >= _SUM_RANK


def _outermost(sites: Sequence[tuple[ir.Operation, Shapes]], kernel: ir.Operation) -> list[tuple[ir.Operation, Shapes]]:
    """Returns where to set which shapes: once before everything that has no others."""
    chains = [(_parents(site, kernel), shapes) for site, shapes in sites]
    found: dict[ir.Operation, Shapes] = {}
    for chain, shapes in chains:
        clashing = {op for others, other in chains if other != shapes for op in others}
        outer = [op for op in chain if op not in clashing]
        found.setdefault(outer[-1], shapes)
    return list(found.items())


def _parents(op: ir.Operation, kernel: ir.Operation) -> list[ir.Operation]:
    """Returns an op and the ops around it, up to those in the body of a kernel."""
    chain = [op]
    while chain[-1].parent is not None and chain[-1].parent != kernel:
        chain.append(chain[-1].parent)
    return chain


def _configure(shapes: Shapes) -> None:
    """Sets the shapes of the tile registers."""
    config = configuration(shapes)
    byte = ir.IntegerType.get_signless(8)
    kind = ir.VectorType.get([len(config)], byte)
    numbers = [ir.IntegerAttr.get(byte, number - (number >= 128) * 256) for number in config]
    buffer = memref.alloca(ir.MemRefType.get([len(config)], byte), [], [], alignment=LINE_BYTES)
    start = arith.constant(ir.IndexType.get(), 0)
    vector.store(arith.constant(kind, ir.DenseElementsAttr.get(numbers, kind)), buffer, [start])
    _emit("ldtilecfg", [_pointer(buffer, [start], 1)])


def _source(value: ir.Value) -> vector.TransferReadOp:
    """Returns the read of a tile that is extended to the type of the sums.

    Raises:
        PassError: the tile does not come from memory.
    """
    op = value.owner
    while not isinstance(op, ir.Block) and op.name in _WIDENING:
        op = op.operands[0].owner
    view = None if isinstance(op, ir.Block) else op.operation.opview
    if not isinstance(view, vector.TransferReadOp):
        raise PassError("operands of a matrix unit must come from memory", value.location)
    return view


def _is_zero(op: ir.Operation) -> bool:
    if op.name == "vector.broadcast":
        source = op.operands[0].owner
        return not isinstance(source, ir.Block) and _is_zero(source.operation)
    if op.name != "arith.constant":
        return False
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        return value.is_splat and _is_zero_number(value.get_splat_value())
    return _is_zero_number(value)


def _is_zero_number(value: ir.Attribute) -> bool:
    return isinstance(value, ir.IntegerAttr | ir.FloatAttr) and value.value == 0


def _product_of(op: ir.Operation) -> str:
    """Returns the instruction that multiplies tiles of an element type."""
    left, right = list(op.operands)[:2]
    if isinstance(ir.VectorType(_source(left).result.type).element_type, ir.BF16Type):
        return "tdpbf16ps"
    return f"tdpb{_sign_of(left)}{_sign_of(right)}d"


def _sign_of(value: ir.Value) -> str:
    """Returns the letter for bytes that are extended with their sign, or without."""
    op = value.owner
    assert isinstance(op, ir.Operation | ir.OpView)
    return "s" if op.operation.name == "arith.extsi" else "u"


def _shape(kind: ir.Type) -> tuple[int, int]:
    """Returns the rows of the register for a tile, and the bytes of each."""
    tile = ir.VectorType(kind)
    rows, *row = tile.shape
    return rows, math.prod(row) * numpy_dtype(tile.element_type).itemsize


def _load(number: int, view: vector.TransferReadOp, *, passes: bool = False) -> None:
    _emit("tileloaddt164" if passes else "tileloadd64", [_register(number), *_place(view)])


def _place(view: vector.TransferReadOp | vector.TransferWriteOp) -> list[ir.Value]:
    """Returns where a tile is in memory: a pointer, and the distance of its rows in bytes."""
    memory = ir.MemRefType(view.base.type)
    strides, _ = memory.get_strides_and_offset()
    element = numpy_dtype(memory.element_type).itemsize
    dim = ir.AffineDimExpr(view.permutation_map.value.results[0]).position
    distance = arith.constant(ir.IntegerType.get_signless(64), strides[dim] * element)
    return [_pointer(view.base, view.indices, element), distance]


def _pointer(base: ir.Value, indices: Sequence[ir.Value], element: int) -> ir.Value:
    """Returns the address of an element of a buffer."""
    index = ir.IndexType.get()
    _, place, *rest = memref.ExtractStridedMetadataOp(base).operation.results
    strides = rest[len(rest) // 2 :]
    for number, stride in zip(indices, strides, strict=True):
        place = arith.addi(place, arith.muli(number, stride))
    start = memref.extract_aligned_pointer_as_index(base)
    address = arith.addi(start, arith.muli(place, arith.constant(index, element)))
    number = arith.index_cast(ir.IntegerType.get_signless(64), address)
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr"), number)


def _emit(name: str, operands: Sequence[ir.Value]) -> None:
    """Emits an instruction of the unit."""
    llvm.CallIntrinsicOp(None, ir.StringAttr.get(f"llvm.x86.{name}"), list(operands), [], [])


def _register(number: int) -> ir.Value:
    """Returns the number of a register as an operand, which must be constant."""
    return arith.constant(ir.IntegerType.get_signless(8), number)
