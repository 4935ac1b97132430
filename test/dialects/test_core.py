"""The declarative op layer: builders, accessors, views, errors, loading."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects import core
from stepwell.dialects.core import Dialect, Op, OpError, attribute, operand, optional_operand, result, spec_of
from stepwell.dialects.registry import STEPWELL, view_of
from stepwell.dialects.stepwell.constant import ConstantOp
from stepwell.dialects.stepwell.elementwise import AddOp, CastOp, GeluOp, TanhOp
from stepwell.dialects.stepwell.movement import DynamicReshapeOp, ReshapeOp
from stepwell.dialects.stepwell.normalization import LayerNormOp, SoftmaxOp
from stepwell.dialects.stepwell.recurrent import LstmOp
from stepwell.dialects.types import TensorSpec


@pytest.fixture
def x(context: ir.Context) -> Iterator[ir.Value]:
    module = ir.Module.parse("func.func @main(%x: tensor<?x4xf32>) { return }")
    block = module.body.operations[0].regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        yield block.arguments[0]


def test_builder_infers_types_and_writes_what_was_given(x):
    op = SoftmaxOp(AddOp(x, x), axis=1)
    assert str(op.operation) == ('%1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>')
    assert op.axis == 1
    assert SoftmaxOp(x).axis == -1
    assert "axis" not in SoftmaxOp(x).operation.attributes


def test_builder_takes_constants_into_account(x):
    shape = ConstantOp(value=np.array([2, -1]))
    assert str(DynamicReshapeOp(x, shape).result.type) == "tensor<2x?xf32>"


def test_builder_of_one_operand_tells_views_from_operands(x):
    tanh = TanhOp(x)
    assert TanhOp(tanh).operation == tanh.operation
    assert TanhOp(tanh.result).operation != tanh.operation
    assert CastOp(tanh, dtype=np.float16).input == tanh.result
    assert GeluOp(tanh).input == tanh.result


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: TanhOp(x, x), "takes 1 operand, but 2 were given"),
        (lambda x: AddOp(x), "operand 'rhs' is missing"),
        (lambda x: CastOp(x), "requires attribute 'dtype'"),
        (lambda x: TanhOp(x, axis=1), "has no attribute 'axis'"),
        (lambda x: GeluOp(x, approximate="fast"), "'approximate' must be one of none, tanh, but is fast"),
        (lambda x: SoftmaxOp(x, axis=2), "axis 2 is out of range for rank 2"),
    ],
)
def test_builder_refuses(x, build, message):
    with pytest.raises(OpError, match=message):
        build(x)


def test_absent_operands_are_none(x):
    scale = ConstantOp(value=np.ones(4, np.float32))
    only_bias = LayerNormOp(x, None, scale)
    assert only_bias.scale is None
    assert only_bias.bias == scale.result
    assert only_bias.operand_values() == [x, None, scale.result]
    assert list(only_bias.operation.attributes["operandSegmentSizes"]) == [1, 0, 1]


def test_results_have_names(context):
    types = ("3x2x4", "1x20x4", "1x20x5")
    arguments = ", ".join(f"%{index}: tensor<{kind}xf32>" for index, kind in enumerate(types))
    module = ir.Module.parse(f"func.func @f({arguments}) {{ return }}")
    block = module.body.operations[0].regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        op = LstmOp(*block.arguments)
    assert [str(value.type) for value in (op.y, op.y_h, op.y_c)] == [
        "tensor<3x1x2x5xf32>",
        "tensor<1x2x5xf32>",
        "tensor<1x2x5xf32>",
    ]


def test_views_of_operations(x):
    op = AddOp(x, x)
    view = view_of(op.operation)
    assert isinstance(view, AddOp)
    assert (view.lhs, view.rhs) == (x, x)
    assert view_of(x.owner.owner) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axis = 1 : i32", "attribute 'axis' must be an i64 integer, but is 1 : i32"),
        ('axis = "1"', "attribute 'axis' must be an i64 integer, but is \"1\""),
        ("axis = true", "attribute 'axis' must be an i64 integer, but is true"),
    ],
)
def test_attributes_of_another_kind_are_refused(context, text, message):
    module = ir.Module.parse(
        "func.func @f(%x: tensor<4xf32>) {"
        f'%0 = "stepwell.softmax"(%x) {{{text}}} : (tensor<4xf32>) -> tensor<4xf32> return }}'
    )
    op = view_of(module.body.operations[0].regions[0].blocks[0].operations[0])
    with pytest.raises(OpError, match=message):
        op.infer_specs(spec_of)


def test_evaluate_runs_the_reference_and_returns_arrays(x):
    array = np.array([[1e4, np.inf]], np.float32)
    (out,) = AddOp(x, x).evaluate({x: array}.__getitem__)
    np.testing.assert_array_equal(out, array * 2)
    assert isinstance(ReshapeOp(x, shape=(2, 4)).evaluate({x: np.zeros((2, 4), np.float32)}.__getitem__)[0], np.ndarray)


@pytest.fixture
def own_dialects():
    """Removes dialects that a test declares: they would take part in all compiles of this process."""
    dialects, ops = dict(core.DIALECTS), dict(core.OPS)
    yield
    for table, kept in ((core.DIALECTS, dialects), (core.OPS, ops)):
        table.clear()
        table.update(kept)


@pytest.mark.usefixtures("own_dialects")
def test_another_dialect_loads_beside_and_twice():
    class OneOp(Op):
        """One."""

        OPERATION_NAME = "other.one"
        input = operand()
        extra = optional_operand()
        flag = attribute(bool, default=False)
        result = result()

        @staticmethod
        def infer(input: TensorSpec, extra: TensorSpec | None, *, flag: bool) -> TensorSpec:
            """Like the input."""
            return input

    other = Dialect("other", [OneOp])
    with ir.Context() as context, ir.Location.unknown():
        for dialect in (STEPWELL, other, STEPWELL, other):
            dialect.load(context)
        module = ir.Module.parse(
            "func.func @f(%x: tensor<4xf32>) {"
            '%0 = "other.one"(%x) {flag = true} : (tensor<4xf32>) -> tensor<4xf32> return }'
        )
        op = view_of(module.body.operations[0].regions[0].blocks[0].operations[0])
        assert isinstance(op, OneOp)
        assert op.flag is True
        assert op.extra is None


def test_two_dialects_of_one_name_are_an_error_that_names_both():
    class Mine(Op):
        """One."""

        OPERATION_NAME = "stepwell.mine"

    with pytest.raises(
        ValueError, match=r"two dialects are called 'stepwell': those of \S*test_core and stepwell\.dialects"
    ):
        Dialect("stepwell", [Mine])


def test_a_field_cannot_have_the_name_of_a_member_of_all_ops():
    with pytest.raises(TypeError, match="HiddenOp: a field cannot be called 'field_places', as a member of all ops is"):

        class HiddenOp(Op):
            OPERATION_NAME = "test.hidden"
            field_places = operand()
            result = result()
