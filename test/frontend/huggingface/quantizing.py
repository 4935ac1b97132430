"""Folders of decoders whose matrices are quantised as GPTQ, AWQ and compressed-tensors store them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from stepwell.runtime import safetensors

AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)
"""Columns of the eight numbers in a word of AWQ, from the lowest bits on."""


def words_of(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Packs numbers along the last dimension into words of 32 bits, the lowest bits first."""
    count = numbers.shape[-1]
    words = [0] * (-(-count * bits // 32))
    flat = numbers.reshape(-1, count)
    packed = np.zeros((len(flat), len(words)), np.uint32)
    for row, values in enumerate(flat):
        whole = sum(int(value) << (bits * index) for index, value in enumerate(values))
        packed[row] = [whole >> (32 * index) & 0xFFFFFFFF for index in range(len(words))]
    return packed.view(np.int32).reshape(*numbers.shape[:-1], -1)


def rounded(
    matrix: np.ndarray, bits: int, size: int, *, is_symmetric: bool, order: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns numbers, scales and zero points [outputs, groups] of a matrix, and the matrix that they stand for."""
    order = np.arange(matrix.shape[1]) if order is None else order
    parts = matrix[:, order].reshape(len(matrix), -1, size)
    low, high = parts.min(axis=2), parts.max(axis=2)
    if is_symmetric:
        scales = (np.abs(parts).max(axis=2) / ((1 << (bits - 1)) - 1)).astype(np.float16).astype(np.float32)
        zeros = np.full(scales.shape, 1 << (bits - 1))
    else:
        scales = ((high - low) / ((1 << bits) - 1)).astype(np.float16).astype(np.float32)
        zeros = np.clip(np.rint(-low / scales), 1, (1 << bits) - 1).astype(np.int64)
    numbers = np.clip(np.rint(parts / scales[..., None]) + zeros[..., None], 0, (1 << bits) - 1).astype(np.int64)
    meant = ((numbers - zeros[..., None]) * scales[..., None]).reshape(matrix.shape)
    back = np.argsort(order)
    return numbers.reshape(matrix.shape)[:, back], scales, zeros, meant[:, back].astype(np.float32)


Quantizer = Callable[[np.ndarray], tuple[dict[str, np.ndarray], np.ndarray]]
"""Returns the tensors that stand for a matrix, by their last names, and the matrix that they stand for."""


def gptq(bits: int, size: int, *, is_symmetric: bool = True, is_ordered: bool = True, first: bool = True) -> Quantizer:
    """Returns a quantiser to GPTQ, with zero points less 1 in its first format."""

    def quantize(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        inputs = matrix.shape[1]
        order = np.arange(inputs) if is_ordered else np.random.default_rng(1).permutation(inputs)
        numbers, scales, zeros, meant = rounded(matrix, bits, size, is_symmetric=is_symmetric, order=order)
        indices = np.empty(inputs, np.int32)
        indices[order] = np.arange(inputs) // size
        return {
            "qweight": np.ascontiguousarray(words_of(numbers, bits).T),
            "qzeros": words_of(zeros.T - first, bits),
            "scales": np.ascontiguousarray(scales.T).astype(np.float16),
            "g_idx": indices,
        }, meant

    return quantize


def awq(size: int) -> Quantizer:
    """Returns a quantiser to AWQ."""

    def in_words(values: np.ndarray) -> np.ndarray:
        return words_of(values.reshape(len(values), -1, 8)[..., AWQ_COLUMNS].reshape(values.shape), 4)

    def quantize(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numbers, scales, zeros, meant = rounded(matrix, 4, size, is_symmetric=False)
        scales = np.ascontiguousarray(scales.T).astype(np.float16)
        return {"qweight": in_words(numbers.T), "qzeros": in_words(zeros.T), "scales": scales}, meant

    return quantize


def compressed(bits: int, size: int, *, is_symmetric: bool = True) -> Quantizer:
    """Returns a quantiser to the packed integers of compressed-tensors."""

    def quantize(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numbers, scales, zeros, meant = rounded(matrix, bits, size, is_symmetric=is_symmetric)
        parts = {
            "weight_packed": words_of(numbers, bits),
            "weight_scale": scales.astype(np.float16),
            "weight_shape": np.array(matrix.shape, np.int64),
        }
        if not is_symmetric:
            parts["weight_zero_point"] = np.ascontiguousarray(words_of(zeros.T, bits).T)
        return parts, meant

    return quantize


def compressed_bytes(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Quantises to bytes with a scale per row."""
    numbers, scales, _, meant = rounded(matrix, 8, matrix.shape[1], is_symmetric=True)
    return {"weight": (numbers - 128).astype(np.int8), "weight_scale": scales.astype(np.float16)}, meant


def short_floats(size: int) -> Quantizer:
    """Returns a quantiser to floats of 4 bits: NVFP4 in blocks of 16, MXFP4 in blocks of 32."""

    def quantize(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        blocks = matrix.reshape(len(matrix), -1, size)
        most = np.abs(blocks).max(axis=2) / 6
        kind = ml_dtypes.float8_e4m3fn if size == 16 else ml_dtypes.float8_e8m0fnu
        overall = np.float32(64 if size == 16 else 1)
        stored = (most * overall).astype(kind)
        scales = stored.astype(np.float32) / overall
        floats = (blocks / scales[..., None]).astype(ml_dtypes.float4_e2m1fn)
        codes = floats.view(np.uint8).reshape(matrix.shape)
        meant = (floats.astype(np.float32) * scales[..., None]).reshape(matrix.shape)
        parts = {"weight_packed": codes[:, ::2] | codes[:, 1::2] << 4}
        if size == 16:
            return {**parts, "weight_scale": stored, "weight_global_scale": overall.reshape(1)}, meant
        return {**parts, "weight_scale": stored.view(np.uint8)}, meant

    return quantize


def bytes_in_tiles(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Quantises to floats of 8 bits with a scale per tile of 32 x 64; the weights they stand for are bf16."""
    rows, columns = matrix.shape
    padded = np.pad(matrix, [(0, -rows % 32), (0, -columns % 64)])
    tiles = padded.reshape(len(padded) // 32, 32, -1, 64)
    scales = np.abs(tiles).max(axis=(1, 3)) / 448
    floats = (tiles / scales[:, None, :, None]).astype(ml_dtypes.float8_e4m3fn)
    meant = (floats.astype(np.float32) * scales[:, None, :, None]).reshape(padded.shape)[:rows, :columns]
    weight = np.ascontiguousarray(floats.reshape(padded.shape)[:rows, :columns])
    parts = {"weight": weight, "weight_scale_inv": scales.astype(np.float32)}
    return parts, meant.astype(ml_dtypes.bfloat16).astype(np.float32)


def bytes_in_rows(matrix: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Quantises to floats of 8 bits with a scale per row; the weights they stand for are bf16."""
    scales = np.abs(matrix).max(axis=1, keepdims=True) / 448
    weight = (matrix / scales).astype(ml_dtypes.float8_e4m3fn)
    meant = (weight.astype(np.float32) * scales).astype(ml_dtypes.bfloat16).astype(np.float32)
    return {"weight": weight, "weight_scale": scales}, meant


def write_quantized(
    folder: Path, weights: Mapping[str, np.ndarray], settings: Mapping[str, Any], quantize: Quantizer
) -> dict[str, np.ndarray]:
    """Writes the quantised projections of a saved folder instead of its weights; returns what they stand for."""
    stored, meant = {}, {}
    for name, array in weights.items():
        if name.endswith("_proj.weight"):
            parts, meant[name] = quantize(array)
            stored |= {f"{name.removesuffix('weight')}{part}": values for part, values in parts.items()}
        else:
            stored[name] = meant[name] = array
    (folder / "model.safetensors").write_bytes(b"".join(safetensors.chunks(stored, is_padded=False)))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": dict(settings)}))
    return meant
