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
from .elements import check_scores
from .problem import Attention, NoAttention, attention_of
from .simt import FmaTiles
from .tensor import FORMS, MmaTiles

Tiles = FmaTiles | MmaTiles
_METHODS: Mapping[str, type[Tiles]] = {"fma": FmaTiles, "mma": MmaTiles}
# Lines of fewer elements, and longer ones than this, do not fit the tiles.
_SHORTEST, _LONGEST = 8, 256
# The largest tiles come first; of rows of the result, of keys.
_SIZES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "fma": ((8, 4, 2), (64, 32, 16)),
    "mma": ((2, 1), (64, 32)),
}


def choose(function: ir.Operation, target: Target) -> Mapping[str, Any] | None:
    """The numbers for a launch; None where it is no attention."""
    assert target.capability is not None
    try:
        attention = attention_of(function, memories(function))
        check_scores(attention)
    except NoAttention:
        return None
    lines = (attention.sizes["d"], attention.sizes["v"])
    method = _method(attention)
    if method is None or min(lines) < _SHORTEST or max(lines) > _LONGEST:
        return None
    return _fitting(method, attention, target.capability)


def emit(launch: Launch, _values: Values) -> Geometry:
    """Writes the kernel."""
    attention = attention_of(launch.function, launch.arguments)
    numbers = {name: int(str(number)) for name, number in launch.schedule.items() if name != "method"}
    pointers = {item.base: memory.global_memory(item.base) for item in launch.arguments.values()}
    tiles = _METHODS[str(launch.schedule["method"])](**numbers)
    blocks = tiles.block(attention, pointers).emit()
    return Geometry((blocks, 1, 1), (tiles.threads, 1, 1), shared_bytes=tiles.shared_bytes(attention))


def _method(attention: Attention) -> str | None:
    """What multiplies: tensor cores where operands are 16-bit floats, as float32 is exact."""
    kinds = {str(operand.element) for operand in (attention.query, attention.key, attention.value)}
    if kinds == {"f32"}:
        return "fma"
    return "mma" if len(kinds) == 1 and kinds <= set(FORMS) else None


def _fitting(method: str, attention: Attention, capability: Capability) -> Mapping[str, Any] | None:
    """The largest tiles that fit, and no larger than the rows are many."""
    rows = attention.sizes["g"] * attention.sizes["q"]
    downs, keys_of_tiles = _SIZES[method]
    for down in downs:
        if down > downs[-1] and _METHODS[method](down, keys_of_tiles[0]).rows // 2 >= rows:
            continue
        for keys in keys_of_tiles:
            tiles = _METHODS[method](down, keys)
            if tiles.shared_bytes(attention) <= capability.shared_bytes and tiles.fits_registers(attention):
                return {"method": method, "down": down, "keys": keys}
    return None
