"""Sizes of pages of keys and values, and the ranges of sizes that decoders are compiled for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..driver.sources.source import ModelSource
from ..machines.block_tiles import BlockWork, converts_blocks
from ..machines.matrix_units import ROWS

if TYPE_CHECKING:
    from ..driver.sources.paged import CacheForm

PAGE_SIZE = 32
"""Number of tokens in a page: at 512 tokens, half a page is 3 % of a text, and neighbouring rows are read quickly."""

_USUAL_BLOCKS = BlockWork(bits=4, size=32, is_bytes=True)
"""Weights of most files with few bits, such as Q4_0 and Q4_K."""

_SCALE_BYTES = 4
"""Bytes of the scale of a key or value of one head, f32."""


def pasts(context: int, most: int) -> tuple[int, int]:
    """Returns the range of the number of past tokens, before calls with up to `most` new ones.

    It ends at whole pages of keys: loops over keys end at those of a call only if this is a multiple of some keys.
    """
    return 0, -(-(context - 1 + most) // PAGE_SIZE) * PAGE_SIZE - most


def prompt_lengths(context: int, most: int, *, is_alike: bool) -> list[int | tuple[int, int]]:
    """Returns the numbers of new tokens that programs are compiled for: one, and ranges of several.

    A program multiplies all numbers of rows in the same way. If a matrix unit multiplies many rows with panels that are
    converted first, which takes as long for few rows, prompts of one tile of rows have a program of their own.

    Args:
        context: maximum number of tokens of a text.
        most: maximum number of new tokens of a call.
        is_alike: whether results must not depend on where a prompt is cut.
    """
    if context == 2:
        return [1]
    # Imported here, as most uses of this module compile nothing.
    from ..lowering.target import Target

    converts = not is_alike and most > ROWS and converts_blocks(Target.host().machine, _USUAL_BLOCKS, [most])
    return [1, (2, ROWS), (ROWS + 1, most)] if converts else [1, (2, most)]


def bytes_per_token(source: ModelSource, cache: CacheForm) -> int:
    """Returns the bytes of the keys and values of a token, with the scales of integers."""
    infos = [info for info in source.interface()[0] if info.name.startswith("past.")]
    rows = ((int(info.shape[1]), int(info.shape[3]), info.dtype.itemsize) for info in infos)
    if cache != "float":
        in_a_byte = 2 if cache == "int4" else 1
        return sum(heads * (depth // in_a_byte + _SCALE_BYTES) for heads, depth, _ in rows)
    return sum(heads * depth * size for heads, depth, size in rows)
