"""MLIR text as a model."""

from __future__ import annotations

import pytest
import stepwell


def test_negative_custom_form_of_an_op() -> None:
    text = b"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stepwell.relu(%x) : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    with pytest.raises(stepwell.ModelError, match=r"line 2, column 8: 'stepwell.relu' has no custom form"):
        stepwell.compile(text)


def test_reports_know_the_nodes_that_locations_name() -> None:
    text = b"""func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.softmax"(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("probabilities")
  %1 = "stepwell.exp"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("twice")
  %2 = "stepwell.neg"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("twice")
  return %2 : tensor<4x8xf32>
}"""
    (program,) = stepwell.compile(text).report().record()["programs"]
    assert [(op["name"], op["type"]) for op in program["ops"]] == [
        ("probabilities", "stepwell.softmax"),
        ("twice", "stepwell.neg"),
    ]


def test_failures_tell_the_types_of_ops_of_other_dialects() -> None:
    text = b"""func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tosa.erf %x : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("second")
  return %0 : tensor<4x8xf32>
}"""
    with pytest.raises(stepwell.CompileError) as caught:
        stepwell.compile(text)
    assert caught.value.failure is not None
    assert [str(op) for op in caught.value.failure.ops] == [
        "node 'second' (tosa.erf): tensor<4x8xf32> -> tensor<4x8xf32>"
    ]
