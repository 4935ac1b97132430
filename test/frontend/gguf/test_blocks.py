"""Formats of blocks are converted exactly: the elements are those that the package gguf computes."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.dialects.stepwell.blocks import numbers_of
from stepwell.frontend.gguf.blocks import _FORMATS, read_blocks

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")


@pytest.mark.parametrize("kind", _FORMATS)
def test_elements_are_those_of_the_package(kind: str):
    rng = np.random.default_rng(0)
    form = gguf.GGMLQuantizationType[kind]
    elements, size = gguf.GGML_QUANT_SIZES[form]
    data = rng.integers(0, 256, (3, 1024 // elements, size), np.uint8)
    halves = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(kind, (0,))
    for start in halves:  # scales that are numbers
        scale = rng.uniform(-2, 2, data.shape[:2]).astype(np.float16)
        scale[0, 0] = start and scale[0, 0]  # a block whose elements are equal
        data[..., start : start + 2] = scale[..., None].view(np.uint8)
    data = data.reshape(3, -1)
    blocks = read_blocks(kind, data)
    zeros = blocks.zeros if isinstance(blocks.zeros, int) else blocks.zeros[..., None].astype(np.float64)
    found = (numbers_of(blocks.numbers, blocks.bits).astype(np.float64) - zeros) * blocks.scales[..., None].astype(
        np.float64
    )
    wanted = gguf.quants.dequantize(data, form)
    np.testing.assert_allclose(found.reshape(3, 1024), wanted, rtol=1e-6, atol=1e-6)
