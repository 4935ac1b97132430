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
