"""Derivatives compared with those of PyTorch where finite differences say nothing: at bends, ties, zeros and bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell import contraction, cumulative, elementwise, movement, normalization, pooling, reduction
from stepwell.passes.differentiation.differentiate import DifferentiatePass
from stepwell.passes.infra.state import CompileState

from .cases import Case
from .test_derivatives import program_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
functional = torch.nn.functional

POINTS = np.array([-np.inf, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf])
FINITE = POINTS[1:-1]
TIES = np.array([[1.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-1.0, 3.0, -1.0, 3.0]])
_PAIRS = np.repeat(FINITE, len(FINITE)), np.tile(FINITE, len(FINITE))
_IMAGE = np.tile(TIES, (2, 2))[None, None]
_AT = np.array([[[-1.0, -1.0], [1.0, 1.0], [0.3, 1.5], [-0.2, -1.7]]])[None]


def _unary() -> dict[str, tuple[Case, Callable]]:
    plain = {
        "Abs": torch.abs,
        "Neg": torch.neg,
        "Sign": torch.sign,
        "Exp": torch.exp,
        "Erf": torch.erf,
        "Floor": torch.floor,
        "Ceil": torch.ceil,
        "Round": torch.round,
        "Tanh": torch.tanh,
        "Atan": torch.atan,
        "Asinh": torch.asinh,
        "Sqrt": torch.sqrt,
        "Rsqrt": torch.rsqrt,
        "Reciprocal": torch.reciprocal,
        "Log": torch.log,
        "Relu": torch.relu,
        "Sigmoid": torch.sigmoid,
    }
    # NaN is right as well as wrong where PyTorch has NaN: at roots and logarithms of negative numbers.
    found = {name: (Case(getattr(elementwise, f"{name}Op"), (POINTS,)), function) for name, function in plain.items()}
    finite = {"Silu": functional.silu, "Softplus": functional.softplus, "Sin": torch.sin, "Cos": torch.cos}
    finite |= {"HardSwish": functional.hardswish, "Sinh": torch.sinh, "Cosh": torch.cosh, "Tan": torch.tan}
    found |= {name: (Case(getattr(elementwise, f"{name}Op"), (FINITE,)), function) for name, function in finite.items()}
    inside = FINITE[np.abs(FINITE) <= 1]
    ends = {"Asin": torch.asin, "Acos": torch.acos, "Atanh": torch.atanh}
    found |= {name: (Case(getattr(elementwise, f"{name}Op"), (inside,)), function) for name, function in ends.items()}
    return found | {
        "LeakyRelu": (
            Case(elementwise.LeakyReluOp, (POINTS,), {"alpha": 0.2}),
            lambda x: functional.leaky_relu(x, 0.2),
        ),
        "Elu": (Case(elementwise.EluOp, (FINITE,), {"alpha": 1.5}), lambda x: functional.elu(x, 1.5)),
        "Gelu": (Case(elementwise.GeluOp, (FINITE,), {"approximate": "none"}), functional.gelu),
        "Clip": (
            Case(elementwise.ClipOp, (POINTS,), {"minimum": -1.0, "maximum": 0.5}),
            lambda x: torch.clamp(x, -1, 0.5),
        ),
    }


def _others() -> dict[str, tuple[Case, Callable]]:
    binary = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Maximum": torch.maximum, "Minimum": torch.minimum}
    found = {name: (Case(getattr(elementwise, f"{name}Op"), _PAIRS), function) for name, function in binary.items()}
    axes = {"axes": (1,), "keepdims": False}
    positive = np.abs(_PAIRS[0]), _PAIRS[1]
    found |= {
        "Pow": (Case(elementwise.PowOp, positive), torch.pow),
        "ReduceMax": (Case(reduction.ReduceMaxOp, (TIES,), axes), lambda x: x.amax(1)),
        "ReduceMin": (Case(reduction.ReduceMinOp, (TIES,), axes), lambda x: x.amin(1)),
        "ReduceProd": (Case(reduction.ReduceProdOp, (TIES,), axes), lambda x: x.prod(1)),
        "CumulativeProduct": (
            Case(cumulative.CumulativeOp, (TIES,), {"axis": 1, "mode": "product"}),
            lambda x: x.cumprod(1),
        ),
        "MaxPool": (
            Case(
                pooling.MaxPoolOp,
                (_IMAGE,),
                {"kernel": (2, 3), "strides": (1, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)},
            ),
            lambda x: functional.max_pool2d(x, (2, 3), (1, 2)),
        ),
        "Softmax": (Case(normalization.SoftmaxOp, (TIES,), {"axis": 1}), lambda x: torch.softmax(x, 1)),
        "Matmul": (Case(contraction.MatmulOp, (TIES, TIES.T.copy())), torch.matmul),
        "Resize": (
            Case(
                movement.ResizeOp,
                (_IMAGE,),
                {"sizes": (1, 1, 9, 4), "scales": np.array([1, 1, 1.5, 0.5]), "mode": "linear"},
            ),
            lambda x: functional.interpolate(x, size=(9, 4), mode="bilinear", align_corners=False),
        ),
    }
    for name in ("amax", "amin", "prod"):
        reduction_ = {"amax": "max", "amin": "min", "prod": "mul"}[name]
        rows, updates = np.array([1, 0, 1, 2]), np.array([[2.0, 0.0], [1.0, 0.0], [2.0, 3.0], [0.0, 1.0]])
        start = np.array([[1.0, 2.0], [2.0, 3.0], [0.0, 0.0]])
        found[f"Scatter {name}"] = (
            Case(movement.ScatterOp, (start, rows, updates, None), {"axis": 0, "reduction": reduction_}),
            lambda x, at, y, name=name: x.scatter_reduce(0, at[:, None].expand_as(y), y, name),
        )
    for padding in ("zeros", "border", "reflection"):
        positions = np.moveaxis((_AT[..., ::-1] + 1) * np.array([5.0, 7.0]) / 2, -1, 1).copy()
        found[f"Sample {padding}"] = (
            Case(movement.SampleOp, (_IMAGE, positions), {"padding": padding, "about_edges": True}),
            lambda x, at, padding=padding: functional.grid_sample(
                x,
                (at.movedim(1, -1) * 2 / torch.tensor([5.0, 7.0], dtype=at.dtype) - 1).flip(-1),
                "bilinear",
                padding,
                align_corners=True,
            ),
        )
    return found


CASES = _unary() | _others()


@pytest.fixture(scope="module")
def context():
    made = ir.Context()
    load_dialects(made)
    with made, ir.Location.unknown():
        yield made


@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_those_of_torch(context, name: str) -> None:
    case, function = CASES[name]
    given = [item for item in case.operands if item is not None]
    joint = program_of(case)
    DifferentiatePass(seeded=True).run(joint.operation, CompileState())
    tensors = [torch.from_numpy(item.copy()) for item in given]
    smooth = [tensor.requires_grad_() for tensor in tensors if tensor.is_floating_point()]
    wanted = function(*tensors)
    seed = np.random.default_rng(0).standard_normal(tuple(wanted.shape))
    with np.errstate(all="ignore"):
        value, *gradients = evaluate(joint, "main", [*given, seed], {})
    np.testing.assert_allclose(value, wanted.detach(), rtol=1e-6, atol=1e-6)
    expected = torch.autograd.grad(wanted, smooth, torch.from_numpy(seed))
    for ours, theirs in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
