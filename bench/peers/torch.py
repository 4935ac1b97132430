"""torch on the CPU: eager, and through torch.compile. It needs a model written in torch, so it runs only some."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import kernels
from . import Job, Session, Unsupported


def open_session(job: Job) -> Session:
    """The model as torch runs it op by op."""
    torch = _torch(job)
    return _session(torch, _model(torch, job), job)


def open_compiled_session(job: Job) -> Session:
    """The model through torch.compile with frozen weights, which lets it pack them."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(job.folder)
    torch = _torch(job)
    model = torch.compile(_model(torch, job), dynamic=False, options={"freezing": True})
    return _session(torch, model, job)


def _torch(job: Job) -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(job.threads)
    torch.set_float32_matmul_precision("highest")
    return torch


def _model(torch: Any, job: Job) -> Callable[..., Any]:
    case = kernels.find(job.name)
    if case is not None:
        if case.torch is None:
            raise Unsupported("torch has no such function")
        weights = [torch.from_numpy(array) for array in case.weights()]
        function = case.torch(torch)
        return lambda *inputs: function(*inputs, *weights)
    if not job.torch:
        raise Unsupported("there is no torch model of it")
    return importlib.import_module(f"..torch_models.{job.torch}", __package__).load(job.path)


def _session(torch: Any, model: Callable[..., Any], job: Job) -> Session:
    inputs = [torch.from_numpy(np.ascontiguousarray(array)) for array in job.inputs.values()]

    def call() -> Any:
        with torch.inference_mode():
            return model(*inputs)

    def outputs() -> list[np.ndarray]:
        results = call()
        return [item.numpy().copy() for item in (results if isinstance(results, tuple) else (results,))]

    return Session(call, outputs)
