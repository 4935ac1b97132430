"""Two hand-written kernels, one of them parallel, lowered from vector code to objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.lowering.vector_to_llvm.pipelines import llvm_pipeline, memref_pipeline

ADD_AND_SCALE = """
func.func private @add(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>, %out: tensor<64x128xf32>) -> tensor<64x128xf32>
    attributes {stepwell.kernel = {}} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %r = scf.forall (%i) in (64) shared_outs(%s = %out) -> (tensor<64x128xf32>) {
    %a = vector.transfer_read %x[%i, %c0], %zero {in_bounds = [true]} : tensor<64x128xf32>, vector<128xf32>
    %b = vector.transfer_read %y[%i, %c0], %zero {in_bounds = [true]} : tensor<64x128xf32>, vector<128xf32>
    %sum = arith.addf %a, %b : vector<128xf32>
    %row = tensor.extract_slice %s[%i, 0] [1, 128] [1, 1] : tensor<64x128xf32> to tensor<1x128xf32>
    %w = vector.transfer_write %sum, %row[%c0, %c0] {in_bounds = [true]} : vector<128xf32>, tensor<1x128xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %w into %s[%i, 0] [1, 128] [1, 1] : tensor<1x128xf32> into tensor<64x128xf32>
    }
  }
  return %r : tensor<64x128xf32>
}
func.func private @double(%x: tensor<8192xf32>, %out: tensor<8192xf32>) -> tensor<8192xf32>
    attributes {stepwell.kernel = {}} {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant dense<2.0> : vector<32xf32>
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %n = arith.constant 8192 : index
  %r = scf.for %i = %c0 to %n step %c32 iter_args(%s = %out) -> (tensor<8192xf32>) {
    %a = vector.transfer_read %x[%i], %zero {in_bounds = [true]} : tensor<8192xf32>, vector<32xf32>
    %product = arith.mulf %a, %two : vector<32xf32>
    %w = vector.transfer_write %product, %s[%i] {in_bounds = [true]} : vector<32xf32>, tensor<8192xf32>
    scf.yield %w : tensor<8192xf32>
  }
  return %r : tensor<8192xf32>
}
func.func @main(%x: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<8192xf32>) {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 64, 128>, dtype = f32} : () -> tensor<64x128xf32>
  %d = tensor.empty() : tensor<64x128xf32>
  %e = tensor.empty() : tensor<8192xf32>
  %0 = func.call @add(%x, %w, %d) : (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  %flat = tensor.collapse_shape %0 [[0, 1]] : tensor<64x128xf32> into tensor<8192xf32>
  %1 = func.call @double(%flat, %e) : (tensor<8192xf32>, tensor<8192xf32>) -> tensor<8192xf32>
  %2 = tensor.expand_shape %1 [[0, 1]] output_shape [64, 128] : tensor<8192xf32> into tensor<64x128xf32>
  %3 = func.call @add(%2, %x, %d) : (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  return %3, %1 : tensor<64x128xf32>, tensor<8192xf32>
}
"""


@pytest.fixture
def lowered() -> Callable[..., object]:
    """Makes a module of the LLVM dialect in a context manager."""

    @contextmanager
    def make(text: str = ADD_AND_SCALE, target: str = "cpu") -> Iterator[ir.Module]:
        with ir.Context() as context, ir.Location.unknown():
            load_dialects(context)
            module = ir.Module.parse(text)
            memref_pipeline(target).run(module)
            llvm_pipeline(target).run(module)
            yield module

    return make
