"""Modules of torch, called on tensors: eagerly, by torch.compile with inductor and with Stepwell, and by export."""

# pyright: reportMissingImports=false
from __future__ import annotations

import importlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import Job, PeerSession, Unsupported


def open_eager(job: Job) -> PeerSession:
    """Runs the module op by op."""
    return _session(job, lambda torch, model, inputs: model)


def open_inductor(job: Job, mode: str | None = None) -> PeerSession:
    """Runs it by torch.compile, with weights that are constants."""
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        raise Unsupported("inductor needs a C++ compiler on the PATH")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(job.folder)
    options: dict[str, Any] = {"freezing": True}
    if mode is not None:
        options |= importlib.import_module("torch")._inductor.list_mode_options(mode)

    def prepared(torch: Any, model: Any, inputs: Any) -> Any:
        return torch.compile(model, dynamic=False, options=options)

    return _session(job, prepared, _inductor_seconds)


def open_inductor_tuned(job: Job) -> PeerSession:
    """Runs it by torch.compile in the mode that searches for the fastest kernels."""
    return open_inductor(job, "max-autotune")


def open_stepwell(job: Job) -> PeerSession:
    """Runs it by torch.compile with the backend of this package, with weights that are constants."""
    _use_cache(job)

    def prepared(torch: Any, model: Any, inputs: Any) -> Any:
        return torch.compile(model, backend="stepwell", dynamic=False, options={"freezing": True})

    return _session(job, prepared, _stepwell_seconds)


def open_export(job: Job) -> PeerSession:
    """Runs what `stepwell.compile` makes of an exported program."""
    _use_cache(job)

    def prepared(torch: Any, model: Any, inputs: Any) -> Any:
        from ... import compile

        program = torch.export.export(model, (), inputs)
        start = time.perf_counter()
        made = compile(program, threads=job.threads)
        seconds.append(time.perf_counter() - start)
        return made

    seconds: list[float] = []
    return _session(job, prepared, lambda torch: sum(seconds))


def _use_cache(job: Job) -> None:
    os.environ["STEPWELL_CACHE_DIR"] = str(job.folder)
    os.environ["STEPWELL_CACHE"] = "1"


def _session(
    job: Job,
    prepared: Callable[[Any, Any, Any], Callable[..., Any]],
    seconds_of: Callable[[Any], float | None] = lambda torch: None,
) -> PeerSession:
    """Makes a session.

    Args:
        job: the model.
        prepared: makes the module callable, given torch, the module and its inputs.
        seconds_of: the seconds of the backend alone, without Dynamo and AOTAutograd, if they are known.
    """
    torch = importlib.import_module("torch")
    torch.set_num_threads(job.threads)
    torch.set_float32_matmul_precision("highest")
    catalog = importlib.import_module("..torch_models.catalog", __package__)
    try:
        model, inputs = catalog.MODELS[job.name].created()
    except catalog.MissingModule as missing:
        raise Unsupported(str(missing)) from missing
    start = time.perf_counter()
    with torch.no_grad():
        run = prepared(torch, model, inputs)
        run(**inputs)
    first = time.perf_counter() - start

    def call() -> Any:
        with torch.no_grad():
            return run(**inputs)

    def outputs() -> list[np.ndarray]:
        leaves = torch.utils._pytree.tree_leaves(call())
        return [item.float().numpy().copy() for item in leaves if isinstance(item, torch.Tensor)]

    def facts() -> Mapping[str, Any]:
        return {"first_call_seconds": first, "backend_seconds": seconds_of(torch)}

    return PeerSession(call, outputs, facts)


def _stepwell_seconds(torch: Any) -> float:
    from ... import torch_report

    return sum(graph.seconds for graph in torch_report().graphs)


def _inductor_seconds(torch: Any) -> float | None:
    utils = importlib.import_module("torch._dynamo.utils")
    times = [item.inductor_cumulative_compile_time_us for item in utils.get_compilation_metrics()]
    known = [taken for taken in times if taken is not None]
    return sum(known) / 1e6 if known else None
