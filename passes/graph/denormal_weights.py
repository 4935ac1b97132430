"""Denormal weights of contractions count as 0.

Training drives the weights of channels that do nothing to numbers like 1e-40. A multiply-add with one of them takes a
hundred times as long as any other, and adds less than 2**-126 times an activation (2**-1022 times, in f64).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mlir import ir

from ...dialects.stepwell import STEPWELL
from ...dialects.stepwell.constant import ParameterOp
from ...dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedMatmulOp
from ..rewriting import walk

_CONTRACTIONS = (PackedConvOp, PackedDepthwiseConvOp, PackedMatmulOp)
# Looked through at a time, so that what is made on the way stays in the cache.
_CHUNK = 1 << 16


def flush_denormal_weights(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters, without denormal numbers where they are nothing but packed weights.

    Args:
        module: a module in the phase `graph`.
        parameters: its parameters by name; they stay as they are.
    """
    flushed = dict(parameters)
    for name in _weights(module):
        flushed[name] = without_denormals(parameters[name])
    return flushed


def without_denormals(array: np.ndarray) -> np.ndarray:
    """`array`, or a copy of it with 0 in the place of denormal numbers; of f32 or f64, others have none that matter."""
    if array.dtype not in (np.float32, np.float64):
        return array
    flat, result = array.reshape(-1), array
    tiny = np.finfo(array.dtype).tiny
    for start in range(0, flat.size, _CHUNK):
        size = np.abs(flat[start : start + _CHUNK])
        is_denormal = (size < tiny) & (size != 0)
        if is_denormal.any():
            result = array.copy() if result is array else result
            result.reshape(-1)[start : start + _CHUNK][is_denormal] = 0
    return result


def _weights(module: ir.Module) -> set[str]:
    """The names of parameters that nothing else reads than contractions do, as their weights."""
    found, others = set(), set()
    for op in walk(module.operation):
        view = STEPWELL.view(op)
        if not isinstance(view, ParameterOp):
            continue
        readers = [use.owner.operation for use in op.results[0].uses]
        is_weight = all(
            isinstance(contraction := STEPWELL.view(reader), _CONTRACTIONS) and contraction.weight == op.results[0]
            for reader in readers
        )
        (found if is_weight else others).add(view.name)
    return found - others
