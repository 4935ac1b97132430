"""Modules that are not what they say: each ends in one clear error."""

import pytest
import stepwell
from stepwell.frontend.errors import ModelError
from stepwell.passes.base import PassError

IDENTITY = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


@pytest.mark.parametrize(
    "text",
    [
        "module { func.func private @main(tensor<4xf32>) -> tensor<4xf32> }",
        "module { memref.global @main : memref<4xf32> }",
    ],
)
def test_main_without_a_body(text):
    with pytest.raises(ModelError, match="must be a function with a body"):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))


@pytest.mark.parametrize(
    ("phase", "message"), [("bogus", "there is no phase 'bogus'"), ("llvm", "has no 'stepwell.interface'")]
)
def test_module_in_another_phase_than_it_says(phase, message):
    text = f'module attributes {{stepwell.phase = "{phase}"}} {{ {IDENTITY} }}'
    with pytest.raises(PassError, match=message):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))
