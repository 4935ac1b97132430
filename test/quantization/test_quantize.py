"""Quantised models: other runtimes compute the same, errors are as measured, budgets are met, causes are named."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import helper
from stepwell.quantization.float_model import FloatModel
from stepwell.quantization.onnx_writer import RECIPE
from stepwell.quantization.options import QuantizationOptions
from stepwell.quantization.plan import make_plan
from stepwell.quantization.preparation import fold_batch_norms, smooth

from .graphs import images, model_of, products


def relative(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.sqrt(((got - want) ** 2).sum() / (want**2).sum()))


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_batch_norms_are_folded() -> None:
    model, samples = images()
    read = FloatModel.read(model)
    assert fold_batch_norms(read) == 2
    assert "BatchNormalization" not in kinds(read.proto)
    want, got = stepwell.compile(model)(**samples[0]), stepwell.compile(read.proto)(**samples[0])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_outliers_move_without_a_change_of_the_result() -> None:
    model, samples = products()
    read = FloatModel.read(model)
    factors = smooth(read, {"x": np.abs(samples[0]["x"]).max(axis=0)}, 0.5)
    assert factors["x"].argmax() == 7
    want, got = stepwell.compile(model)(**samples[0]), stepwell.compile(read.proto)(**samples[0])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("make", "options", "operators", "most"),
    [
        (images, {}, {"QuantizeLinear", "DequantizeLinear"}, 0.03),
        (images, {"ranges": "mse"}, {"QuantizeLinear", "DequantizeLinear"}, 0.03),
        (images, {"method": "dynamic"}, {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"}, 0.03),
        (products, {"method": "dynamic"}, {"DynamicQuantizeLinear", "MatMulInteger"}, 0.08),
        (products, {"method": "weights"}, {"MatMulNBits"}, 0.25),
        (products, {"method": "weights", "bits": 8, "symmetric": True}, {"MatMulNBits"}, 0.03),
        (products, {"method": "weights", "algorithm": "gptq"}, {"MatMulNBits"}, 0.08),
    ],
)
def test_the_error_is_the_one_measured(make, options, operators, most) -> None:
    model, samples = make()
    made = stepwell.quantize(model, samples, **options)
    onnx.checker.check_model(made.model)
    assert operators <= set(kinds(made.model))
    want = [stepwell.compile(model)(**sample) for sample in samples]
    got = [made.compile()(**sample) for sample in samples]
    error = np.sqrt(np.mean([relative(*pair) ** 2 for pair in zip(got, want, strict=True)]))
    assert made.report.errors.relative == pytest.approx(error, rel=0.3, abs=1e-3)
    assert made.report.errors.relative < most


@pytest.mark.parametrize("options", [{"method": "weights"}, {"method": "weights", "bits": 8, "block": 16}])
def test_onnxruntime_computes_the_same(options) -> None:
    """Products of bytes are not compared: ONNX Runtime saturates their sums on CPUs without VNNI."""
    model, samples = products()
    made = stepwell.quantize(model, samples, **options)
    session = onnxruntime.InferenceSession(made.model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(made.compile()(**samples[0]), session.run(None, samples[0])[0], rtol=1e-4, atol=1e-4)


def test_smoothing_lowers_the_error_of_outliers() -> None:
    model, samples = products()
    plain = stepwell.quantize(model, samples, cures=False).report.errors.relative
    assert stepwell.quantize(model, samples, smooth=0.5, cures=False).report.errors.relative < 0.5 * plain


def test_a_budget_of_error_is_met_with_few_products_in_float() -> None:
    model, samples = products()
    narrow = stepwell.quantize(model, samples, cures=False)
    made = stepwell.quantize(model, samples, cures=False, max_error=0.5 * narrow.report.errors.relative)
    assert made.report.is_met
    forms = [item.form for item in made.report.products]
    assert made.report.errors.relative <= 0.5 * narrow.report.errors.relative
    assert forms.count("float") == 1 and made.report.products[0].form == "float"
    assert made.report.products[0].cure == "kept in float"


def test_a_budget_mixes_widths_of_weights() -> None:
    model, samples = products()
    narrow = stepwell.quantize(model, samples, method="weights").report
    made = stepwell.quantize(model, samples, method="weights", max_error=0.5 * narrow.errors.relative).report
    forms = {item.form for item in made.products}
    assert made.is_met and len(forms) > 1 and narrow.bytes < made.bytes < narrow.float_bytes


def test_a_budget_of_bytes_is_met() -> None:
    model, samples = products()
    made = stepwell.quantize(model, samples, method="weights", target_bytes=20_000).report
    assert made.is_met and 10_000 < made.bytes <= 20_000


def test_times_of_all_forms_are_predicted() -> None:
    model, samples = products()
    report = stepwell.quantize(model, samples, cures=False).report
    for item in report.products:
        assert list(item.forms) == ["float", "int8"]
        assert 0 < item.forms["int8"]["nanoseconds"] < item.forms["float"]["nanoseconds"]
        assert item.forms[item.form]["bytes"] == item.bytes
    wide, narrow = (sum(item.forms[name]["nanoseconds"] for item in report.products) for name in ("float", "int8"))
    assert (report.float_nanoseconds, report.nanoseconds) == pytest.approx((wide, narrow))
    assert f"predicted time {narrow / wide:.2f} of float's" in report.summary


def test_a_budget_that_cannot_be_met_is_reported() -> None:
    model, samples = products()
    with pytest.warns(stepwell.StepwellWarning, match="BUDGET IS NOT MET"):
        made = stepwell.quantize(model, samples, target_bytes=100)
    assert not made.report.is_met


def test_planted_faults_are_named() -> None:
    model, samples = products(outlier=1000.0)
    reasons = {item.node: "; ".join(item.reasons) for item in stepwell.quantize(model, samples).report.products}
    assert "channels of the activation with outliers: 7" in reasons["first"]
    weights = {"w": np.random.default_rng(0).standard_normal((64, 8)) * 0.01}
    weights["w"][3, 2] = 50.0
    bad = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "only")], weights, {"x": [4, 64]}, [4, 8])
    data = [{"x": np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)}]
    (only,) = stepwell.quantize(bad, data).report.products
    assert "output channels of the weights with outliers: 2" in only.reasons
    (only,) = stepwell.quantize(bad, data, method="weights").report.products
    assert "input channels of the weights with outliers: 3" in only.reasons


def test_a_clipped_activation_is_named() -> None:
    model, _ = products(outlier=1.0)
    random = np.random.default_rng(0)
    samples = [{"x": random.standard_cauchy((50, 64)).astype(np.float32)}]
    made = stepwell.quantize(model, samples, ranges="percentile", percentile=0.99).report
    assert any("of the activation are clipped" in reason for item in made.products for reason in item.reasons)


def _reasons(w0: float = 1.0, w1: float = 1.0, small: int = 0) -> dict[str, str]:
    """The reasons of two products in a row whose weights have these factors; `small` samples are of 0.01."""
    random = np.random.default_rng(0)
    weights = {"w0": random.standard_normal((64, 96)) * w0 / 8, "w1": random.standard_normal((96, 16)) * w1 / 10}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "w1"], ["y"], "second"),
    ]
    samples = [{"x": random.standard_normal((8, 64)).astype(np.float32)} for _ in range(6)]
    for sample in samples[:small]:
        sample["x"] *= np.float32(0.01)
    report = stepwell.quantize(model_of(nodes, weights, {"x": ["n", 64]}, ["n", 16]), samples).report
    return {item.node: "; ".join(item.reasons) for item in report.products}


def test_a_range_that_is_too_wide_for_most_values_is_named() -> None:
    assert "% of the activation's values other than 0 become 0: its range is too wide" in _reasons(small=5)["first"]
    assert not any(_reasons().values())


def test_scales_that_underflow_are_named() -> None:
    made = _reasons(w0=1e-33, w1=1e30)
    assert "output channels of the weights whose scale underflows: 0, 1, 2 and 93 more" in made["first"]
    assert "the scale of the activation underflows" in made["second"]
    assert "the product of the scales underflows in float32" in _reasons(w0=1e-20, w1=1e-24)["second"]


def test_excluded_products_stay_in_float() -> None:
    model, samples = products()
    made = stepwell.quantize(model, samples, exclude=["second"])
    assert {item.node for item in made.report.products} == {"first", "third"}
    with pytest.raises(stepwell.QuantizationError, match="no product is called 'other'; they are first, second, third"):
        stepwell.quantize(model, samples, exclude=["other"])


def test_products_of_one_weight_share_its_forms() -> None:
    weight = np.random.default_rng(0).standard_normal((64, 64)) / 8
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"], "second"),
        helper.make_node("Gemm", ["c", "w"], ["y"], "transposed", transB=1),
    ]
    model = FloatModel.read(model_of(nodes, {"w": weight}, {"x": ["n", 64]}, ["n", 64]))
    first, second, transposed = make_plan(model, QuantizationOptions(method="weights"), {}).products
    assert first.widths is second.widths and first.widths is not transposed.widths


def test_the_recipe_is_in_the_model(tmp_path) -> None:
    model, samples = products()
    made = stepwell.quantize(model, samples)
    made.save(tmp_path / "narrow.onnx")
    (entry,) = [item for item in onnx.load(tmp_path / "narrow.onnx").metadata_props if item.key == RECIPE]
    assert json.loads(entry.value)["products"] == {
        "first": "int8, channels with outliers in float",
        "second": "int8",
        "third": "int8",
    }


def test_reports_are_json_and_pages() -> None:
    model, samples = products()
    report = stepwell.quantize(model, samples).report
    record = json.loads(json.dumps(report.record()))
    assert record["schema"] == 1 and len(record["products"]) == 3
    assert sum(item["share"] for item in record["products"]) == pytest.approx(1.0)
    assert (
        "first" in report.to_html() and "3 of 3 products quantised" in repr(report) and "<table" in report._repr_html_()
    )


def test_weights_that_are_no_constants_are_left() -> None:
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"])]
    with pytest.raises(stepwell.QuantizationError, match="has nothing to quantise"):
        stepwell.quantize(model_of(nodes, {}, {"x": [2, 4], "z": [4, 2]}, [2, 2]), [{}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "int8"}, "method is 'int8', and must be one of static, dynamic, weights"),
        ({"bits": 5}, "bits is 5, and must be 4 or 8"),
        ({"block": 48}, "block is 48, and must be a power of two"),
        ({"max_error": 0.0}, "max_error is 0.0, and must be above 0"),
        ({"algorithm": "gptq"}, "algorithm 'gptq' is for method 'weights'"),
        ({"method": "weights", "smooth": 0.5}, "smooth moves outliers of activations"),
    ],
)
def test_wrong_options(options, message) -> None:
    with pytest.raises(stepwell.OptionError, match=message):
        stepwell.QuantizationOptions(**options)


def test_samples_are_needed() -> None:
    with pytest.raises(stepwell.QuantizationError, match="there are no samples"):
        stepwell.quantize(products()[0], [])


def test_samples_must_be_finite_and_fit() -> None:
    model, samples = products()
    broken = {"x": np.full((5, 64), np.inf, np.float32)}
    with pytest.raises(stepwell.QuantizationError, match="has values that are not finite"):
        stepwell.quantize(model, [broken])
    with pytest.raises(stepwell.InputError):
        stepwell.quantize(model, [{"z": samples[0]["x"]}])
