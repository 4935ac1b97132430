"""Search spaces: every choice is a legal schedule with the same results, or is refused with a reason."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import helper
from stepwell.lowering.linalg_to_vector.spaces.loops import LoopSpace
from stepwell.lowering.linalg_to_vector.spaces.others import AttentionSpace, WinogradSpace
from stepwell.lowering.linalg_to_vector.spaces.space import RefusedError
from stepwell.lowering.linalg_to_vector.spaces.tiled import TiledSpace
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.tuning.searchers.simple import RandomSearcher

from . import graphs


def attention(path):
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "choice"),
        helper.make_node("MatMul", ["p", "v"], ["y"], "values"),
    ]
    shapes = {"q": (1, 2, 24, 16), "k": (1, 2, 16, 24), "v": (1, 2, 24, 16)}
    return graphs.save(path, nodes, shapes, {}, (1, 2, 24, 16))


def winograd(path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3])]
    return graphs.save(path, nodes, {"x": (1, 64, 28, 28)}, {"w": (64, 64, 3, 3)}, (1, 64, 28, 28))


def run(program):
    source = np.random.default_rng(1)
    inputs = [source.random(info.shape, np.float32) for info in program.inputs]
    return Executable(CompiledModel(program.inputs, program.outputs, [program]), 2)(*inputs)


MODELS = [graphs.product, graphs.images, attention, winograd]


@pytest.mark.few(2)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_choices_give_the_same_results_or_are_refused(make, opened, tmp_path) -> None:
    model = opened(make(tmp_path / "model.onnx"))
    source, want = random.Random(0), run(model.program({}))
    for _ in range(2):
        schedules = {}
        for name, kernel in model.kernels.items():
            candidate = RandomSearcher(kernel.space, source).ask()
            schedules[name] = candidate.parameters if candidate is not None else {}
            assert all(np.isfinite(list(kernel.space.features(schedules[name]).values())))
        assert any(schedules.values())
        np.testing.assert_allclose(run(model.program(schedules)), want, rtol=1e-4, atol=1e-5)


def test_kinds_of_spaces(opened, tmp_path) -> None:
    kinds = {TiledSpace: graphs.product, LoopSpace: graphs.images, AttentionSpace: attention, WinogradSpace: winograd}
    for number, (kind, make) in enumerate(kinds.items()):
        model = opened(make(tmp_path / f"{number}.onnx"))
        assert kind in {type(kernel.space) for kernel in model.kernels.values()}


def test_the_default_choice_changes_nothing(opened, tmp_path) -> None:
    for kernel in opened(graphs.images(tmp_path / "model.onnx")).kernels.values():
        assert kernel.space.parameters({}) == {}
        assert kernel.space.complete({}) == kernel.space.default


def test_a_tile_that_does_not_fit_the_registers_is_refused(opened, tmp_path) -> None:
    model = opened(graphs.product(tmp_path / "model.onnx"))
    (space,) = [kernel.space for kernel in model.kernels.values() if isinstance(kernel.space, TiledSpace)]
    with pytest.raises(RefusedError, match=r"a tile of 24 positions needs \d+ of \d+ registers"):
        space.parameters({"tile": (24,), "panels": 3})


def test_a_tile_of_a_kernel_with_other_dimensions_is_refused(opened, tmp_path) -> None:
    model = opened(graphs.product(tmp_path / "model.onnx"))
    (space,) = [kernel.space for kernel in model.kernels.values() if isinstance(kernel.space, TiledSpace)]
    with pytest.raises(RefusedError, match="a tile of 2 dimensions does not suit 1 dimensions of rows"):
        space.parameters({"tile": (4, 2)})


def test_the_cost_function_prefers_larger_tiles(opened, tmp_path) -> None:
    model = opened(graphs.product(tmp_path / "model.onnx"))
    (space,) = [kernel.space for kernel in model.kernels.values() if isinstance(kernel.space, TiledSpace)]
    assert space.predicted(space.parameters({"tile": (1,)})) > 1.2 * space.predicted({})
