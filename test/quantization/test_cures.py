"""Cures: each named fault gets those that fit, their effect is measured, and the best one is applied."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import onnx
import pytest
import stepwell
from onnx import helper

from .graphs import Samples, model_of, products

SPLIT = "channels with outliers of the weights in float"
Made = tuple[onnx.ModelProto, Samples]


def one(weight: np.ndarray, samples: Samples, count: int = 64) -> Made:
    """A product of an activation with `count` channels."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "only")]
    return model_of(nodes, {"w": weight}, {"x": ["n", count]}, ["n", weight.shape[1]]), samples


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def rows(channel: np.ndarray | float = 1.0) -> Samples:
    random = np.random.default_rng(1)
    return [{"x": (random.standard_normal((16, 64)) * channel).astype(np.float32)} for _ in range(4)]


def large_weight() -> Made:
    weight = normal(64, 8) * 0.01
    weight[3, 2] = 50.0
    return one(weight, rows())


def wide_range() -> Made:
    samples = rows()
    for sample in samples[1:]:
        sample["x"] *= np.float32(0.002)
    return one(normal(64, 8), samples)


def large_block() -> Made:
    """Two of the 128 weights of each channel take the whole range, so that few numbers are left for the others."""
    weight = normal(128, 32)
    weight[5], weight[70] = 9.0, -9.0
    samples = [{"x": np.concatenate([item["x"]] * 2, axis=1)} for item in rows()]
    return one(weight, samples, 128)


def underflow() -> Made:
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"], "only"),
        helper.make_node("MatMul", ["a", "w"], ["y"], "second"),
    ]
    weights = {"v": normal(64, 16) * 1e-33, "w": normal(16, 8) * 1e30}
    return model_of(nodes, weights, {"x": ["n", 64]}, ["n", 8]), rows()


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("make", "options", "fault", "cure", "most"),
    [
        (products, {}, "channels of the activation with outliers: 7", "channels with outliers in float", 0.3),
        (products, {"method": "dynamic"}, "activation with outliers: 7", "outliers moved into the weights", 0.5),
        (large_weight, {}, "output channels of the weights with outliers: 2", SPLIT, 0.9),
        (large_weight, {"method": "weights"}, "input channels of the weights with outliers: 3", SPLIT, 0.5),
        (large_block, {"method": "weights", "block": 128}, "blocks of 128 are too large", "blocks of 16", 0.9),
        (underflow, {}, "whose scale underflows", "float", 0.01),
    ],
)
def test_a_fault_is_cured(make: Callable[[], Made], options, fault: str, cure: str, most: float) -> None:
    model, samples = make()
    plain = stepwell.quantize(model, samples, cures=False, **options)
    cured = stepwell.quantize(model, samples, **options)
    onnx.checker.check_model(cured.model)
    tried = [trial for item in cured.report.products for trial in item.trials if trial.cure == cure]
    assert fault in tried[0].fault and tried[0].after < most * tried[0].before
    assert cured.report.errors.relative < plain.report.errors.relative
    want = [stepwell.compile(model)(**sample) for sample in samples]
    got = [cured.compile()(**sample) for sample in samples]
    errors = [((a - b) ** 2).sum() / (b**2).sum() for a, b in zip(got, want, strict=True)]
    assert cured.report.errors.relative == pytest.approx(np.sqrt(np.mean(errors)), rel=0.3, abs=1e-3)


def test_ranges_and_scales_of_calls_are_tried_for_values_that_become_0() -> None:
    (only,) = stepwell.quantize(*wide_range()).report.products
    after = {trial.cure: trial.after for trial in only.trials}
    assert {"range by mse", "range by percentile", "scale from each call"} <= set(after)
    assert only.cure == "scale from each call" and after[only.cure] < 0.1 * only.trials[0].before


def test_clipped_values_get_a_wider_range() -> None:
    samples = [{"x": np.random.default_rng(0).standard_cauchy((50, 64)).astype(np.float32)}]
    made = stepwell.quantize(*one(normal(64, 8), samples), ranges="percentile", percentile=0.99)
    (only,) = made.report.products
    found = {trial.cure: trial for trial in only.trials if "are clipped" in trial.fault}
    assert found["range by mse"].after < 0.5 * found["range by mse"].before


def test_products_without_faults_have_no_trials() -> None:
    report = stepwell.quantize(*one(normal(64, 8), rows())).report
    assert [item.trials for item in report.products] == [()] and report.products[0].form == "int8"


def test_the_report_has_trials_in_both_forms() -> None:
    report = stepwell.quantize(*products()).report
    (first,) = [item for item in json.loads(json.dumps(report.record()))["products"] if item["node"] == "first"]
    applied = [trial for trial in first["trials"] if trial["is_applied"]]
    assert [trial["cure"] for trial in applied] == [first["cure"]] == ["channels with outliers in float"]
    assert applied[0]["after"] < applied[0]["before"]
    assert (
        f"channels with outliers in float: {applied[0]['before']:.2g} to {applied[0]['after']:.2g}" in report.to_html()
    )


def test_a_budget_uses_cures_that_cost_few_bytes() -> None:
    model, samples = products()
    plain = stepwell.quantize(model, samples, cures=False).report.errors.relative
    budget = 0.5 * plain
    without = stepwell.quantize(model, samples, cures=False, max_error=budget).report
    cured = stepwell.quantize(model, samples, max_error=budget).report
    assert without.is_met and cured.is_met and cured.bytes < 0.6 * without.bytes


def test_onnxruntime_runs_channels_in_float() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, samples = large_weight()
    made = stepwell.quantize(model, samples, method="weights")
    assert any(node.op_type == "Gather" for node in made.model.graph.node)
    session = onnxruntime.InferenceSession(made.model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(made.compile()(**samples[0]), session.run(None, samples[0])[0], rtol=1e-4, atol=1e-4)
