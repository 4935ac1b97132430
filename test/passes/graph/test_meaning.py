"""Every graph pass preserves the results of random programs, computed by the reference interpreter."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.passes.graph.pipelines import graph_pipeline
from stepwell.passes.infra.base import Pass
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.ir.functions import function_named

_PASSES = (
    "stepwell-infer-shapes",
    "stepwell-fold-constants",
    "stepwell-canonicalize",
    "stepwell-cse",
    "stepwell-dce",
    "stepwell-fuse-composites",
    "stepwell-fold-batch-norm",
    "stepwell-fold-batch-norm,stepwell-merge-convolutions",
    "stepwell-convert-layout",
    "stepwell-convert-layout,stepwell-propagate-transposes",
    "stepwell-propagate-transposes,stepwell-fold-transposes",
    "stepwell-make-padding-explicit",
    "stepwell-sink-movement",
    "stepwell-convert-layout,stepwell-sum-single-columns",
    "stepwell-convert-layout,stepwell-sum-few-rows",
    "stepwell-convert-layout,stepwell-factor-weights",
    "stepwell-convert-layout,stepwell-join-columns",
    "stepwell-convert-layout,stepwell-choose-winograd{tile=2}",
    "stepwell-convert-layout,stepwell-choose-winograd{tile=4}",
    "stepwell-hoist-parameters",
    "stepwell-quantize-early",
    "stepwell-fold-batch-norm,stepwell-hoist-parameters",
)


def _load(name: str):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


random_programs = _load("random_programs")


def _run(module: ir.Module, inputs: list[np.ndarray], parameters: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the results of @main, after @init if there is one."""
    init = function_named(module.operation, "init")
    everything = dict(parameters)
    if init is not None:
        names = [attrs["stepwell.name"].value for attrs in init.attributes["arg_attrs"]]
        made = [attrs["stepwell.name"].value for attrs in init.attributes["res_attrs"]]
        results = evaluate(module, "init", [parameters[name] for name in names], parameters)
        everything |= dict(zip(made, results, strict=True))
    return evaluate(module, "main", inputs, everything)


def _compare(pipeline: Pipeline, seed: int, size: int) -> None:
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        program = random_programs.RandomProgram(np.random.default_rng(seed))
        module = program.build(size)
        inputs = random_programs.inputs_for(program)
        before = str(module)
        expected = _run(module, inputs, program.parameters)
        pipeline.run(module)
        actual = _run(module, inputs, program.parameters)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(want).max()), err_msg=before)


@pytest.mark.few(50)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("passes", _PASSES)
def test_pass_keeps_meaning(passes: str, seed: int) -> None:
    _compare(Pipeline((passes,)), seed, size=30)


@pytest.mark.few(15)
@pytest.mark.parametrize("seed", range(100, 140))
def test_pipeline_keeps_meaning(seed: int) -> None:
    _compare(graph_pipeline(), seed, size=25)


def test_every_graph_pass_is_tried() -> None:
    named = {name.split("{")[0] for text in _PASSES for name in text.split(",")}
    missing = {
        element.name for element in graph_pipeline().elements if isinstance(element, Pass) and element.name not in named
    }
    # Whole pipelines and models test these; alone, they do nothing to most programs.
    parts = (
        *("apply-decisions", "decompose", "hoist-invariants", "merge-projections", "multiply-bytes", "pack-weights"),
        "reduce-precision",
    )
    assert missing <= {f"stepwell-{name}" for name in parts}
