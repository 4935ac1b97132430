"""References of the ops on shapes, and of constants."""

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects import dims
from stepwell.dialects.core import OpError
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell.constant import ConstantOp, ParameterOp
from stepwell.dialects.stepwell.shape import BorderOp, FillOp, RangeOp, ShapeOfOp, SizeOfOp
from stepwell.dialects.types import TensorSpec

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


def test_extents_are_tensors(compute):
    x = np.zeros((2, 3, 4), np.float32)
    np.testing.assert_array_equal(compute(ShapeOfOp, x)[0], [2, 3, 4])
    assert compute(SizeOfOp, x)[0] == 24


def test_extents_are_known_only_where_all_are_numbers():
    known = ShapeOfOp.infer(TensorSpec((2, 3), F32)).value
    assert known is not None
    assert known.tolist() == [2, 3]
    assert ShapeOfOp.infer(TensorSpec((2, dims.symbol("n")), F32)).value is None


def test_border(compute):
    (result,) = compute(BorderOp, shape=(3, 4), low=(1, 0), high=(0, 1), value=np.array(2, np.float32))
    np.testing.assert_array_equal(result[0], 2)
    np.testing.assert_array_equal(result[:, 3], 2)
    assert np.isnan(result[1:, :3]).all()


def test_fill(compute):
    (result,) = compute(FillOp, np.array([2, 3]), value=np.array([1.5], np.float32))
    np.testing.assert_array_equal(result, np.full((2, 3), 1.5, np.float32))
    assert FillOp.infer(TensorSpec((3,), I64), value=np.array(0.0)).rank == 3


@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [(0, 5, 1), (1, 10, 3), (5, 0, -2), (3, 3, 1), (5, 0, 1), (0.0, 1.0, 0.3), (1.0, 0.0, -0.5)],
)
def test_range(run_onnx, compute, start, limit, delta):
    bounds = [np.array(value, np.int64 if isinstance(value, int) else np.float32) for value in (start, limit, delta)]
    np.testing.assert_allclose(compute(RangeOp, *bounds)[0], run_onnx("Range", *bounds)[0], rtol=1e-6)


def test_constants_and_parameters_give_their_contents_and_types():
    with ir.Context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            op = ConstantOp(value=np.array([1, -1]))
            parameter = ParameterOp(name="w", shape=(2, 3), dtype=F32)
        assert op.evaluate({}.__getitem__)[0].tolist() == [1, -1]
        assert (parameter.name, parameter.shape, parameter.dtype) == ("w", (2, 3), F32)
        assert str(parameter.result.type) == "tensor<2x3xf32>"


def test_wrong_operands_are_refused():
    zero = TensorSpec((), I64, np.array(0))
    with pytest.raises(OpError, match="operand 'delta' must not be 0"):
        RangeOp.infer(zero, zero, zero)
    with pytest.raises(OpError, match="operand 'shape' must have a static length"):
        FillOp.infer(TensorSpec((dims.symbol("n"),), I64), value=np.array(0.0))
    with pytest.raises(OpError, match="attribute 'value' must have one element, but has 2"):
        FillOp.infer(TensorSpec((1,), I64), value=np.zeros(2))
    with pytest.raises(OpError, match="attribute 'name' must not be empty"):
        ParameterOp.infer(name="", shape=(1,), dtype=F32)
