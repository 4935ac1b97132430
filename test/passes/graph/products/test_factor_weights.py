"""Weights that are replaced by factors of lower rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.passes.graph.products.factor_weights import factored


def _weight(rows: int, columns: int, rank: int, noise: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(0)
    exact = random.standard_normal((rows, rank)) @ random.standard_normal((rank, columns)) / np.sqrt(rank)
    return (exact + noise * random.standard_normal((rows, columns))).astype(np.float32)


def _model(nodes: list, weights: dict[str, np.ndarray], shape: list, rank: int) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", ports, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _compiled(model: onnx.ModelProto, bound: float, **options: object) -> stepwell.Executable:
    return stepwell.compile(model, options={"low_rank": bound, "cache": False, **options})


def _remarks(executable: stepwell.Executable) -> list[str]:
    return [item.message for item in executable.report().remarks if item.rule == "Factor"]


def _linear(weight: np.ndarray, **attributes: Any) -> onnx.ModelProto:
    columns = weight.shape[0 if attributes else 1]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "product", **attributes)]
    depth = weight.shape[1 if attributes else 0]
    return _model(nodes, {"w": weight, "b": np.ones(columns, np.float32)}, ["n", depth], 2)


@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (24, 24)])
@pytest.mark.parametrize("bound", [1e-3, 0.1, 0.5])
def test_the_rank_is_the_least_within_the_bound(shape: tuple[int, int], bound: float) -> None:
    weight = _weight(*shape, rank=24, noise=0.3)
    found = factored(weight, bound)
    singular = np.linalg.svd(weight.astype(np.float64), compute_uv=False)
    lost = [np.sqrt((singular[rank:] ** 2).sum() / (singular**2).sum()) for rank in range(len(singular) + 1)]
    assert found.rank == next(rank for rank in range(1, len(lost)) if lost[rank] <= bound)
    difference = found.left.astype(np.float64) @ found.right - weight
    assert np.sqrt((difference**2).mean() / (weight**2).mean()) == pytest.approx(found.error, abs=1e-6)
    assert found.error <= bound


def test_zeros_have_one_factor_of_each() -> None:
    found = factored(np.zeros((8, 4), np.float32), 0.1)
    assert (found.rank, found.error) == (1, 0.0) and not (found.left @ found.right).any()


@pytest.mark.parametrize("attributes", [{}, {"transB": 1}])
def test_products_of_low_rank_take_less_memory(attributes: dict[str, int]) -> None:
    weight = _weight(96, 128, rank=8, noise=1e-4)
    model = _linear(np.ascontiguousarray(weight.T) if attributes else weight, **attributes)
    x = np.random.default_rng(1).standard_normal((5, 96)).astype(np.float32)
    exact, small = _compiled(model, 0.0), _compiled(model, 0.01)
    wanted, got = exact(x), small(x)
    assert np.abs(got - wanted).max() < 0.01 * np.abs(wanted).max() and not np.array_equal(got, wanted)
    assert small.programs[0].parameter_bytes < exact.programs[0].parameter_bytes / 4
    assert _remarks(small) == [f"96x128 has rank 8 with error {factored(weight, 0.01).error:.2g}: 0.15 of its size"]


@pytest.mark.parametrize("bound", [0.0, 0.01])
def test_negative_weights_of_full_rank_stay(bound: float) -> None:
    weight = _weight(96, 128, rank=96)
    executable, found = _compiled(_linear(weight), bound), factored(weight, 0.01)
    executable(np.ones((2, 96), np.float32))
    expected = [f"96x128 needs rank {found.rank}, whose factors take {found.share:.2f} of its size"]
    assert found.share > 1 and _remarks(executable) == (expected if bound else [])


def test_convolutions_of_low_rank_get_fewer_filters() -> None:
    weight = _weight(32, 16 * 9, rank=4).reshape(32, 16, 3, 3)
    grouped = _weight(32, 8 * 9, rank=4).reshape(32, 8, 3, 3)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["h"], "low", strides=[2, 1], pads=[1, 0, 1, 2], dilations=[1, 2]),
        helper.make_node("Conv", ["h", "g"], ["y"], "grouped", group=4),
    ]
    weights = {"w": weight, "b": np.arange(32, dtype=np.float32), "g": grouped}
    model = _model(nodes, weights, [2, 16, 9, 11], 4)
    x = np.random.default_rng(1).standard_normal((2, 16, 9, 11)).astype(np.float32)
    small = _compiled(model, 1e-3)
    np.testing.assert_allclose(small(x), _compiled(model, 0.0)(x), rtol=1e-3, atol=1e-2)
    assert [text.split(" with")[0] for text in _remarks(small)] == ["144x32 has rank 4"]


def test_a_weight_of_two_products_has_one_pair_of_factors() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"], "second"),
    ]
    model = _model(nodes, {"w": _weight(64, 64, rank=4)}, [3, 64], 2)
    small = _compiled(model, 1e-3)
    small(np.ones((3, 64), np.float32))
    assert len(_remarks(small)) == 2 and small.programs[0].parameter_bytes < 2 * 4 * (64 * 4 * 2)


def test_the_bound_holds_in_ranges_of_sizes() -> None:
    model = _linear(_weight(64, 64, rank=4))
    small, exact = _compiled(model, 1e-3, dims={"n": (1, 20)}), _compiled(model, 0.0)
    assert len(_remarks(small)) == 1
    for rows in (1, 7, 20):
        x = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
        np.testing.assert_allclose(small(x), exact(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bound", [-0.1, 1.0, "0.1", float("nan")])
def test_bounds_that_are_no_error_are_refused(bound: object) -> None:
    with pytest.raises(stepwell.OptionError, match="low_rank is"):
        stepwell.Options(low_rank=bound)  # type: ignore[arg-type]
