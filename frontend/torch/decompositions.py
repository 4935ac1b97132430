"""Rules by which PyTorch decomposes ops of backward graphs, beyond its own."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Mapping
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


RULES: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward
}
"""The rules by op."""
