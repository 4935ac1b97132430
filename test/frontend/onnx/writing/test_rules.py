"""Ops in ONNX: ONNX Runtime computes what the ops' references do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from mlir import ir
from stepwell.dialects.core import OPS
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.frontend.imported import ModelInfo, ValueInfo
from stepwell.frontend.onnx.writing.onnx_form import ONNX_FORM, NoOnnxFormError
from stepwell.frontend.onnx.writing.write import write_model
from stepwell.passes.ir.functions import main_function

from ..conftest import run_ort
from .cases import CASES, REFUSED, Case, program_of

WITHOUT = Path(__file__).with_name("without_onnx_form.txt")


@pytest.fixture(scope="module")
def context():
    made = ir.Context()
    load_dialects(made)
    with made, ir.Location.unknown():
        yield made


def written(case: Case) -> tuple[onnx.ModelProto, ir.Module, dict[str, np.ndarray]]:
    """The model of one op in ONNX, its module, and its inputs."""
    module = program_of(case)
    feeds = {f"x{place}": item for place, item in enumerate(case.given)}
    main = main_function(module.operation)
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    inputs = tuple(ValueInfo(name, item.dtype, item.shape) for name, item in feeds.items())
    outputs = tuple(ValueInfo(f"y{place}", np.dtype(np.float32), None) for place in range(len(results)))
    return write_model(main, {}, ModelInfo("op", inputs, outputs)), module, feeds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_onnx_runtime_computes_the_same(context, case: Case) -> None:
    model, module, feeds = written(case)
    onnx.checker.check_model(model, full_check="com.microsoft" not in {item.domain for item in model.opset_import})
    for got, want in zip(run_ort(model, feeds), evaluate(module, "main", case.given, {}), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("case", "reason"), REFUSED, ids=str)
def test_what_onnx_lacks_is_refused(context, case: Case, reason: str) -> None:
    with pytest.raises(NoOnnxFormError, match=reason):
        written(case)


def test_each_op_has_a_form_or_is_listed() -> None:
    """An op without a form is listed with its reason, so that a new op is not forgotten."""
    listed = {line for line in WITHOUT.read_text().splitlines() if line and not line.startswith("#")}
    assert {name for name, kind in OPS.items() if ONNX_FORM.of(kind) is None} == listed
