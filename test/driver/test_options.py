"""Options are checked when they are made, and targets when a model is compiled, not when it is first called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell

MODEL = b"""
func.func @main(%x: tensor<?x4xf32> {stepwell.name = "x", stepwell.dims = ["rows", 4]})
    -> (tensor<?x4xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.tanh"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cache": "always"}, "cache is 'always', and must be one of True, False, 'require'"),
        ({"cache": 1}, "cache is 1, and must be one of True, False, 'require'"),
        ({"fallback": "never"}, "fallback is 'never', and must be one of 'warn', 'error', 'quiet'"),
        ({"fallback": ["warn"]}, "fallback is ['warn'], and must be one of"),
        ({"precision": "f8"}, "precision is 'f8', and must be one of 'f32', 'tf32', 'bf16', 'f16'"),
        ({"checked": "some"}, "checked is 'some', and must be one of True, False, 'inputs'"),
        ({"winograd": "no"}, "winograd is 'no', and must be True or False"),
        ({"guarded": 1}, "guarded is 1, and must be True or False"),
        ({"codegen_threads": 0}, "codegen_threads is 0, and must be a number of 1 or more"),
        ({"codegen_threads": 1.5}, "codegen_threads is 1.5, and must be a number of 1 or more"),
        ({"shapes": [("x", (3, 4))]}, "shapes is [('x', (3, 4))], and must be a mapping from names to sequences"),
        ({"shapes": {"x": "3x4"}}, "shapes['x'] is '3x4', and must be sequences of sizes"),
        ({"shapes": {"x": 3}}, "shapes['x'] is 3, and must be sequences of sizes"),
        ({"shapes": {0: (3, 4)}}, "shapes has the key 0, and its keys must be names"),
        ({"dims": {"n": 1.5}}, "dims['n'] is 1.5, and must be a size, (low, high)"),
        ({"dims": "n=1:64"}, "dims is 'n=1:64', and must be a mapping"),
        ({"substitutes": {"kernel": 3}}, "substitutes['kernel'] is 3, and must be paths of MLIR files"),
        ({"reached": "phase"}, "reached is 'phase', and must be callable"),
        ({"instrumentation": "timing"}, "instrumentation is 'timing', and must be a sequence"),
        ({"guarded": True, "reached": print}, "guarded cannot be combined with reached or instrumentation"),
    ],
)
def test_wrong_values_are_refused_when_options_are_made(fields: dict, said: str) -> None:
    for make in (lambda: stepwell.Options(**fields), lambda: stepwell.compile(MODEL, options=fields)):
        with pytest.raises(stepwell.OptionError) as caught:
            make()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


def test_numpy_numbers_are_accepted() -> None:
    stepwell.Options(shapes={"x": np.array([3, 4])}, codegen_threads=np.int64(2), winograd=np.bool_(True))  # type: ignore[arg-type]
    stepwell.Options(shapes={"x": [3, 4]}, dims={"n": np.int64(3), "m": [1, 2], "k": "n + 1"})


def test_a_mapping_stands_for_options() -> None:
    run = stepwell.compile(MODEL, threads=1, options={"cache": False, "shapes": {"x": (2, 4)}})
    assert [program.input_shapes for program in run.programs] == [((2, 4),)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fallbck": "warn"}, "there is no option 'fallbck'; did you mean 'fallback'?"),
        ({"zzz": 1}, "there is no option 'zzz'; the options are shapes, dims, cache"),
        ({3: 1}, "there is no option 3; the options are"),
        ([], "options must be stepwell.Options or a mapping of option names, but is []"),
        ("fast", "options must be stepwell.Options or a mapping of option names, but is 'fast'"),
    ],
)
def test_invalid_options_are_refused(options, said: str) -> None:
    with pytest.raises(stepwell.OptionError) as caught:
        stepwell.compile(MODEL, options=options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "target", ["x86-64-v9", "gpu", "cuda", "cuda:sm_10", "cuda:", "cpu:pentium9000", "aarch64:znver3", "cpu+f8", ""]
)
def test_an_unknown_target_is_refused_at_compile(target: str) -> None:
    with pytest.raises(stepwell.TargetError, match="known"):
        stepwell.compile(MODEL, target=target)


@pytest.mark.parametrize("target", [None, 3, Path("cpu")])
def test_a_target_that_is_not_a_name_is_refused(target) -> None:
    with pytest.raises(stepwell.OptionError, match="must be a name"):
        stepwell.compile(MODEL, target=target)
