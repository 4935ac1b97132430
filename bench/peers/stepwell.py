"""Stepwell itself, with a separate cache, so that the first start is a cold one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.program import Program
from . import Job, PeerSession


def open_session(job: Job) -> PeerSession:
    """Compiles the model, or takes it from the cache in the job's folder."""
    os.environ["STEPWELL_CACHE_DIR"] = str(job.folder)
    os.environ["STEPWELL_CACHE"] = "1"
    from ... import compile

    executable = compile(job.path, threads=job.threads)
    program = executable.prepare({name: array.shape for name, array in job.inputs.items()})
    inputs = dict(job.inputs)

    def outputs() -> list[np.ndarray]:
        results = executable(**inputs)
        return list(results) if isinstance(results, tuple) else [results]

    def facts() -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            artefact = Path(folder, "model.stw")
            executable.save(artefact)
            # The work of a model with nodes on the host, which has several programs, is not summed.
            facts = {} if program is None else work(program)
            return {**facts, "artefact_bytes": artefact.stat().st_size}

    return PeerSession(lambda: executable(**inputs), outputs, facts)


def work(program: Program) -> dict[str, Any]:
    """Returns the work of one call of a program, as calls, operations and bytes of each kernel, and its memory."""
    # Imported here, because imports are part of a start's time.
    from ...passes.memref.arena import Lifetime, lower_bound

    return {
        "kernels": [(kernel.calls, kernel.flops, kernel.bytes) for kernel in program.kernels],
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound": lower_bound(Lifetime(item.bytes, item.first, item.last) for item in program.buffers),
    }
