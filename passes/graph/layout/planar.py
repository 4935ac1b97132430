"""Chooses the image ops that keep their channels first, as in the program's inputs and results.

Between them and a channels-last op an image is transposed, which may take longer than the op itself. So ops that can
work plane by plane do so if all images around them come from the program's inputs and become its results. There, a
convolution of single pixels is a product of its weight with the planes; depthwise convolutions and poolings slide along
rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects.core import Op
from ....dialects.registry import OPS, view_of
from ....dialects.specs import size_of
from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.elementwise import BinaryOp, CastOp, ComparisonOp, LogicalOp, MaskOp, SelectOp, UnaryOp
from ....dialects.stepwell.elementwise.arithmetic import AddOp
from ....dialects.stepwell.movement import ConcatOp, ReshapeOp, ResizeOp, SliceOp
from ....dialects.stepwell.normalization import BatchNormOp, LocalResponseNormOp
from ....dialects.stepwell.planar import PlanarConvOp
from ....dialects.stepwell.pooling import PoolOp
from ....dialects.stepwell.windows import Window
from ....machines.machine import Machine
from ....machines.paces import Paces, paces_of
from ...infra.decisions import Decisions, Site, key_of
from ...ir.locations import names_in
from ...ir.rewriting import Pattern, Replacement
from ..values import is_fixed, is_float, static_shape

IMAGE_OPS = (ConvOp, ConvTransposeOp, PoolOp, ResizeOp, LocalResponseNormOp, BatchNormOp)
"""The ops that have a layout."""

_WITHOUT_LAYOUT = (UnaryOp, BinaryOp, CastOp, ComparisonOp, MaskOp, LogicalOp, SelectOp, ConcatOp)

# Cost factor of a weight whose rows are whole pages apart, so that they evict each other from the L1 cache.
_CONFLICTS = 1.15

_FLOAT_BYTES = 4
"""Size in bytes of a float32, the type that the costs are estimated for."""

_IMPOSSIBLE = math.inf


PLANES, PIXELS = "channels_first", "channels_last"
"""The layouts of a group of ops on images."""


def planar_images(body: ir.Block, machine: Machine, decisions: Decisions) -> list[ir.Value]:
    """The results of the ops of a block that are faster plane by plane.

    Args:
        body: body of @main.
        machine: the machine.
        decisions: decisions on the layout of components.
    """
    found: list[ir.Value] = []
    for component in _components(body):
        better = component.ops
        default = component.fastest(machine)
        if decisions.make(default, functools.partial(component.site, machine, default)) == PIXELS:
            # An image of one channel has the same layout either way, so such an op is decided independently.
            single = (op for op in better if _has_single_channels(op))
            better = [op for op in single if _planes_cost(op, machine) < _pixels_cost(op, machine)]
        found += [op.operation.results[0] for op in better]
    return found


@dataclass
class _Component:
    """Image ops connected directly or through ops without a layout.

    Attributes:
        ops: the image ops.
        inputs: images from outside the component.
        results: images read outside the component.
        is_closed: whether all inputs are program inputs and all results program results.
        is_static: whether the shapes of all images are known.
    """

    ops: Sequence[ConvOp | ConvTransposeOp | PoolOp | ResizeOp | LocalResponseNormOp | BatchNormOp]
    inputs: list[ir.Value]
    results: list[ir.Value]
    is_closed: bool
    is_static: bool

    def planes_cost(self, machine: Machine) -> float:
        """The estimated time of the component in nanoseconds with channels first."""
        return sum(_planes_cost(op, machine) for op in self.ops) if self.is_closed and self.is_static else _IMPOSSIBLE

    def pixels_cost(self, machine: Machine) -> float:
        """The estimated time in nanoseconds with channels last, including the transposes around the component."""
        moved = sum(size_of(value) for value in (*self.inputs, *self.results) if not _has_one_channel(value))
        return sum(_pixels_cost(op, machine) for op in self.ops) + moved / paces_of(machine).transposed

    def fastest(self, machine: Machine) -> str:
        """The layout that takes the least time."""
        return PLANES if self.planes_cost(machine) < self.pixels_cost(machine) else PIXELS

    def site(self, machine: Machine, default: str) -> Site:
        """The decision on the layout of all ops together."""
        costs: dict[str, float | None] = {PIXELS: self.pixels_cost(machine)}
        operations = [op.operation for op in self.ops]
        nodes = [name for op in operations for name in names_in(op.location)[:1]]
        if not self.is_static:
            return Site("layout", key_of(*operations), nodes, default, costs)
        # Planes are possible too if others than the program make or read the images; no gain is expected then.
        alone = sum(_planes_cost(op, machine) for op in self.ops)
        if alone < _IMPOSSIBLE:
            costs[PLANES] = alone
        flops = sum(view.flops() for view in self.ops)
        moved = sum(_FLOAT_BYTES * size_of(value) for op in operations for value in (op.operands[0], op.results[0]))
        return Site("layout", key_of(*operations), nodes, default, costs, flops, moved)


def _components(body: ir.Block) -> Iterator[_Component]:
    """The components of all image ops of a block."""
    ops = [op.operation for op in body.operations]
    position = {result: number for number, op in enumerate(ops) for result in op.results}
    views = [view_of(op) for op in ops]
    seen: set[int] = set()
    fixed = _fixed(ops, position)
    for number, view in enumerate(views):
        if number in seen or not isinstance(view, IMAGE_OPS):
            continue
        inside, pending = {number}, [number]
        inputs: dict[ir.Value, None] = {}
        results: dict[ir.Value, None] = {}
        is_closed = True
        while pending:
            at = pending.pop()
            for value in _images(views[at]):
                maker = position.get(value)
                if maker is not None and fixed[maker]:
                    continue
                if maker is None or not isinstance(views[maker], (*IMAGE_OPS, *_WITHOUT_LAYOUT)):
                    inputs[value] = None
                    is_closed &= maker is None
                elif maker not in inside:
                    inside.add(maker)
                    pending.append(maker)
            for result in ops[at].results:
                for use in result.uses:
                    reader = next((position.get(made) for made in use.owner.results), None)
                    if reader is None or not isinstance(views[reader], (*IMAGE_OPS, *_WITHOUT_LAYOUT)):
                        results[result] = None
                        is_closed &= use.owner.operation.name == "func.return"
                    elif reader not in inside:
                        inside.add(reader)
                        pending.append(reader)
        seen |= inside
        made = [view for at in sorted(inside) if isinstance(view := views[at], IMAGE_OPS)]
        is_static = all(static_shape(value) is not None for op in made for value in (op.input, op.operation.results[0]))
        yield _Component(made, list(inputs), list(results), is_closed, is_static)


def _fixed(ops: Sequence[ir.Operation], position: Mapping[ir.OpResult, int]) -> list[bool]:
    """For each op of a block, whether it is computed only from parameters and constants."""
    found: list[bool] = []
    for op in ops:
        makers = [position.get(value) for value in op.operands]
        found.append(op.name in OPS and all(maker is not None and found[maker] for maker in makers))
    return found


def _images(op: Op | None) -> list[ir.Value]:
    """The operands of an op that are or may be images."""
    assert op is not None
    return [op.input] if isinstance(op, IMAGE_OPS) else list(op.operation.operands)


def _has_one_channel(value: ir.Value) -> bool:
    shape = static_shape(value)
    return shape is not None and (len(shape) < 3 or shape[1] == 1)


def _has_single_channels(op: Op) -> bool:
    values = op.operation.operands[0], op.operation.results[0]
    return isinstance(op, ConvOp | PoolOp) and all(static_shape(value) and _has_one_channel(value) for value in values)


def _planes_cost(op: Op, machine: Machine) -> float:
    paces, lanes = paces_of(machine), machine.lanes(_FLOAT_BYTES)
    if isinstance(op, ConvOp) and is_pointwise(op):
        places = ir.RankedTensorType(op.result.type).shape[2:]
        used = math.prod(places) / (-(-math.prod(places) // lanes) * lanes)
        picked = size_of(op.input) / math.prod(op.strides) / paces.transposed if max(op.strides) > 1 else 0
        row_bytes = ir.RankedTensorType(op.weight.type).shape[1] * _FLOAT_BYTES
        conflicts = _CONFLICTS if row_bytes % machine.page_bytes == 0 else 1
        return _flops(op) / paces.planar_flops / used * conflicts + picked
    if (isinstance(op, ConvOp) and not is_planewise(op)) or not isinstance(op, ConvOp | PoolOp):
        return _IMPOSSIBLE
    kernel = ir.RankedTensorType(op.weight.type).shape[2:] if isinstance(op, ConvOp) else op.kernel
    *rows, columns = ir.RankedTensorType(op.operation.results[0].type).shape
    vectors = math.prod(rows) * -(-columns // lanes)
    return vectors * math.prod(kernel) / paces.window_vectors + math.prod(rows) * paces.row_ns + _traffic_ns(op, paces)


def _pixels_cost(op: Op, machine: Machine) -> float:
    """The estimated time of an op in nanoseconds with channels last, which computes whole vectors of channels."""
    paces, lanes = paces_of(machine), machine.lanes(_FLOAT_BYTES)
    channels = ir.RankedTensorType(op.operation.results[0].type).shape[1]
    used = channels / -(-channels // lanes)
    if not isinstance(op, ConvOp):
        kernel = math.prod(op.kernel) if isinstance(op, PoolOp) else 1
        return size_of(op.operation.results[0]) * kernel / used / paces.window_vectors + _traffic_ns(op, paces)
    if is_planewise(op):
        return _flops(op) / 2 / used / paces.window_vectors + _traffic_ns(op, paces)
    return _flops(op) / paces.planar_flops


def _flops(op: ConvOp) -> int:
    _, channels, *kernel = ir.RankedTensorType(op.weight.type).shape
    return 2 * size_of(op.result) * channels * math.prod(kernel)


def _traffic_ns(op: Op, paces: Paces) -> float:
    elements = size_of(op.operation.operands[0]) + size_of(op.operation.results[0])
    return _FLOAT_BYTES * elements / paces.planar_bytes


def is_pointwise(op: ConvOp) -> bool:
    """Returns whether a channels-first convolution computes each pixel from one pixel."""
    outputs, _, *kernel = ir.RankedTensorType(op.weight.type).shape
    if op.layout != "channels_first" or not is_float(op.input) or not is_fixed(op.weight):
        return False
    return math.prod(kernel) == 1 and not any(op.pads) and outputs > op.group


def is_planewise(op: ConvOp) -> bool:
    """Returns whether a channels-first convolution computes each plane from one plane."""
    outputs, channels, *kernel = ir.RankedTensorType(op.weight.type).shape
    if op.layout != "channels_first" or not is_float(op.input) or min(op.pads) < 0:
        return False
    window = Window(tuple(kernel), op.strides, op.pads, op.dilations)
    return channels == 1 and outputs == op.group and window.meets_data


@dataclass(frozen=True)
class PointwiseToMatmul(Pattern[ConvOp]):
    """conv(x, w, b) --> reshape(add(matmul(w, reshape(x)), b)), if the kernel is one pixel, for `kept` results"""

    kept: list[ir.Value]
    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        if op.result not in self.kept or not is_pointwise(op):
            return None
        batch, channels, *_ = ir.RankedTensorType(op.input.type).shape
        _, outputs, *places = ir.RankedTensorType(op.result.type).shape
        image = op.input
        if max(op.strides) > 1:
            shape = tuple(ir.RankedTensorType(image.type).shape)
            image = SliceOp(image, starts=(0,) * len(shape), stops=shape, steps=(1, 1, *op.strides)).result
        around = (*((batch,) if batch > 1 else ()), *((op.group,) if op.group > 1 else ()))
        groups = (op.group,) if op.group > 1 else ()
        rows = outputs // op.group
        planes = ReshapeOp(image, shape=(*around, channels // op.group, math.prod(places))).result
        weight = ReshapeOp(op.weight, shape=(*groups, rows, channels // op.group)).result
        product = MatmulOp(weight, planes).result
        if op.bias is not None:
            product = AddOp(product, ReshapeOp(op.bias, shape=(*groups, rows, 1)).result).result
        return ReshapeOp(product, shape=(batch, outputs, *places)).result


@dataclass(frozen=True)
class PlanewiseConv(Pattern[ConvOp]):
    """conv(x, w, b) --> add(planar_conv(x, w), b), if every channel has a separate filter, for `kept` results"""

    kept: list[ir.Value]
    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        if op.result not in self.kept or not is_planewise(op):
            return None
        channels, _, *kernel = ir.RankedTensorType(op.weight.type).shape
        weight = ReshapeOp(op.weight, shape=(channels, *kernel)).result
        result = PlanarConvOp(
            op.input, weight, kernel=tuple(kernel), strides=op.strides, pads=op.pads, dilations=op.dilations
        ).result
        if op.bias is None:
            return result
        return AddOp(result, ReshapeOp(op.bias, shape=(channels, *[1] * len(kernel))).result).result
