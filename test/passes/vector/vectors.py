"""Runs ops on vectors natively, after a pass has rewritten them."""

from __future__ import annotations

import numpy as np
from mlir import ir
from stepwell.lowering.llvm_to_object.codegen import emit_objects
from stepwell.lowering.target import Target
from stepwell.lowering.vector_to_llvm.pipelines import llvm_pipeline, memref_pipeline
from stepwell.passes.infra.base import Pass
from stepwell.passes.infra.state import CompileState
from stepwell.runtime.execution.workspace import LoadedProgram, Workspace
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget, Program, TensorInfo

_ELEMENTS = {"f4": "f32", "f8": "f64", "f2": "f16", "i4": "i32"}
_MODULE = """
func.func private @kernel(%x: tensor<{n}x{t}>, %out: tensor<{n}x{u}>) -> tensor<{n}x{u}> {{
  %c0 = arith.constant 0 : index
  %step = arith.constant {lanes} : index
  %n = arith.constant {n} : index
  %zero = arith.constant 0.0 : {t}
  %0 = scf.for %i = %c0 to %n step %step iter_args(%o = %out) -> (tensor<{n}x{u}>) {{
    %v = vector.transfer_read %x[%i], %zero {{in_bounds = [true]}} : tensor<{n}x{t}>, vector<{lanes}x{t}>
    {body}
    %w = vector.transfer_write %r, %o[%i] {{in_bounds = [true]}} : vector<{lanes}x{u}>, tensor<{n}x{u}>
    scf.yield %w : tensor<{n}x{u}>
  }}
  return %0 : tensor<{n}x{u}>
}}
func.func @main(%x: tensor<{n}x{t}>) -> tensor<{n}x{u}> {{
  %e = tensor.empty() : tensor<{n}x{u}>
  %0 = call @kernel(%x, %e) : (tensor<{n}x{t}>, tensor<{n}x{u}>) -> tensor<{n}x{u}>
  return %0 : tensor<{n}x{u}>
}}
"""


def on_vectors(body: str, x: np.ndarray, rewrite: Pass, result: str = "", lanes: int = 16) -> np.ndarray:
    """Applies ops to every element of an array.

    Args:
        body: the ops, which read %v and define %r; VECTOR stands for the type of %v.
        x: floats, of one dimension.
        rewrite: the pass.
        result: dtype of %r as numpy writes it; that of `x` if empty.
        lanes: number of elements of a vector.
    """
    kinds = [np.dtype(result or x.dtype), x.dtype]
    to, element = (_ELEMENTS[kind.str[1:]] for kind in kinds)
    padded = np.concatenate([x, np.ones(-len(x) % lanes, x.dtype)])
    body = body.replace("VECTOR", f"vector<{lanes}x{element}>")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(_MODULE.format(n=len(padded), t=element, u=to, lanes=lanes, body=body))
        rewrite.run(module.operation, CompileState())
        memref_pipeline("cpu").run(module)
        llvm_pipeline("cpu").run(module)
        objects = emit_objects(module, Target.host())
    ports = [(TensorInfo("", kind, padded.shape),) for kind in kinds]
    program = Program(ports[1], ports[0], {}, 0, CodeTarget("", "cpu"), objects=objects)
    (out,) = LoadedProgram(program, loader.load(program), []).run(Workspace(), [padded], threads=1)
    return out[: len(x)]
