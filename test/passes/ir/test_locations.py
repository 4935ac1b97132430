"""Locations of ops that replace several nodes of the model."""

from __future__ import annotations

import pytest
from mlir import ir
from stepwell.dialects.registry import OPS, load_dialects
from stepwell.dialects.stepwell.contraction import MatmulOp
from stepwell.dialects.stepwell.elementwise import AddOp, MulOp, ReluOp
from stepwell.dialects.stepwell.movement import TransposeOp
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.locations import dominant, fused_location, heaviest_first, names_in
from stepwell.passes.ir.rewriting import Pattern, apply_patterns, defining_op, walk

_TEXT = """
func.func @f(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<8x6xf32> {
  %0 = "stepwell.matmul"(%x, %w) {transpose_lhs = false, transpose_rhs = false}
    : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32> loc("product")
  %1 = "stepwell.mul"(%0, %b) : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32> loc("factor")
  %2 = "stepwell.relu"(%1) : (tensor<6x8xf32>) -> tensor<6x8xf32> loc("relu")
  %3 = "stepwell.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<6x8xf32>) -> tensor<8x6xf32> loc("turned")
  return %3 : tensor<8x6xf32>
}
"""


class FactorIntoWeight(Pattern[MulOp]):
    """matmul(x, w) * b --> matmul(x, w * b)"""

    root = MulOp

    def rewrite(self, op):
        """Matches if the factor is applied to a product."""
        product = defining_op(op.lhs, MatmulOp)
        if product is None:
            return None
        return MatmulOp(product.lhs, MulOp(product.rhs, op.rhs).result).result


class ReluAfterTranspose(Pattern[TransposeOp]):
    """transpose(relu(x)) --> relu(transpose(x))"""

    root = TransposeOp

    def rewrite(self, op):
        """Matches if the operand is a relu."""
        relu = defining_op(op.input, ReluOp)
        return None if relu is None else ReluOp(TransposeOp(relu.input, permutation=op.permutation).result).result


class DropRelu(Pattern[ReluOp]):
    """relu(x * b) --> x + b"""

    root = ReluOp

    def rewrite(self, op):
        """Matches if the operand is a product with a factor."""
        factor = defining_op(op.input, MulOp)
        return None if factor is None else AddOp(factor.lhs, factor.rhs).result


@pytest.fixture
def module():
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        yield ir.Module.parse(_TEXT)


def _names(module: ir.Module) -> dict[str, list[str]]:
    return {op.name: names_in(op.location) for op in walk(module.operation) if op.name in OPS}


def test_a_contraction_comes_first_and_what_was_folded_into_it_is_a_member(module):
    apply_patterns(module.operation, [FactorIntoWeight()], CompileState())
    names = _names(module)
    assert names["stepwell.matmul"] == ["product", "factor"]
    assert names["stepwell.relu"] == ["relu"]


def test_ops_that_change_places_keep_their_names(module):
    apply_patterns(module.operation, [ReluAfterTranspose()], CompileState())
    names = _names(module)
    assert (names["stepwell.relu"], names["stepwell.transpose"]) == (["relu"], ["turned"])


def test_an_op_of_another_name_stands_for_all_that_it_replaces(module):
    apply_patterns(module.operation, [DropRelu()], CompileState())
    assert _names(module)["stepwell.add"] == ["relu", "factor"]


def test_a_group_is_named_for_its_heaviest_op(module):
    ops = [op for op in walk(module.operation) if op.name in OPS]
    assert [op.name for op in heaviest_first(ops[1:])] == ["stepwell.mul", "stepwell.relu", "stepwell.transpose"]
    location = fused_location(ops[::-1])
    assert names_in(location) == ["product", "turned", "relu", "factor"]
    assert dominant(location) == "product"


def test_the_larger_of_two_contractions_comes_first():
    context = ir.Context()
    load_dialects(context)
    text = _TEXT.replace(
        '%2 = "stepwell.relu"(%1) : (tensor<6x8xf32>) -> tensor<6x8xf32> loc("relu")',
        """%v = "stepwell.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
           %s = "stepwell.matmul"(%v, %w) {transpose_lhs = false, transpose_rhs = false}
             : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("square")
           %2 = "stepwell.relu"(%1) : (tensor<6x8xf32>) -> tensor<6x8xf32> loc("relu")""",
    )
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        ops = [op for op in walk(module.operation) if op.name == "stepwell.matmul"]
        assert names_in(fused_location(ops)) == ["square", "product"]


def test_names_are_found_in_all_kinds_of_locations():
    with ir.Context():
        inner = ir.Location.name("a")
        assert names_in(ir.Location.callsite(inner, [ir.Location.name("b")])) == ["a"]
        assert names_in(ir.Location.fused([inner, ir.Location.name("b"), inner])) == ["a", "b"]
        assert names_in(ir.Location.file("f", 1, 2)) == names_in(None) == []
        assert dominant(ir.Location.unknown()) == ""
