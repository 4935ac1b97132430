"""Warnings name the line of the user's code, not one of Stepwell's."""

from __future__ import annotations

import warnings

import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.support.warning import warn


def test_the_caller_is_named() -> None:
    with pytest.warns(stepwell.StepwellWarning, match="careful") as caught:
        warn("careful")
    assert caught[0].filename == __file__


def test_a_warning_of_a_compile_names_the_call() -> None:
    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER")
    ports = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "words", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stepwell.compile(model)
    assert [(item.category, item.filename) for item in caught] == [(stepwell.FallbackWarning, __file__)]
