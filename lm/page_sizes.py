"""Sizes of pages of keys and values, and the ranges of sizes that decoders are compiled for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..driver.sources.source import ModelSource

if TYPE_CHECKING:
    from ..driver.sources.paged import CacheForm

PAGE_SIZE = 32
"""Number of tokens in a page: at 512 tokens, half a page is 3 % of a text, and neighbouring rows are read quickly."""

_SCALE_BYTES = 4
"""Bytes of the scale of a key or value of one head, f32."""


def pasts(context: int, most: int) -> tuple[int, int]:
    """Returns the range of the number of past tokens, before calls with up to `most` new ones.

    It ends at whole pages of keys: loops over keys end at those of a call only if this is a multiple of some keys.
    """
    return 0, -(-(context - 1 + most) // PAGE_SIZE) * PAGE_SIZE - most


def bytes_per_token(source: ModelSource, cache: CacheForm) -> int:
    """Returns the bytes of the keys and values of a token, with the scales of integers."""
    infos = [info for info in source.interface()[0] if info.name.startswith("past.")]
    rows = ((int(info.shape[1]), int(info.shape[3]), info.dtype.itemsize) for info in infos)
    if cache != "float":
        in_a_byte = 2 if cache == "int4" else 1
        return sum(heads * (depth // in_a_byte + _SCALE_BYTES) for heads, depth, _ in rows)
    return sum(heads * depth * size for heads, depth, size in rows)
