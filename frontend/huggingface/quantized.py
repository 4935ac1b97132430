"""Weights that GPTQ, AWQ and compressed-tensors quantised, as numbers with a scale per block.

Each matrix is several tensors of its module. Numbers of few bits fill words of 32 bits, from the lowest bit on:

    GPTQ    qweight [inputs / n, outputs], qzeros [groups, outputs / n], scales [groups, outputs], g_idx [inputs]
    AWQ     qweight [inputs, outputs / n], qzeros [groups, outputs / n], scales [groups, outputs]
    compressed-tensors
            weight_packed [outputs, inputs / n], weight_scale [outputs, groups], weight_shape [2],
            weight_zero_point [outputs / n, groups]; or weight [outputs, inputs] of int8 or f8; or two floats of 4 bits
            in each byte of weight_packed
    fp8     weight [outputs, inputs] of f8, weight_scale_inv [outputs / 128, inputs / 128], in tiles of the size that
            `weight_block_size` in the config names

The formats: `pack_original` in GPTQModel, gptqmodel/nn_modules/qlinear/__init__.py; `pack` in AutoAWQ,
awq/utils/packing_utils.py; `compressors` in compressed-tensors; and `Fp8Dequantize` in transformers,
integrations/finegrained_fp8.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ...dialects.stepwell.blocks import numbers_of
from ...support.errors import StepwellError
from ..errors import ModelError
from ..gguf.blocks import BlockWeight

Parts = Mapping[str, np.ndarray]
"""The tensors of a module by their last names."""

_LARGEST_BLOCK = 128
"""Elements of a block at most: activations are rounded per block, and larger groups are cut."""
_SMALLEST_BLOCK = 16
_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Positions in a word at which AWQ stores eight neighbouring columns (`AWQ_REVERSE_ORDER`)."""
_FLOATS_OF_A_BYTE = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
_TILE = (128, 128)
"""Tiles with a scale each, unless the config names others (transformers, `FineGrainedFP8Config`)."""
_FIRST_FORMAT = "gptq"
"""The format of GPTQ that stores zero points less 1. It is the default; the other one is "gptq_v2"."""
_ACCOMPANYING = (
    "g_idx",
    "input_global_scale",
    "input_scale",
    "input_zero_point",
    "qzeros",
    "scales",
    "weight_g_idx",
    "weight_global_scale",
    "weight_scale",
    "weight_scale_inv",
    "weight_shape",
    "weight_zero_point",
)


def read_quantized(arrays: Parts, config: Mapping[str, Any]) -> dict[str, np.ndarray | BlockWeight]:
    """Returns tensors by name, where the tensors of a quantised matrix are one weight in blocks.

    Args:
        arrays: the tensors of the files.
        config: `quantization_config` of `config.json`.

    Raises:
        ModelError: the method is not supported, or tensors do not fit together.
    """
    method = config.get("quant_method", "an unknown method")
    if method not in _METHODS:
        supported = ", ".join(_METHODS)
        raise ModelError(f"has weights quantised by '{method}', which are not supported; supported are {supported}")
    marks, read = _METHODS[method]
    modules: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        module, _, part = name.rpartition(".")
        modules.setdefault(module, {})[part] = array
    found: dict[str, np.ndarray | BlockWeight] = {}
    for module, parts in modules.items():
        is_quantized = any(set(mark) <= parts.keys() for mark in marks)
        if is_quantized:
            try:
                found[f"{module}.weight"] = read(parts, config)
            except _MismatchError as error:
                raise ModelError(f"has a damaged weight '{module}': {error}") from error
        hidden = {*_ACCOMPANYING, *(part for mark in marks for part in mark)} if is_quantized else ()
        found |= {f"{module}.{part}" if module else part: parts[part] for part in parts if part not in hidden}
    return found


class _MismatchError(StepwellError):
    """Tensors of a module do not fit together."""


def _gptq(parts: Parts, config: Mapping[str, Any]) -> BlockWeight:
    words, scales, zeros = (_matrix(parts, name) for name in ("qweight", "scales", "qzeros"))
    indices = parts.get("g_idx")
    bits = _bits(len(words), len(indices)) if indices is not None else _positive(config, "bits", (4,))[0]
    inputs = len(indices) if indices is not None else len(words) * 32 // bits
    outputs, starts = scales.shape[1], _unpacked(zeros, bits, scales.shape[1]).T
    if config.get("checkpoint_format", _FIRST_FORMAT) == _FIRST_FORMAT:
        starts = starts + np.uint8(1)
    data, order = _packed_rows(words.T, bits, inputs), None
    if indices is not None and (indices[1:] < indices[:-1]).any():
        order = np.argsort(indices, kind="stable")
        sizes = np.bincount(indices, minlength=scales.shape[0]) if indices.min() >= 0 else np.empty(0)
        if len(sizes) != scales.shape[0] or len(set(sizes.tolist())) != 1:
            raise _MismatchError("'g_idx' has no groups of equal size")
        data = _packed(_numbers(data, bits, inputs)[:, order], _stored_bits(bits))
    _require(data.shape[0] == outputs, "'qweight' and 'scales' have different numbers of columns")
    return _blocks(data, bits, inputs, scales.T, starts, order)


def _awq(parts: Parts, config: Mapping[str, Any]) -> BlockWeight:
    words, scales, zeros = (_matrix(parts, name) for name in ("qweight", "scales", "qzeros"))
    if config.get("version", "gemm") != "gemm":
        raise ModelError(f"has weights of AWQ's version '{config['version']}'; supported is 'gemm'")
    inputs, outputs = len(words), scales.shape[1]
    _require(outputs == 8 * words.shape[1] == 8 * zeros.shape[1], "'scales' do not fit 4 bits for each column")
    numbers, starts = (_unpacked(item, 4, outputs).reshape(len(item), -1, 8) for item in (words, zeros))
    numbers, starts = (item[..., _AWQ_ORDER].reshape(len(item), -1).T for item in (numbers, starts))
    return _blocks(_packed(numbers, 4), 4, inputs, scales.T, starts)


def _compressed(parts: Parts, config: Mapping[str, Any]) -> BlockWeight | np.ndarray:
    del config  # shapes say everything
    name = "weight_packed" if "weight_packed" in parts else "weight"
    words, scales = _matrix(parts, name), parts["weight_scale"]
    scales = np.broadcast_to(scales, (len(words), 1)) if scales.size == 1 else scales
    _require(scales.ndim == 2 and len(scales) == len(words), f"'weight_scale' does not fit '{name}'")
    zeros = parts.get("weight_zero_point")
    if words.dtype == np.int8:
        starts = 128 if zeros is None else _in_bytes(np.broadcast_to(zeros, scales.shape))
        return _blocks(_in_bytes(words), 8, words.shape[1], scales, starts)
    if words.dtype in _FLOATS_OF_A_BYTE:
        _require(words.shape[1] % scales.shape[1] == 0, "'weight_scale' does not fit 'weight'")
        return _scaled(words, np.repeat(scales, words.shape[1] // scales.shape[1], axis=1))
    if words.dtype == np.uint8:
        return _short_floats(words, scales, parts.get("weight_global_scale"))
    if words.dtype != np.int32:
        raise ModelError(f"has quantised weights of type {words.dtype}, which are not supported")
    shape = parts.get("weight_shape", np.empty(0))
    _require(shape.shape == (2,), "'weight_shape' is missing or no pair")
    rows, inputs = (int(size) for size in shape)
    bits = _bits(words.shape[1], inputs)
    order = parts.get("weight_g_idx")
    if order is not None and (order[1:] < order[:-1]).any():
        raise ModelError("has weights whose groups are not in order, which compressed-tensors calls 'actorder: group'")
    starts = 1 << (bits - 1) if zeros is None else _unpacked(zeros.T, bits, rows).T
    return _blocks(_packed_rows(words, bits, inputs), bits, inputs, scales, starts)


def _short_floats(data: np.ndarray, scales: np.ndarray, overall: np.ndarray | None) -> BlockWeight:
    """Reads floats of 4 bits, whose doubles are integers: MXFP4 with powers of two as scales, NVFP4 with others."""
    values = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    numbers = (2 * values + 128).astype(np.uint8)[numbers_of(data, 4)]
    if scales.dtype == np.uint8:
        scales = scales.view(ml_dtypes.float8_e8m0fnu)
    scales = scales.astype(np.float32) / 2
    if overall is not None:
        scales /= overall.astype(np.float32).reshape(-1)[0]
    return _blocks(numbers, 8, numbers.shape[1], scales, 128)


def _tiled(parts: Parts, config: Mapping[str, Any]) -> np.ndarray:
    weight, scales = _matrix(parts, "weight"), _matrix(parts, "weight_scale_inv")
    steps = _positive(config, "weight_block_size", _TILE)
    _require(len(steps) == 2, "'weight_block_size' is no pair")
    _require(weight.dtype in _FLOATS_OF_A_BYTE, f"'weight' has the type {weight.dtype}")
    counts = [-(-size // step) for size, step in zip(weight.shape, steps, strict=True)]
    _require(list(scales.shape) == counts, f"'weight_scale_inv' is {list(scales.shape)}, and must be {counts}")
    rows, columns = (np.arange(size) // step for size, step in zip(weight.shape, steps, strict=True))
    return _scaled(weight, scales[rows][:, columns])


def _scaled(weight: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Multiplies floats of 8 bits by their scales, and rounds the products to bf16, as transformers does."""
    return (weight.astype(np.float32) * scales.astype(np.float32)).astype(ml_dtypes.bfloat16)


_METHODS: dict[
    str, tuple[tuple[tuple[str, ...], ...], Callable[[Parts, Mapping[str, Any]], BlockWeight | np.ndarray]]
] = {
    "gptq": ((("qweight", "qzeros", "scales"),), _gptq),
    "awq": ((("qweight", "qzeros", "scales"),), _awq),
    "compressed-tensors": ((("weight_packed", "weight_scale"), ("weight", "weight_scale")), _compressed),
    "fp8": ((("weight", "weight_scale_inv"),), _tiled),
}
"""By method: names of tensors that mark a quantised matrix, and how it is read."""


def _blocks(
    data: np.ndarray,
    bits: int,
    inputs: int,
    scales: np.ndarray,
    zeros: int | np.ndarray,
    order: np.ndarray | None = None,
) -> BlockWeight:
    """Returns a matrix in blocks.

    Args:
        data: the numbers, [outputs, bytes].
        bits: bits of a number in the file.
        inputs: the number of inputs.
        scales: [outputs, groups].
        zeros: the zero points, [outputs, groups], or the only one.
        order: the input that each column multiplies, if they are not in order.
    """
    outputs, groups = scales.shape
    _require(groups > 0 and inputs % groups == 0, f"{inputs} inputs are not in {groups} groups of equal size")
    _require(isinstance(zeros, int) or zeros.shape == scales.shape, "zero points and scales have different shapes")
    size = inputs // groups
    block = min(size & -size, _LARGEST_BLOCK)
    if block < _SMALLEST_BLOCK:
        raise ModelError(f"has quantised weights in groups of {size}; a multiple of {_SMALLEST_BLOCK} is supported")
    scales = scales if scales.dtype in (np.float16, np.float32) else scales.astype(np.float32)
    stored, blocks = _stored_bits(bits), inputs // block

    def per_block(values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.repeat(values, size // block, axis=1))

    if not isinstance(zeros, int):
        middle = 1 << (stored - 1)
        zeros = middle if (zeros == middle).all() else per_block(zeros)
    numbers = np.ascontiguousarray(data).reshape(outputs, blocks, block * stored // 8)
    return BlockWeight(stored, numbers, per_block(scales), zeros, order)


def _stored_bits(bits: int) -> int:
    """Returns the bits in which numbers are kept."""
    return next(width for width in (4, 8) if bits <= width)


def _bits(words: int, count: int) -> int:
    """Returns how many bits each of `count` numbers has that fill the words."""
    bits = words * 32 // count if count else 0
    _require(1 < bits <= 8 and words == -(-count * bits // 32), f"{words} words do not hold {count} numbers")
    return bits


def _numbers(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Returns the numbers in bytes: [rows, bytes] --> [rows, count]."""
    if 8 % bits == 0:
        return numbers_of(data, bits)[:, :count]
    single = np.unpackbits(data, axis=1, count=count * bits, bitorder="little").reshape(len(data), count, bits)
    return np.packbits(single, axis=2, bitorder="little")[..., 0]


def _unpacked(words: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Returns the numbers in words: [rows, words] --> [rows, count]."""
    data = _bytes_of(words)
    _require(data.shape[1] * 8 >= count * bits, f"{words.shape[1]} words do not hold {count} numbers")
    return _numbers(data, bits, count)


def _packed_rows(words: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Returns the numbers in words as bytes of `_stored_bits(bits)` bits each: [rows, words] --> [rows, bytes]."""
    if bits == _stored_bits(bits) and count * bits % 32 == 0:
        return _bytes_of(words)
    return _packed(_unpacked(words, bits, count), _stored_bits(bits))


def _bytes_of(words: np.ndarray) -> np.ndarray:
    _require(words.dtype == np.int32, f"words have the type {words.dtype}, and must be int32")
    return np.ascontiguousarray(words).view(np.uint8)


def _packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Stores numbers of 4 bits in pairs: [rows, n] --> [rows, n / 2]; numbers of 8 bits stay."""
    _require(bits == 8 or numbers.shape[1] % 2 == 0, "a row has an odd number of elements")
    return numbers if bits == 8 else numbers[:, ::2] | numbers[:, 1::2] << 4


def _in_bytes(values: np.ndarray) -> np.ndarray:
    """Returns signed bytes as unsigned ones, 128 more."""
    return np.ascontiguousarray(values).view(np.uint8) ^ np.uint8(128)


def _positive(config: Mapping[str, Any], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """Returns one or several positive numbers of the config."""
    values = config.get(name) or default
    values = tuple(values) if isinstance(values, list | tuple) else (values,)
    if not all(isinstance(value, int) and value > 0 for value in values):
        raise ModelError(f"has '{name}' of {config[name]!r} in its quantization_config, which must be positive numbers")
    return values


def _matrix(parts: Parts, name: str) -> np.ndarray:
    _require(parts[name].ndim == 2 and parts[name].size > 0, f"'{name}' is not a matrix")
    return parts[name]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _MismatchError(message)
