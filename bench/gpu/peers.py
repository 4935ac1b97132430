"""What torch takes for the same on the same device."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

_WARMUP, _RUNS = 5, 30


def seconds(torch: Any, run: Callable[[], Any]) -> float:
    """The median time of a call on the device."""
    for _ in range(_WARMUP):
        run()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(_RUNS)]
    for start, end in pairs:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) / 1e3 for start, end in pairs)


def function(torch: Any, peer: str, inputs: Sequence[Any]) -> Callable[[], Any]:
    """What does the same as a case, on tensors on the device."""
    functional = torch.nn.functional
    if peer == "layer_norm":
        width = inputs[0].shape[-1]
        scale = torch.linspace(0.5, 1.5, width, device="cuda")
        shift = torch.ones(width, device="cuda")
        return lambda: functional.layer_norm(inputs[0], (width,), scale, shift)
    makers: dict[str, Callable[[], Any]] = {
        "matmul": lambda: inputs[0] @ inputs[1],
        "softmax": lambda: functional.softmax(inputs[0], -1),
        "gelu": lambda: functional.gelu(inputs[0]),
        "transpose": lambda: inputs[0].t().contiguous(),
        "attention": lambda: functional.scaled_dot_product_attention(*inputs),
        "causal_attention": lambda: functional.scaled_dot_product_attention(*inputs, is_causal=True),
    }
    return makers[peer]


def copy_bandwidth(torch: Any, nbytes: int = 1 << 30) -> float:
    """Bytes read and written per second by a large copy."""
    source = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * nbytes / seconds(torch, lambda: target.copy_(source))
