"""Rules by which PyTorch decomposes ops of backward graphs, beyond its own."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Computes the gradients of query, key and value of attention, [batch, heads, length, depth] each.

    The weights p are computed again, so that the forward graph returns no sums: `s @ k`, `s' @ q` and `p' @ g` with
    `s = p * (g @ v' - sum(g * o))` (Dao et al., "FlashAttention-2", 2023).
    """
    if dropout_p:
        return NotImplemented
    groups = query.size(-3) // key.size(-3)
    if groups > 1:  # several heads of the query read one of the key and value
        keys, values = (part.repeat_interleave(groups, -3) for part in (key, value))
        made = attention_backward(
            grad_out, query, keys, values, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
        of_key, of_value = (part.unflatten(-3, (key.size(-3), groups)).sum(-3) for part in made[1:])
        return made[0], of_key, of_value
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, -1) if attn_mask is None else torch.ops.aten._safe_softmax(scores, -1)
    slopes = weights * (grad_out @ value.transpose(-2, -1) - (grad_out * out).sum(-1, keepdim=True))
    of_query, of_key = slopes @ key * factor, slopes.transpose(-2, -1) @ query * factor
    return of_query, of_key, weights.transpose(-2, -1) @ grad_out


def cdist_backward(
    grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor
) -> torch.Tensor:
    """Computes the gradient of the rows of `x1`, from that of the distances between rows of `x1` and `x2`."""
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    slopes = _norm_slopes(apart, cdist.unsqueeze(-1), p)
    return (grad.unsqueeze(-1) * slopes).sum(-2).sum_to_size(x1.shape)


def _norm_slopes(value: torch.Tensor, norm: torch.Tensor, p: float) -> torch.Tensor:
    """The derivatives of a p-norm, as in ATen: 0 where the norm is 0."""
    if p == 0:
        return torch.zeros_like(value)
    if p == 1:
        return torch.sign(value)
    if p == torch.inf:
        return torch.sign(value) * (value.abs() == norm)
    is_flat = norm == 0
    divisor = torch.where(is_flat, 1, norm)
    if p == 2:
        return torch.where(is_flat, 0, value / divisor)
    if p < 1:
        is_flat = is_flat | (value == 0)
    share = torch.where(is_flat, 1, value.abs() / divisor)
    return torch.where(is_flat, 0, torch.sign(value) * share ** (p - 1))


def pdist_backward(grad: torch.Tensor, self: torch.Tensor, p: float, pdist: torch.Tensor) -> torch.Tensor:
    """Computes the gradient of rows, from that of the distances of all pairs of these, each pair once."""
    count = self.shape[0]
    if count < 2:
        return torch.zeros_like(self)
    rows, columns = torch.triu_indices(count, count, 1, device=self.device).unbind()
    slopes = _norm_slopes(self[rows] - self[columns], pdist.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return torch.zeros_like(self).index_add(0, rows, slopes).index_add(0, columns, slopes, alpha=-1)


def masked_scatter_backward(grad_output: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Computes the gradient of the source, whose elements went to the true positions of a mask in their order."""
    kept = mask.expand_as(grad_output).reshape(-1)
    count = math.prod(sizes)
    # The elements that are not taken go to one more place.
    places = torch.where(kept, kept.to(torch.int64).cumsum(0) - 1, count)
    return grad_output.new_zeros(count + 1).scatter(0, places, grad_output.reshape(-1))[:count].reshape(list(sizes))


def adaptive_max_pool_backward(
    rank: int, grad_output: torch.Tensor, self: torch.Tensor, indices: torch.Tensor
) -> torch.Tensor:
    """Computes the gradient of an image, to whose elements at flat indices those of the results are added."""
    return _added_at(grad_output, self, indices, rank)


def fractional_max_pool_backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    indices: torch.Tensor,
) -> torch.Tensor:
    """Computes the same for windows at random places."""
    return _added_at(grad_output, self, indices, len(output_size))


def _added_at(grad: torch.Tensor, image: torch.Tensor, indices: torch.Tensor, rank: int) -> torch.Tensor:
    outer, spatial = image.shape[:-rank], image.shape[-rank:]
    flat = image.new_zeros((*outer, math.prod(spatial)))
    return flat.scatter_add(-1, indices.flatten(-rank), grad.flatten(-rank)).reshape(image.shape)


_MEAN, _MAX = 1, 2


def embedding_bag_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    bag_size: torch.Tensor,
    maximum_indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> torch.Tensor:
    """Computes the gradient of the table, to whose rows at the indices those of the bags are added."""
    if mode == _MAX or scale_grad_by_freq or sparse:
        return NotImplemented
    bags = _bags(indices, offsets)
    counts = (indices != padding_idx).to(grad.dtype)
    rows = grad[bags] * counts.unsqueeze(-1)
    if mode == _MEAN:
        sizes = grad.new_zeros(grad.shape[0]).index_add(0, bags, counts)
        rows = rows / sizes.clamp(min=1)[bags].unsqueeze(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    return grad.new_zeros(num_weights, grad.shape[1]).index_add(0, indices, rows)


def bag_weights_backward(
    grad: torch.Tensor,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    mode: int,
    padding_idx: int = -1,
) -> torch.Tensor:
    """Computes the gradients of the weights of the indices of bags."""
    products = (grad[_bags(indices, offsets)] * weight[indices]).sum(-1)
    return torch.where(indices == padding_idx, 0, products)


def _bags(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The bag of each index: the number of bags that begin up to it, less one."""
    places = torch.arange(indices.shape[0], device=indices.device)
    return (offsets.unsqueeze(-1) <= places).sum(0) - 1


def take(self: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Takes elements of the flat tensor; torch's own rule converts an index of rank 0 to a number."""
    return self.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def zero_tensor(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Makes zeros, which torch does not store."""
    return torch.zeros(list(size), dtype=dtype, device=device)


_aten = torch.ops.aten

RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
    _aten._cdist_backward.default: cdist_backward,
    _aten._pdist_backward.default: pdist_backward,
    _aten.masked_scatter_backward.default: masked_scatter_backward,
    _aten.adaptive_max_pool2d_backward.default: functools.partial(adaptive_max_pool_backward, 2),
    _aten.adaptive_max_pool3d_backward.default: functools.partial(adaptive_max_pool_backward, 3),
    _aten.fractional_max_pool2d_backward.default: fractional_max_pool_backward,
    _aten.fractional_max_pool3d_backward.default: fractional_max_pool_backward,
    _aten._embedding_bag_backward.default: embedding_bag_backward,
    _aten._embedding_bag_per_sample_weights_backward.default: bag_weights_backward,
    _aten.take.default: take,
    _aten._efficientzerotensor.default: zero_tensor,
}
"""The rules by op."""
