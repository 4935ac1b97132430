"""The schedule `attention`: a block of queries after the other, scores and weights never in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir import ir

from ...target import Capability, Target
from .. import memory
from ..launch import Geometry, Launch
from ..values import Values
from ..views import memories
from . import simt
from .elements import check_scores
from .problem import Attention, NoAttention, attention_of

# Lines of fewer elements, and longer ones than this, do not fit the tiles.
_SHORTEST, _LONGEST = 8, 256
_DOWN, _KEYS = (8, 4, 2), (64, 32, 16)


def choose(function: ir.Operation, target: Target) -> Mapping[str, Any] | None:
    """The numbers for a launch; None where it is no attention."""
    assert target.capability is not None
    try:
        attention = attention_of(function, memories(function))
        check_scores(attention)
    except NoAttention:
        return None
    lines = (attention.sizes["d"], attention.sizes["v"])
    if min(lines) < _SHORTEST or max(lines) > _LONGEST or not _is_single(attention):
        return None
    return _fma(attention, target.capability)


def emit(launch: Launch, _values: Values) -> Geometry:
    """Writes the kernel."""
    attention = attention_of(launch.function, launch.arguments)
    numbers = {name: int(str(number)) for name, number in launch.schedule.items() if name != "method"}
    pointers = {item.base: memory.global_memory(item.base) for item in launch.arguments.values()}
    tiles = simt.Tiles(**numbers)
    blocks = simt.emit(attention, tiles, pointers)
    return Geometry((blocks, 1, 1), (simt.THREADS, 1, 1), shared_bytes=tiles.shared_bytes(attention))


def _is_single(attention: Attention) -> bool:
    operands = (attention.query, attention.key, attention.value)
    return all(isinstance(operand.element, ir.F32Type) for operand in operands)


def _fma(attention: Attention, capability: Capability) -> Mapping[str, Any] | None:
    """The largest tiles that fit, and no larger than the rows are many."""
    rows = attention.sizes["g"] * attention.sizes["q"]
    for keys in _KEYS:
        for down in _DOWN:
            tiles = simt.Tiles(down, keys)
            fits = tiles.shared_bytes(attention) <= capability.shared_bytes
            if fits and (down == _DOWN[-1] or tiles.rows // 2 < rows):
                return {"method": "fma", "down": down, "keys": keys}
    return None
