"""Rules by which PyTorch decomposes whole layers and quantised products that it has as single ops."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Mapping
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


_aten = torch.ops.aten

LAYER_RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._native_multi_head_attention.default: multi_head_attention,
    _aten._transformer_encoder_layer_fwd.default: transformer_layer,
    _aten._weight_int8pack_mm.default: int8_product,
    _aten._int_mm.default: whole_product,
    _aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantized,
    _aten._weight_norm_interface_backward.default: weight_norm_backward,
}
"""The rules by op."""
