"""Rules by which PyTorch decomposes whole layers, histograms and quantised products that it has as single ops."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

_SHARED, _OF_KEYS = 0, 1
"""Kinds of masks: one for all batches, and one of the keys of each batch; others have all four dimensions."""


def _mask_of(mask: torch.Tensor | None, kind: int | None) -> torch.Tensor | None:
    """A mask that broadcasts with [batch, heads, queries, keys] and is true where a key is read."""
    if mask is None:
        return None
    # PyTorch's layers pass numbers: 0 for what is read, and else -inf.
    hidden = mask.to(torch.bool)
    if kind == _OF_KEYS:
        hidden = hidden[:, None, None]
    elif kind != _SHARED and hidden.dim() == 3:
        hidden = hidden[:, None]
    return ~hidden


def _heads(value: torch.Tensor, count: int) -> torch.Tensor:
    return value.unflatten(-1, (count, -1)).transpose(1, 2)


def multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Computes attention with its projections, and the weights of the keys if they are needed."""
    if query.is_nested:
        return NotImplemented
    if query is key and key is value:
        parts = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
        parts = tuple(map(functional.linear, (query, key, value), weights, biases))
    q, k, v = (_heads(part, num_head) for part in parts)
    kept = _mask_of(mask, mask_type)
    if not need_weights:
        made = functional.scaled_dot_product_attention(q, k, v, attn_mask=kept)
        return functional.linear(made.transpose(1, 2).flatten(-2), proj_weight, proj_bias), None
    scores = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
    shares = torch.softmax(scores if kept is None else scores.masked_fill(~kept, -torch.inf), -1)
    made = functional.linear((shares @ v).transpose(1, 2).flatten(-2), proj_weight, proj_bias)
    return made, shares.mean(1) if average_attn_weights else shares


def transformer_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """Computes a layer of an encoder: attention and two products, each with a sum and a norm."""
    if src.is_nested:
        return NotImplemented

    def attended(x: torch.Tensor) -> torch.Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return multi_head_attention(x, x, x, embed_dim, num_heads, *weights, mask, False, mask_type=mask_type)[0]

    def products(x: torch.Tensor) -> torch.Tensor:
        wide = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(functional.gelu(wide) if use_gelu else functional.relu(wide), ffn_weight_2, ffn_bias_2)

    def first(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first(src))
        return x + products(second(x))
    x = first(src + attended(src))
    return second(x + products(x))


def int8_product(input: torch.Tensor, mat2: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Computes `x @ transpose(weight) * scales`, for weights of bytes with a scale for each row."""
    return functional.linear(input, mat2.to(input.dtype)) * scales


def whole_product(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """Computes the product of bytes as i32."""
    return input.to(torch.int32) @ mat2.to(torch.int32)


def fake_quantized(
    input: torch.Tensor, scale: float | torch.Tensor, zero_point: int | torch.Tensor, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounds to multiples of a scale, and returns which elements are in range."""
    if isinstance(scale, torch.Tensor):
        steps = torch.round(input * (1 / scale)) + zero_point
    else:
        steps = torch.round(input * (1.0 / scale)) + zero_point
    inside = (steps >= quant_min) & (steps <= quant_max)
    return ((steps.clamp(quant_min, quant_max) - zero_point) * scale).to(input.dtype), inside


def weight_norm_backward(
    grad_w: torch.Tensor, saved_v: torch.Tensor, saved_g: torch.Tensor, saved_norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the gradients of v and g, from that of `v * (g / norm(v))`, one norm for each index."""
    axes = [axis for axis in range(saved_v.dim()) if axis != dim % saved_v.dim()]
    norms = saved_norms.to(saved_g.dtype)
    along = (grad_w * saved_v).sum(axes, keepdim=True)
    of_v = saved_g / norms * (grad_w - saved_v * (along / (norms * norms)))
    return of_v, along / norms


def histogram_of_dimensions(
    input: torch.Tensor, bins: Sequence[torch.Tensor], weight: torch.Tensor | None = None, density: bool = False
) -> torch.Tensor:
    """Computes the numbers, or total weights, or shares per volume, of rows in boxes; bins are the ends of each column.

    The last box includes its upper end.
    """
    rows = input.reshape(-1, len(bins))
    counts = [ends.numel() - 1 for ends in bins]
    place = torch.zeros_like(rows[:, 0], dtype=torch.int64)
    is_inside = torch.ones_like(place, dtype=torch.bool)
    volume = torch.ones((), dtype=input.dtype)
    for column, ends, count in zip(rows.unbind(1), bins, counts, strict=True):
        number = torch.searchsorted(ends, column.contiguous(), right=True) - 1
        place = place * count + number.clamp(max=count - 1)
        is_inside = is_inside & (column >= ends[0]) & (column <= ends[-1])
        volume = volume.unsqueeze(-1) * ends.diff()
    total = math.prod(counts)
    weights = torch.ones_like(rows[:, 0]) if weight is None else weight.reshape(-1)
    made = torch.zeros(total + 1, dtype=input.dtype).index_add(0, torch.where(is_inside, place, total), weights)
    made = made[:-1].reshape(counts)
    return made / (made.sum() * volume) if density else made


def histogram(
    input: torch.Tensor, bins: torch.Tensor, weight: torch.Tensor | None = None, density: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the numbers of elements between the ends of bins, as `histogram_of_dimensions`, and returns the ends."""
    return histogram_of_dimensions(input.reshape(-1, 1), [bins], weight, density), bins.clone()


def renormed_embedding(input: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    """Scales down the rows of a table at indices whose norm is greater than a maximum."""
    places = indices.flatten().to(torch.int64)
    rows = input.index_select(0, places)
    norms = torch.linalg.vector_norm(rows, norm_type, -1, keepdim=True)
    # PyTorch adds this number, too.
    return input.index_copy(0, places, torch.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows))


def fractional_max_pool(
    input: torch.Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the maxima of windows whose distances random numbers choose, and their indices in an image.

    Args:
        input: [batch, channels, spatial...], or without a batch.
        kernel_size: the size of a window.
        output_size: the number of windows along each dimension.
        random_samples: [batch, channels, dimensions], between 0 and 1.
    """
    dimensions = len(output_size)
    images = input if input.dim() == dimensions + 2 else input.unsqueeze(0)
    sizes = images.shape[2:]
    samples = random_samples.to(images.dtype)
    places = torch.zeros((*images.shape[:2], *[1] * (2 * dimensions)), dtype=torch.int64)
    for axis, (size, kernel, count) in enumerate(zip(sizes, kernel_size, output_size, strict=True)):
        # In images of two dimensions, the first number is for the columns.
        sample = samples[:, :, 1 - axis if dimensions == 2 else axis].unsqueeze(-1)
        last = torch.full_like(sample, size - kernel)
        step = last / max(count - 1, 1)
        steps = torch.arange(count - 1, dtype=images.dtype)
        starts = ((steps + sample) * step).to(torch.int64) - (sample * step).to(torch.int64)
        found = torch.cat([starts, last.to(torch.int64)], -1).unsqueeze(-1) + torch.arange(kernel)
        shape = [1] * (2 * dimensions)
        shape[axis], shape[dimensions + axis] = count, kernel
        places = places * size + found.reshape(*images.shape[:2], *shape)
    windows = places.flatten(2, 1 + dimensions).flatten(3)
    values, chosen = images.flatten(2).gather(2, windows.flatten(2)).reshape(windows.shape).max(-1)
    indices = windows.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    made = [item.unflatten(2, tuple(output_size)) for item in (values, indices)]
    return (made[0], made[1]) if images is input else (made[0].squeeze(0), made[1].squeeze(0))


_aten = torch.ops.aten

LAYER_RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._native_multi_head_attention.default: multi_head_attention,
    _aten._transformer_encoder_layer_fwd.default: transformer_layer,
    _aten._weight_int8pack_mm.default: int8_product,
    _aten._int_mm.default: whole_product,
    _aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantized,
    _aten._weight_norm_interface_backward.default: weight_norm_backward,
    _aten.embedding_renorm.default: renormed_embedding,
    _aten.fractional_max_pool2d.default: fractional_max_pool,
    _aten.fractional_max_pool3d.default: fractional_max_pool,
    _aten.histogram.bins_tensor: histogram,
    _aten._histogramdd_from_bin_tensors.default: histogram_of_dimensions,
}
"""The rules by op."""
