"""ONNX Runtime's CPU provider, with all graph optimisations, which is the default."""

from __future__ import annotations

import importlib

import numpy as np

from . import Job, PeerSession


def open_session(job: Job) -> PeerSession:
    """Creates a session with a pool of `threads` threads, which spins between calls, as is the default."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(job.path), options, providers=["CPUExecutionProvider"])
    feed = dict(job.inputs)

    def outputs() -> list[np.ndarray]:
        return [np.asarray(item) for item in session.run(None, feed)]

    return PeerSession(lambda: session.run(None, feed), outputs, lambda: {"artefact_bytes": job.path.stat().st_size})
