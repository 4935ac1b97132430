"""OpenVINO's CPU plugin, for latency, in float32 like the others: on some machines its default is bfloat16."""

from __future__ import annotations

import importlib

import numpy as np

from . import Job, PeerSession


def open_session(job: Job) -> PeerSession:
    """Creates one stream of `threads` threads; inputs and outputs are shared, not copied, which is its fastest way."""
    ov = importlib.import_module("openvino")
    core = ov.Core()
    model = core.read_model(str(job.path))
    model.reshape({name: list(array.shape) for name, array in job.inputs.items()})
    settings = {
        "INFERENCE_NUM_THREADS": job.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "CACHE_DIR": str(job.folder),
    }
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    feed = dict(job.inputs)

    def call() -> object:
        return request.infer(feed, share_inputs=True, share_outputs=True)

    def outputs() -> list[np.ndarray]:
        return [np.array(item) for item in request.infer(feed).values()]

    return PeerSession(call, outputs)
