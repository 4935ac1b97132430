"""Finds the search space of a kernel."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects import discardable
from ....dialects.discardable import KernelFacts
from ....passes.ir.functions import class_of
from ....passes.ir.rewriting import walk
from ...target import Target
from ..apply_schedules import SCHEDULES
from ..schedules.attention import role_of
from ..schedules.steps import steps_of
from ..schedules.tiles import groups_of
from ..tile_reads import Indexing
from ..winograd.steps import WinogradSteps
from .loops import LoopSpace
from .others import AttentionSpace, WinogradSpace
from .space import SearchSpace
from .tiled import TiledSpace

_LOOPS = {"elementwise", "reduction", "pooling", "movement"}
_TILED = {"contraction", "convolution", "depthwise"}


def space_of(kernel: ir.Operation, target: Target) -> SearchSpace | None:
    """Returns the search space of a kernel in the phase `kernels`; None if its schedule has no choices.

    Args:
        kernel: the kernel, which is changed: a copy, without a schedule.
        target: the machine.
    """
    kind = class_of(kernel)
    if kind in _TILED:
        groups = [group.extents for group in groups_of(kernel, target.machine)]
        default = SCHEDULES[kind](kernel, target).parameters
        return TiledSpace.of(groups, default, is_depthwise=kind == "depthwise") if groups else None
    if kind == "winograd":
        return _winograd(kernel, target)
    if kind == "attention":
        return _attention(kernel, target)
    if kind not in _LOOPS:
        return None
    if kind == "reduction" and any(op.name == "tensor.pad" for op in walk(kernel)):
        kind = "pooling"
    default = {"vector_bytes": target.vector_bytes, **SCHEDULES[kind](kernel, target).parameters}
    steps = steps_of(kernel)
    moved = discardable.KERNEL.read(kernel, KernelFacts()).bytes or 0
    return LoopSpace.of(kind, steps, default, target, moved) if steps else None


def _winograd(kernel: ir.Operation, target: Target) -> SearchSpace:
    steps = WinogradSteps.of(kernel)
    tiles, strips = steps.tiles, steps.strips  # the schedule replaces the steps
    default = SCHEDULES["winograd"](kernel, target).parameters
    return WinogradSpace(target.machine, default, WinogradSpace.axes_of(tiles), tiles=tiles, strips=strips)


def _attention(kernel: ir.Operation, target: Target) -> SearchSpace | None:
    roles = {role: op for op in walk(kernel) if (role := role_of(op)) is not None}
    if "result" not in roles or discardable.KEYS.is_on(kernel):
        return None  # few queries, or a varying number of keys
    sizes: dict[str, int] = {}
    for role in ("scores", "sum"):
        loops = discardable.LOOPS.required(roles[role])
        sizes |= dict(zip(loops, Indexing(roles[role]).sizes, strict=True))
    heads = math.prod(size for name, size in sizes.items() if name not in "qkvd")
    default = SCHEDULES["attention"](kernel, target).parameters
    return AttentionSpace.of({name: sizes[name] for name in "qkvd"}, heads, default, target)
