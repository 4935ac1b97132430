"""torch on the CPU, eager and with torch.compile; it needs a model written in torch, so it runs only some models."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import kernels
from . import Job, PeerSession, Unsupported


def open_session(job: Job) -> PeerSession:
    """Runs the model eagerly, op by op."""
    load = _find_model(job)
    torch = _import(job)
    return _session(torch, load(torch), job)


def open_compiled_session(job: Job) -> PeerSession:
    """Runs the model with torch.compile and frozen weights, which can be packed."""
    load = _find_model(job)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(job.folder)
    torch = _import(job)
    model = torch.compile(load(torch), dynamic=False, options={"freezing": True})
    return _session(torch, model, job)


def _import(job: Job) -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(job.threads)
    torch.set_float32_matmul_precision("highest")
    return torch


def _find_model(job: Job) -> Callable[[Any], Callable[..., Any]]:
    """Returns the constructor of the model, which takes the torch module, as its import takes seconds."""
    case = kernels.find(job.name)
    if case is not None:
        return lambda torch: _kernel(torch, case)
    if not job.torch:
        raise Unsupported("there is no torch model of it")
    return lambda torch: importlib.import_module(f"..torch_models.{job.torch}", __package__).load(job.path)


def _kernel(torch: Any, case: kernels.Kernel) -> Callable[..., Any]:
    weights = [torch.from_numpy(array) for array in case.weights()]
    function = case.torch(torch)
    return lambda *inputs: function(*inputs, *weights)


def _session(torch: Any, model: Callable[..., Any], job: Job) -> PeerSession:
    inputs = [torch.from_numpy(np.ascontiguousarray(array)) for array in job.inputs.values()]

    def call() -> Any:
        with torch.inference_mode():
            return model(*inputs)

    def outputs() -> list[np.ndarray]:
        results = call()
        return [item.numpy().copy() for item in (results if isinstance(results, tuple) else (results,))]

    return PeerSession(call, outputs)
