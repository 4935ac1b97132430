"""The schedule `attention`: loops over blocks of queries, with scores and weights kept out of global memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from .....machines.gpus import Capability
from ...emission.indices import MOST_ELEMENTS
from ...emission.launch import EmittedGeometry, LaunchContext
from ...emission.values import Values
from ...emission.views import memories
from ...target import GpuTarget
from .boxed import GROUP_ROWS
from .elements import check
from .problem import Attention, NoAttention, attention_of
from .simt import FmaTiles
from .split_keys import split_long_attention
from .tensor import FORMS, MmaTiles
from .wgmma import WgmmaTiles

Tiles = FmaTiles | MmaTiles | WgmmaTiles
_METHODS: Mapping[str, type[Tiles]] = {"fma": FmaTiles, "mma": MmaTiles, "wgmma": WgmmaTiles}
# Supported range of the sizes of depth and value depth.
_SHORTEST, _LONGEST = 8, 256
# Largest tiles first: more rows read keys and values less often; more keys and stages wait less.
_TILES: Mapping[str, Sequence[Tiles]] = {
    "fma": [FmaTiles(*sizes) for sizes in itertools.product((8, 4, 2), (64, 32, 16))],
    "mma": [MmaTiles(*sizes) for sizes in itertools.product((2, 1), (64, 32))],
    "wgmma": [
        WgmmaTiles(down, keys, stages) for keys, down, stages in itertools.product((128, 64), (3, 2, 1), (4, 3, 2))
    ],
}


def choose(function: ir.Operation, target: GpuTarget) -> Mapping[str, Any] | None:
    """Returns the parameters for a launch, or None if it is not a supported attention."""
    assert target.capability is not None
    try:
        attention = attention_of(function, memories(function))
        check(attention)
    except NoAttention:
        return None
    lines = (attention.sizes["d"], attention.sizes["v"])
    if min(lines) < _SHORTEST or max(lines) > _LONGEST:
        return None
    if attention.result.reach(attention.sizes, "gqv") > MOST_ELEMENTS:
        return None
    for method in _methods(attention, target.capability):
        tiles = _tiles(method, attention, target.capability)
        if tiles is not None:
            return {"method": method, **{name: getattr(tiles, name) for name in tiles.__dataclass_fields__}}
    return None


def split(kernel: ir.Operation, target: GpuTarget) -> None:
    """Splits the keys of a kernel into parts, if the kernel would otherwise leave most of the device idle."""
    numbers = choose(kernel, target)
    if numbers is not None:
        tiles = _METHODS[str(numbers["method"])](
            **{name: int(item) for name, item in numbers.items() if name != "method"}
        )
        split_long_attention(kernel, target, tiles.rows)


def emit(launch: LaunchContext, _values: Values) -> EmittedGeometry:
    """Writes the kernel."""
    attention = attention_of(launch.function, launch.arguments)
    numbers = {name: int(str(number)) for name, number in launch.schedule.items() if name != "method"}
    tiles = _METHODS[str(launch.schedule["method"])](**numbers)
    blocks = tiles.block(attention, launch).emit()
    shared, alone = tiles.shared_bytes(attention), int(isinstance(tiles, WgmmaTiles))
    return EmittedGeometry((blocks, 1, 1), (tiles.threads, 1, 1), shared_bytes=shared, blocks_per_multiprocessor=alone)


def _methods(attention: Attention, capability: Capability) -> Sequence[str]:
    """Returns the applicable methods, fastest first: tensor cores for 16-bit floats only, as float32 must be exact."""
    kinds = {str(operand.element) for operand in (attention.query, attention.key, attention.value)}
    if kinds == {"f32"}:
        return ("fma",)
    if len(kinds) != 1 or not kinds <= set(FORMS):
        return ()
    # A warp group is inefficient for few rows.
    return ("wgmma", "mma") if capability.has_wgmma and attention.sizes["q"] >= GROUP_ROWS else ("mma",)


def _tiles(method: str, attention: Attention, capability: Capability) -> Tiles | None:
    """Returns the best tiles that fit and are not too large for the number of rows and keys."""
    fitting = [
        tiles
        for tiles in _TILES[method]
        if tiles.shared_bytes(attention) <= capability.shared_bytes and tiles.fits_registers(attention)
    ]
    if method == "wgmma":
        suiting = [tiles for tiles in fitting if isinstance(tiles, WgmmaTiles) and tiles.suits(attention)]
        most = [tiles for tiles in suiting if tiles.keys == suiting[0].keys]
        best = min(most, key=lambda tiles: tiles.cost(attention, capability), default=None)
        return None if best is None else best.spread(attention, capability)
    if any(part.reach(attention.sizes) > MOST_ELEMENTS for part in (attention.query, attention.key, attention.value)):
        return None  # threads index the elements that they copy in 32 bits; the copy engine does not
    rows, smallest = attention.sizes["g"] * attention.sizes["q"], min(tiles.down for tiles in _TILES[method])
    return next((tiles for tiles in fitting if tiles.down == smallest or tiles.rows // 2 < rows), None)
