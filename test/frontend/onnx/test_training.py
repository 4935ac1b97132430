"""Operators of training: optimiser steps and batch normalisation by the batch, compared with ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import helper
from onnx.reference import ReferenceEvaluator
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import ModelError
from stepwell.frontend.onnx.importer import import_model

TRAINING = "ai.onnx.preview.training"


@pytest.fixture
def check(build: Callable[..., onnx.ModelProto]) -> Callable[..., None]:
    """Compares a node with ONNX's reference."""

    def compare(
        op_type: str, feeds: Sequence[np.ndarray], count: int, domain: str = TRAINING, **attributes: Any
    ) -> None:
        named = {f"x{index}": array for index, array in enumerate(feeds)}
        outputs = [f"y{index}" for index in range(count)]
        node = helper.make_node(op_type, list(named), outputs, domain=domain, **attributes)
        model = build([node], named, outputs, {}, 15, {TRAINING: 1} if domain else None)
        want = ReferenceEvaluator(model).run(None, named)  # in float64 if a scalar has that type
        for output in model.graph.output:
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        imported = import_model(model, ir.Context(), {name: array.shape for name, array in named.items()})
        got = evaluate(imported.module, "main", list(feeds), imported.parameters)
        for mine, wanted in zip(got, want, strict=True):
            assert mine.dtype == np.float32
            np.testing.assert_allclose(mine, wanted, rtol=2e-6, atol=1e-6)

    return compare


def tensors(rng: np.random.Generator, kinds: int, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Returns a tensor of each kind for every shape; those of the last kind (sums of squares) are positive."""
    made = [rng.standard_normal(shape).astype(np.float32) for _ in range(kinds) for shape in shapes]
    return [*made[: -len(shapes)], *map(np.square, made[-len(shapes) :])]


SHAPES = [[(3,)], [(2, 3), (1,), ()]]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("count", [0, 5])
def test_adagrad(check, rng, shapes, count):
    feeds = [np.float32(0.1), np.int64(count), *tensors(rng, 3, shapes)]
    check("Adagrad", feeds, 2 * len(shapes), decay_factor=0.3, epsilon=1e-3, norm_coefficient=0.01)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_adam(check, rng, shapes, count):
    feeds = [np.float32(0.1), np.int64(count), *tensors(rng, 4, shapes)]
    attributes = {"epsilon": 1e-3, "norm_coefficient": 0.01, "norm_coefficient_post": 0.02}
    check("Adam", feeds, 3 * len(shapes), alpha=0.9, beta=0.999, **attributes)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("mode", ["standard", "nesterov"])
@pytest.mark.parametrize("count", [0, 2])
def test_momentum(check, rng, shapes, mode, count):
    feeds = [np.float32(0.1), np.int64(count), *tensors(rng, 3, shapes)]
    check("Momentum", feeds, 2 * len(shapes), mode=mode, alpha=0.95, beta=0.1, norm_coefficient=0.001)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
def test_batch_norm_by_the_batch(check, rng, shape):
    statistics = [rng.standard_normal(3).astype(np.float32) for _ in range(3)]
    feeds = [rng.standard_normal(shape).astype(np.float32) + 2, *statistics, np.square(statistics[0])]
    check("BatchNormalization", feeds, 3, domain="", training_mode=1, momentum=0.8, epsilon=1e-3)


def test_negative_optimisers(build):
    x = np.zeros(2, np.float32)
    for mode, extra, message in (("heavy", [], "must be 'standard'"), ("nesterov", [x], "takes 3 inputs for each")):
        feeds = {f"x{index}": value for index, value in enumerate([np.float32(1), np.int64(1), x, x, x, *extra])}
        node = helper.make_node("Momentum", list(feeds), ["y", "z"], domain=TRAINING, mode=mode)
        model = build([node], feeds, ["y"], {}, 15, {TRAINING: 1})
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        with pytest.raises(ModelError, match=message):
            import_model(model, ir.Context(), {name: array.shape for name, array in feeds.items()})
