"""The choice of tiles follows the model of the machine."""

import pytest
from stepwell.machines.gpus import Capability
from stepwell.targets.nvidia.kernels.contraction.choose import ContractionRequest, choose, shared_bytes
from stepwell.targets.nvidia.kernels.contraction.cost import cycles, occupancy, registers
from stepwell.targets.nvidia.kernels.contraction.split_sums import best_split
from stepwell.targets.nvidia.kernels.contraction.tiles import CopyUnit, Problem
from stepwell.targets.nvidia.target import GpuTarget


def capability(architecture: str) -> Capability:
    found = GpuTarget.parse(f"cuda:{architecture}").capability
    assert found is not None
    return found


AMPERE, HOPPER = capability("sm_80"), capability("sm_90a")


@pytest.mark.parametrize("size", [4096, 8192])
def test_large_products_on_hopper_take_wgmma_with_the_largest_tiles(size):
    tiling = choose(ContractionRequest(Problem(1, size, size, size), "bf16", by_boxes=True), HOPPER)
    assert (tiling.method, tiling.rows, tiling.columns) == ("wgmma", 128, 256)
    assert tiling.stages == 4


def test_without_the_copy_engine_they_take_mma():
    large = Problem(1, 4096, 4096, 4096)
    assert choose(ContractionRequest(large, "bf16", by_boxes=False), HOPPER).method == "mma"
    assert choose(ContractionRequest(large, "bf16", by_boxes=True), AMPERE).method == "mma"


def test_bytes_that_lie_along_rows_are_not_for_wgmma():
    assert (
        choose(ContractionRequest(Problem(1, 4096, 4096, 4096), "s8.s8", by_boxes=True, transposed=True), HOPPER).method
        == "mma"
    )


def test_float32_is_exact_unless_asked_otherwise():
    tiling = choose(ContractionRequest(Problem(1, 4096, 4096, 4096), "f32"), AMPERE)
    assert (tiling.method, tiling.rows, tiling.columns) == ("fma", 128, 128)


@pytest.mark.parametrize("compute", ["f32", "f16"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"])
def test_every_choice_fits_on_a_multiprocessor(architecture, compute):
    machine = capability(architecture)
    for sizes in [(1, 1, 1024, 4096), (64, 128, 128, 64), (1, 12544, 64, 576), (1, 4096, 4096, 4096), (1, 3, 5, 7)]:
        request = ContractionRequest(Problem(*sizes), compute, by_boxes=True)
        tiling = choose(request, machine)
        shared = shared_bytes(tiling, request.element_bytes)
        assert occupancy(tiling, shared, machine).blocks > 0
        assert 0 < cycles(request.problem, tiling, compute, request.element_bytes, shared, machine) < float("inf")


def test_few_rows_take_low_tiles():
    assert choose(ContractionRequest(Problem(1, 8, 4096, 4096), "f32"), HOPPER).rows == 16


@pytest.mark.parametrize(
    ("sizes", "depths", "is_split"),
    [
        ((1, 8, 4096, 4096), [4096], True),
        ((1, 49, 512, 4608), [3, 3, 512], True),
        ((1, 4096, 4096, 4096), [4096], False),
        ((1, 3136, 64, 64), [64], False),
    ],
)
def test_sums_are_shared_out_where_their_results_are_few(sizes, depths, is_split):
    found = best_split(ContractionRequest(Problem(*sizes), "f32"), depths, GpuTarget.parse("cuda:sm_90a"))
    assert (found is not None) == is_split
    if found is not None:
        place, parts = found
        assert depths[place] % parts == 0


def test_operands_that_are_copied_by_single_elements_leave_registers_for_smaller_tiles():
    problem = Problem(1, 4096, 4096, 4096)
    whole = choose(ContractionRequest(problem, "bf16", units=(CopyUnit(8, 2), CopyUnit(8, 2))), AMPERE)
    single = choose(ContractionRequest(problem, "bf16", units=(CopyUnit(1, 3), CopyUnit(1, 3))), AMPERE)
    sums = [tiling.warp_rows * tiling.warp_columns for tiling in (whole, single)]
    assert sums[0] == 64 * 64 and sums[1] < sums[0]
    for tiling, unit in ((whole, CopyUnit(8, 2)), (single, CopyUnit(1, 3))):
        assert registers(tiling, (unit, unit)) <= 255
