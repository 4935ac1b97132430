"""Shrinks the module of a reproducer while a pipeline fails on it in the same way: one kernel, no large constants.

The weights of an ONNX model are parameters, outside the module; those of a model in MLIR are in the module.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from mlir import ir

from ...passes.infra.diagnostics import MLIRError
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.runner import PassFailure
from ...passes.ir.functions import kernels_in
from ...passes.ir.rewriting import walk
from ..failure_recorder import FailureRecorder
from ..state import state_for
from ..workers.library import library_of

_LARGE = 256
"""Constants of more elements than this are replaced."""


def smaller(root: ir.Operation, pipeline: Pipeline, failure: PassFailure, target: str) -> ir.Operation:
    """Returns a module of the one kernel on which the pipeline for a target fails in the same way, or the whole module.

    Large constants become splats if the failure does not depend on their contents.
    """
    for candidate in _kernels(root):
        if _fails_in_same_way(candidate, pipeline, failure, target):
            root = candidate
            break
    splats = root.clone()
    return splats if _make_splats(splats) and _fails_in_same_way(splats, pipeline, failure, target) else root


def _kernels(root: ir.Operation) -> Iterator[ir.Operation]:
    kernels = kernels_in(root)
    for kernel in kernels if len(kernels) > 1 else []:
        yield library_of([kernel]).operation.clone()


def _fails_in_same_way(root: ir.Operation, pipeline: Pipeline, failure: PassFailure, target: str) -> bool:
    try:
        pipeline.run(_copy(root), state=state_for(target, recorder=FailureRecorder()))
    except PassFailure as seen:
        return (seen.pass_name, seen.reason) == (failure.pass_name, failure.reason)
    except MLIRError:
        return False
    return False


def _copy(root: ir.Operation) -> ir.Module:
    """Returns a new module; the bindings cannot make one of a clone."""
    stream = io.BytesIO()
    root.write_bytecode(stream)
    return ir.Module.parse(stream.getvalue())


def _make_splats(root: ir.Operation) -> bool:
    """Replaces large constants by zeros; returns whether there were any."""
    splats = [(op, name, splat) for op in walk(root) for name in op.attributes if (splat := _splat_of(op, name))]
    for op, name, splat in splats:
        op.attributes[name] = splat
    return bool(splats)


def _splat_of(op: ir.Operation, name: str) -> ir.Attribute | None:
    """Returns zeros of an attribute's type; None if the attribute is not a large constant."""
    try:
        attribute = op.attributes[name]
    except TypeError:  # elements that the bindings have no class for
        return None
    is_inline = isinstance(attribute, ir.DenseElementsAttr) and not attribute.is_splat and len(attribute) > _LARGE
    # The bindings give no class to resources, which are stored beside the module.
    is_beside = type(attribute) is ir.Attribute and str(attribute).startswith("dense_resource<")
    if not is_inline and not is_beside:
        return None
    element = ir.ShapedType(attribute.type).element_type
    zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return ir.DenseElementsAttr.get_splat(attribute.type, zero)
