"""The schedule `contraction`: matrix products and convolutions with the ops that follow them, in one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlir import ir
from mlir.dialects import vector

from .....passes.infra.base import PassError
from .....passes.ir.functions import body_of
from ...emission.indices import MOST_ELEMENTS
from ...emission.launch import EmittedGeometry, LaunchContext, Memory
from ...emission.values import Values
from ...emission.views import memories
from ...instructions.integers import Int
from ...instructions.memory import global_memory
from ...target import GpuTarget
from ..elements import root_before
from . import block, wgmma
from .access import OperandAccess
from .boxes import BoxedTile, box_of, boxed_tile
from .choose import ContractionRequest, choose, persistent_blocks, shared_bytes, wgmma_problem
from .copies import converted
from .cost import occupancy
from .finish import Finisher
from .index_paths import unravelled
from .matching import Contraction, contraction_of, has_other_sums, path_to_result
from .operands import ContractionOperand, computed_access, operand_of
from .tiles import CopyUnit, Problem, Tiling
from .windows import Im2colLayout, WindowTile, window_of, window_tile

_SIGNS = {"arith.extui": "u8", "arith.extsi": "s8"}
_FLOATS = ("f16", "bf16", "f8E4M3FN", "f8E5M2")
_FLOAT8_CAPABILITY = 89
"""Minimum compute capability of `mma` on eight-bit floats: sm_89 (PTX ISA, "mma")."""
_FEWEST_COLUMNS, _FEWEST_SUMS = 4, 64
"""Columns and results below which other schedules compute a contraction: a choice, as most of a tile would be
padding."""
_LEAST_ROWS = 64
"""Rows of the smallest tile of `wgmma`."""


def choose_numbers(function: ir.Operation, target: GpuTarget) -> Mapping[str, Any] | None:
    """Returns the parameters of the schedule, or None if the launch is not a supported contraction."""
    contraction = contraction_of(function)
    if contraction is None or target.capability is None or path_to_result(contraction, _root(function)) is None:
        return None
    if has_other_sums(function, contraction):
        return None
    request = request_of(contraction, memories(function), target)
    if request is None:
        return None
    tiling = choose(request, target.capability)
    return {"compute": request.compute, **{name: getattr(tiling, name) for name in Tiling.__dataclass_fields__}}


def request_of(
    contraction: Contraction, known: Mapping[ir.Value, Memory], target: GpuTarget
) -> ContractionRequest | None:
    """Returns the tiling request of a contraction, or None if its types or sizes are unsupported."""
    problem, compute = problem_of(contraction), _compute(contraction, target)
    if compute is None or problem.columns < _FEWEST_COLUMNS or problem.rows * problem.columns < _FEWEST_SUMS:
        return None
    operands = [operand_of(contraction, side, known) for side in range(2)]
    if any(_reach(contraction, side, operand) > MOST_ELEMENTS for side, operand in enumerate(operands)):
        return None
    units = [_copy_unit(contraction, side, operand, compute) for side, operand in enumerate(operands)]
    image = operand_of(contraction, 0, known, windows=True)
    by_boxes, transposed, window = _boxes(operands, image, compute)
    return ContractionRequest(problem, compute, by_boxes, transposed, tuple(units), window)


def emit(launch: LaunchContext, values: Values) -> EmittedGeometry:
    """Writes the kernel.

    Raises:
        PassError: the schedule does not fit the launch.
    """
    contraction = contraction_of(launch.function)
    if contraction is None:
        raise PassError("expected a launch with one contraction", launch.function.location)
    numbers: dict[str, Any] = dict(launch.schedule)
    compute = numbers.pop("compute")
    tiling = Tiling(**numbers)
    finisher = Finisher(launch, values, contraction)
    bounds = tiling.rows, tiling.columns
    if tiling.method == "wgmma":
        return _emit_boxed(launch, contraction, tiling, compute, finisher)
    lhs, rhs = (_source(launch, values, contraction, side, compute) for side in range(2))

    def finish(batch: Int, row: Int, column: Int, sums: list[ir.Value]) -> None:
        finisher.write(batch, row, column, sums, bounds)

    problem = problem_of(contraction)
    made = block.emit(problem, tiling, compute, lhs, rhs, finish, finisher.width)
    shared = shared_bytes(tiling, ContractionRequest(problem, compute).element_bytes)
    # Fixes the register budget to the occupancy that the tiles were chosen for: ptxas may spill to raise occupancy.
    units = [block.copy_unit_of(side.access, None if side.read else side.element, compute) for side in (lhs, rhs)]
    blocks = max(1, occupancy(tiling, shared, launch.capability, units).blocks)
    return EmittedGeometry(
        (made.blocks, 1, 1), (made.threads, 1, 1), shared_bytes=shared, blocks_per_multiprocessor=blocks
    )


def problem_of(contraction: Contraction) -> Problem:
    """Returns the sizes of a contraction."""
    return Problem(
        batch=math.prod(contraction.sizes(contraction.batch)),
        rows=math.prod(contraction.sizes(contraction.rows)),
        columns=math.prod(contraction.sizes(contraction.columns)),
        depth=math.prod(contraction.sizes(contraction.depth)),
    )


def _emit_boxed(
    launch: LaunchContext, contraction: Contraction, tiling: Tiling, compute: str, finisher: Finisher
) -> EmittedGeometry:
    tiles: list[BoxedTile] = []
    for side, size in enumerate((tiling.rows, tiling.columns)):
        operand = operand_of(contraction, side, launch.arguments)
        if operand is None:
            raise PassError("the copy engine cannot copy a computed operand", contraction.op.location)
        by_boxes = side or box_of(operand.access, size, tiling.depth)
        base = operand.memory.base
        if not by_boxes:
            operand = operand_of(contraction, side, launch.arguments, windows=True) or operand
        tiles.append(
            boxed_tile(launch, base, operand.access, size, tiling.depth)
            if by_boxes
            else window_tile(launch, operand, size, tiling.depth)
        )
    lhs, rhs = tiles
    known = problem_of(contraction)
    # Tiles of windows may have rows beyond those of the product.
    problem = wgmma_problem(known, lhs.window if isinstance(lhs, WindowTile) else None, tiling)
    blocks = persistent_blocks(problem, tiling, launch.capability)
    bounds = lhs.bound(known.rows), tiling.columns

    def finish(batch: Int, row: Int, column: Int, sums: list[ir.Value]) -> None:
        finisher.write(batch, row, column, sums, bounds)

    wgmma.emit(problem, tiling, compute, lhs, rhs, finish, max(4, finisher.width), blocks)
    bytes = wgmma.FORMS[compute].element_bytes
    shared = wgmma.shared_bytes(tiling, bytes)
    return EmittedGeometry((blocks, 1, 1), (tiling.threads, 1, 1), shared_bytes=shared, blocks_per_multiprocessor=1)


def _source(
    launch: LaunchContext, values: Values, contraction: Contraction, side: int, compute: str
) -> block.OperandSource:
    operand = operand_of(contraction, side, launch.arguments)
    tensor = contraction.op.operands[contraction.sides[side]]
    element = ir.RankedTensorType(tensor.type).element_type
    if operand is not None:
        return block.OperandSource(operand.access, element, global_memory(operand.memory.base))
    access = computed_access(contraction, side)
    wanted = block.shared_element(compute)
    shape = list(ir.RankedTensorType(tensor.type).shape)

    def read(offset: Int, width: int) -> ir.Value:
        """Returns neighbours of the computed operand from its row-major position `offset` on."""
        indices = [part.index() for part in unravelled(offset, shape)]
        with values.scope():
            lanes = values.lanes(tensor, indices, width)
        return converted(vector.from_elements(ir.VectorType.get([width], lanes[0].type), lanes), wanted)

    return block.OperandSource(access, element, read=read)


def _compute(contraction: Contraction, target: GpuTarget) -> str | None:
    """Returns the type of the products: the operands' type on tensor cores, else the target's float32 precision."""
    assert target.capability is not None
    kinds = [str(ir.RankedTensorType(contraction.op.operands[side].type).element_type) for side in contraction.sides]
    total = str(ir.RankedTensorType(contraction.result.type).element_type)
    if total == "i32":
        signs = [_SIGNS.get(name) for name in contraction.extensions]
        return f"{signs[0]}.{signs[1]}" if kinds == ["i8", "i8"] and all(signs) else None
    if total != "f32":
        return None
    if kinds[0] == kinds[1] and kinds[0] in _FLOATS:
        is_float8 = kinds[0].startswith("f8")
        return None if is_float8 and target.capability.sm < _FLOAT8_CAPABILITY else kinds[0]
    if kinds == ["f32", "f32"] and target.precision == "tf32":
        return "tf32"
    return "f32" if all(kind in ("f32", "f16", "bf16") for kind in kinds) else None


def _boxes(
    operands: list[ContractionOperand | None], image: ContractionOperand | None, compute: str
) -> tuple[bool, bool, Im2colLayout | None]:
    """Returns whether the copy engine can copy the operands, whether lines run along rows, and the windows."""
    found = [operand for operand in operands if operand is not None]
    if len(found) < len(operands) or compute not in wgmma.FORMS:
        return False, False, None
    depth = 128 // wgmma.FORMS[compute].element_bytes
    transposed = not all(operand.access.by_depth for operand in found)
    by_boxes = [box_of(operand.access, _LEAST_ROWS, depth) is not None for operand in found]
    window = None if by_boxes[0] or image is None else window_of(image.access)
    if window is not None and not all(window.box(rows) for rows in (_LEAST_ROWS, 2 * _LEAST_ROWS)):
        window = None
    return (by_boxes[0] or window is not None) and by_boxes[1], transposed, window


def _copy_unit(contraction: Contraction, side: int, operand: ContractionOperand | None, compute: str) -> CopyUnit:
    if operand is None:
        return block.copy_unit_of(computed_access(contraction, side), None, compute)
    return block.copy_unit_of(operand.access, operand.memory.element, compute)


def _reach(contraction: Contraction, side: int, operand: ContractionOperand | None) -> int:
    if operand is not None:
        return _span(operand.access)
    return _span(computed_access(contraction, side))


def _span(access: OperandAccess) -> int:
    dims = [*access.batch, *access.rows, *access.depth]
    return access.start + sum(dim.size * abs(dim.stride) for dim in dims)


def _root(function: ir.Operation) -> ir.Value:
    operations = body_of(function).operations
    destination = list(memories(function).values())[-1]
    return root_before(function, operations[len(operations) - 1].operands[0], destination)[0]
