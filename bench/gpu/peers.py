"""The times of torch and ONNX Runtime for the same work on the same device."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_WARMUP, _RUNS = 5, 30


def seconds(torch: Any, run: Callable[[], Any]) -> float:
    """Returns the median time of a call on the device."""
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
    """Returns the function of torch that is equivalent to a case, applied to tensors on the device."""
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
    """Returns the bytes read and written per second by a large copy."""
    source = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * nbytes / seconds(torch, lambda: target.copy_(source))


def compiled_model(torch: Any, name: str, inputs: Sequence[Any], precision: str) -> float:
    """Returns the seconds that a model of `torch_models` takes with torch.compile, which may record CUDA graphs.

    Args:
        torch: the module.
        name: the model's module.
        inputs: tensors on the device.
        precision: precision of products, as in `Options`; f16 and bf16 apply to the whole model.
    """
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision, torch.float32)
    model = importlib.import_module(f"..torch_models.{name}", __package__).make().to("cuda", kind)
    given = [tensor.to(kind) if tensor.is_floating_point() else tensor for tensor in inputs]
    run = torch.compile(model, mode="reduce-overhead")
    with torch.inference_mode():
        return seconds(torch, lambda: run(*given))


def onnxruntime_model(path: Path, inputs: Mapping[str, np.ndarray], runs: int = 30) -> float:
    """Returns the seconds that a model takes with ONNX Runtime's CUDA provider, with inputs and outputs on the device.

    Raises:
        LookupError: ONNX Runtime is not installed, or has no such provider.
    """
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise LookupError("onnxruntime is not installed") from error
    if "CUDAExecutionProvider" not in runtime.get_available_providers():
        raise LookupError("onnxruntime has no CUDA provider here")
    session = runtime.InferenceSession(str(path), providers=["CUDAExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, runtime.OrtValue.ortvalue_from_numpy(array, "cuda", 0))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda")
    taken = []
    for _ in range(_WARMUP + runs):
        binding.synchronize_inputs()
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[_WARMUP:])
