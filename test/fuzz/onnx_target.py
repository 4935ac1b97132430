"""What a user does with an ONNX file: compiles it and runs it."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (numpy knows its types by name from here on)
import numpy as np
import stepwell

LARGEST = 1 << 20
"""Inputs of more elements are not made."""


def run(data: bytes) -> None:
    """Compiles a model, and calls it on small inputs.

    Raises:
        Exception: whatever the package raises.
    """
    executable = stepwell.compile(data, threads=1, options=stepwell.Options(cache=False))
    arrays = []
    for info in executable.inputs:
        if not isinstance(info, stepwell.TensorInfo):
            return
        shape = tuple(dim if isinstance(dim, int) else 2 for dim in info.shape)
        if np.prod(shape, dtype=float) > LARGEST:
            return
        arrays.append(np.random.default_rng(0).integers(0, 3, shape).astype(info.dtype))
    executable(*arrays)
