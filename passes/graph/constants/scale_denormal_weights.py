"""The pass `stepwell-scale-denormal-weights`: scales denormal weights to normal numbers.

Training drives the weights of unused channels to numbers like 1e-40. A multiply-add with a denormal number takes a
hundred times as long as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.registry import view_of
from ....dialects.stepwell.constant import ConstantOp, ParameterOp
from ....dialects.stepwell.elementwise import MulOp
from ....dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from ....dialects.stepwell.winograd import WinogradConvOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import walk

_CONTRACTIONS = (PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp, WinogradConvOp)
# Number of elements checked at a time, so that temporaries stay in the cache.
_CHUNK = 1 << 16


@register
@dataclass(frozen=True)
class ScaleDenormalWeightsPass(Pass):
    """Scale packed weights with denormal numbers by a power of two, and scale the products back.

    ```mlir
    %0 = "stepwell.packed_matmul"(%x, %w) {...}
    // -->
    %1 = "stepwell.packed_matmul"(%x, %w) {...}      // the parameter of %w times 2**24
    %0 = "stepwell.mul"(%1, constant 2**-24)
    ```
    """

    name = "stepwell-scale-denormal-weights"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Scales the parameters of a module."""
        if state.parameters is not None:
            state.parameters = scale_denormal_weights(op, state.parameters)


def scale_denormal_weights(module: ir.Operation, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Scales packed weights with denormal numbers by a power of two, which changes no digit of any product.

        packed_matmul(x, w) --> mul(packed_matmul(x, w * 2**24), 2**-24)

    Args:
        module: a module in the phase `graph`; multiplications are added to it.
        parameters: its parameters by name; they are not modified.

    Returns:
        The parameters, with scaled arrays replacing the originals.
    """
    scaled = dict(parameters)
    for name, readers in _weights(module).items():
        exponent = exponent_for(parameters[name])
        if not exponent:
            continue
        scaled[name] = np.ldexp(parameters[name], exponent)
        for reader in readers:
            _scale_back(reader, np.ldexp(parameters[name].dtype.type(1), -exponent))
    return scaled


def exponent_for(array: np.ndarray) -> int:
    """The power of two that makes an array's denormals normal; 0 without denormals, or if other numbers are too large.

    Only for f32 and f64: narrower floats are computed in a wider type, in which their denormals are normal numbers.
    """
    if array.dtype not in (np.float32, np.float64):
        return 0
    limits = np.finfo(array.dtype)
    exponent = limits.nmant + 1
    # A broadcast array has only one element to check.
    flat, is_found = array.reshape(-1)[: None if any(array.strides) else 1], False
    for start in range(0, flat.size, _CHUNK):
        size = np.abs(flat[start : start + _CHUNK])
        # Leaves headroom, so that sums of products do not overflow.
        if not (size < np.ldexp(limits.max, -3 * exponent)).all():
            return 0
        is_found = is_found or bool(((size < limits.tiny) & (size != 0)).any())
    return exponent if is_found else 0


def _scale_back(contraction: ir.Operation, factor: np.generic) -> None:
    """Multiplies the result of a contraction by `factor`."""
    result = contraction.results[0]
    with contraction.location, ir.InsertionPoint.after(contraction):
        product = MulOp(result, ConstantOp(value=np.asarray(factor)).result).operation
    result.replace_all_uses_except(product.results[0], product)


def _weights(module: ir.Operation) -> dict[str, list[ir.Operation]]:
    """The parameters read only as weights of contractions, each with these contractions."""
    found: dict[str, list[ir.Operation]] = {}
    others = set()
    for op in walk(module):
        view = view_of(op)
        if not isinstance(view, ParameterOp):
            continue
        for use in op.results[0].uses:
            reader = use.owner.operation
            contraction = view_of(reader)
            if isinstance(contraction, _CONTRACTIONS) and use.operand_number == 1:
                found.setdefault(view.name, []).append(reader)
            else:
                others.add(view.name)
    return {name: readers for name, readers in found.items() if name not in others}
