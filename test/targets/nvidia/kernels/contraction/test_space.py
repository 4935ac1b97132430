"""The search space of contractions: every candidate computes the product on the simulator, or is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from stepwell.lowering.linalg_to_vector.spaces.space import RefusedError
from stepwell.targets.nvidia.kernels.contraction.choose import ContractionRequest
from stepwell.targets.nvidia.kernels.contraction.space import ContractionSpace
from stepwell.targets.nvidia.kernels.contraction.tiles import Problem
from stepwell.targets.nvidia.target import GpuTarget
from stepwell.tuning.searchers.evolution import EvolutionarySearcher
from stepwell.tuning.searchers.simple import RandomSearcher

from .conftest import Product, run

SMALL, LONG = Problem(1, 48, 80, 72), Problem(1, 64, 64, 8192)
TYPES = {"f32": ("f32",) * 3, "f16": ("f16", "f16", "f32"), "bf16": ("bf16", "bf16", "f32")}


def space(problem: Problem, compute: str, gpu: str = "sm_80", by_boxes: bool = False) -> ContractionSpace:
    request = ContractionRequest(problem, compute, by_boxes)
    return ContractionSpace.of(request, [problem.depth], GpuTarget.parse(f"cuda:{gpu}"))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize(("compute", "gpu"), [("f32", "sm_80"), ("f16", "sm_80"), ("bf16", "sm_90a")])
def test_candidates_compute_the_product(compute: str, gpu: str, seed: int) -> None:
    found = space(SMALL, compute, gpu, by_boxes=gpu == "sm_90a")
    candidate = RandomSearcher(found, random.Random(seed)).ask()
    assert candidate is not None and np.isfinite(list(found.features(candidate.parameters).values())).all()
    tiling = found.tiling(candidate.parameters)
    got, want = run(Product(SMALL, tiling, compute, TYPES[compute]), gpu)
    assert np.abs(got - want).max() / np.abs(want).max() < 1e-6


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"warp_rows": 64, "rows": 32}, "does not consist of warps' tiles"),
        ({"method": "wgmma"}, "the GPU has no wgmma"),
        ({"rows": 256, "columns": 64, "warp_rows": 16, "warp_columns": 32}, "a block of 32 warps is larger than 8"),
        ({"rows": 128, "columns": 128, "warp_rows": 64, "warp_columns": 32, "stages": 8}, "bytes of shared memory"),
        ({"parts": 3}, "the sums cannot be split into 3 parts"),
    ],
)
def test_what_cannot_run_is_refused_with_its_reason(choice: dict, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        space(Problem(1, 512, 512, 512), "f16").parameters(choice)


def test_the_default_is_what_the_compiler_chooses() -> None:
    for problem in (SMALL, LONG):
        found = space(problem, "f16")
        assert found.parameters({}) == {} and found.tiling({}).method == "mma"


def test_split_sums_pay_off_for_few_results_with_long_sums() -> None:
    found = space(LONG, "f16")
    assert found.default["parts"] > 1
    assert found.predicted({}) < 0.5 * found.predicted(found.parameters({"parts": 1}))
    assert "parts" not in {axis.name for axis in space(Problem(1, 512, 512, 48), "f16").axes}


def test_a_search_without_a_device_explores_it_by_the_cost_function() -> None:
    """A search led by the cost function finds its least cost sooner than chance."""
    found = space(Problem(1, 200, 1000, 512), "f32", "sm_90a")
    usual = found.predicted({})

    def best(kind: type, trials: int = 40) -> float:
        searcher, gain = kind(found, random.Random(0)), 0.0
        for _ in range(trials):
            candidate = searcher.ask()
            made = usual / found.predicted(candidate.parameters)
            searcher.tell(candidate.parameters, made)
            gain = max(gain, made)
        return gain

    found_by_search = best(EvolutionarySearcher)
    assert found_by_search > best(RandomSearcher) and found_by_search > 1.0
