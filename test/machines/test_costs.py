"""Costs of work: monotone in operations, bytes and threads, and the paces of the machine that they were measured on."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.lowering.target import Target
from stepwell.machines import caches, convolutions, costs, tiles
from stepwell.machines.costs import MEMORY, Work
from stepwell.machines.families import FAMILIES, LEVELS, REFERENCE
from stepwell.machines.machine import Machine
from stepwell.machines.paces import Paces, paces_of

MACHINES = st.sampled_from(list(FAMILIES.values()))
AMOUNTS = st.floats(0, 1e12)
LEVEL = st.sampled_from([1, 2, 3, MEMORY])
THREADS = st.integers(1, 128)


@given(MACHINES, AMOUNTS, AMOUNTS, AMOUNTS, LEVEL, THREADS)
def test_more_work_takes_longer(
    machine: Machine, flops: float, moved: float, more: float, level: int, threads: int
) -> None:
    base = costs.cost_of(machine, Work(flops, moved={level: moved}, calls=1), threads).nanoseconds
    assert costs.cost_of(machine, Work(flops + more, moved={level: moved}, calls=1), threads).nanoseconds >= base
    assert costs.cost_of(machine, Work(flops, moved={level: moved + more}, calls=1), threads).nanoseconds >= base
    assert costs.cost_of(machine, Work(flops, moved={level: moved}, calls=2), threads).nanoseconds > base


@given(MACHINES, AMOUNTS, AMOUNTS, LEVEL, THREADS)
def test_more_threads_are_not_slower(machine: Machine, flops: float, moved: float, level: int, threads: int) -> None:
    fewer, more = (costs.cost_of(machine, Work(flops, moved={level: moved}), count) for count in (threads, threads + 1))
    assert more.compute <= fewer.compute
    assert more.transfer <= fewer.transfer * (1 + 1e-12)


@given(MACHINES, st.floats(1, 1e12), THREADS)
def test_nearer_memory_is_faster(machine: Machine, moved: float, threads: int) -> None:
    near, far = (costs.cost_of(machine, Work(moved={level: moved}), threads).transfer for level in (1, 3))
    assert near < far


@given(MACHINES, st.floats(1, 1e10), st.floats(1, 1e10), THREADS)
def test_larger_data_lies_farther_away(machine: Machine, size: float, more: float, threads: int) -> None:
    assert costs.level_of(machine, size, threads) <= costs.level_of(machine, size + more, threads)


@given(MACHINES, st.integers(1, 30), st.integers(1, 4), st.integers(0, 4))
def test_steps_take_longer_with_more_rows(machine: Machine, rows: int, vectors: int, streamed: int) -> None:
    less = tiles.step_cycles(machine, rows, vectors, streamed)
    assert less <= tiles.step_cycles(machine, rows + 1, vectors, streamed)
    assert less <= tiles.step_cycles(machine, rows, vectors + 1, streamed)
    assert less >= rows * vectors / machine.fma_units


@given(MACHINES, st.integers(1, 4), st.integers(1, 16))
def test_rows_fit_the_registers(machine: Machine, vectors: int, most: int) -> None:
    rows = tiles.most_rows(machine, vectors, most)
    assert 1 <= rows <= most
    assert rows == 1 or rows * vectors + vectors + 1 <= machine.vector_registers


@given(MACHINES, st.integers(1, 1 << 20), st.integers(1, 1 << 12), st.integers(1, 1 << 12))
def test_convolutions_take_longer_at_more_places(machine: Machine, weights: int, places: int, more: int) -> None:
    assert convolutions.direct_ns(machine, weights, 4, places) <= convolutions.direct_ns(
        machine, weights, 4, places + more
    )
    less = convolutions.winograd_ns(machine, weights, 4, places, 16.0 * places)
    assert less < convolutions.winograd_ns(machine, weights, 4, places + more, 16.0 * (places + more))


@given(MACHINES, st.floats(0, 1e9), st.floats(0, 1e7), st.floats(0, 1e9))
def test_larger_products_pay_for_threads_too(machine: Machine, flops: float, moved: float, more: float) -> None:
    if costs.pays_for_threads(machine, flops, moved):
        assert costs.pays_for_threads(machine, flops + more, moved)


@pytest.mark.parametrize("machine", [REFERENCE, *LEVELS], ids=lambda machine: machine.name)
def test_the_reference_and_levels_have_the_measured_paces(machine: Machine) -> None:
    assert paces_of(machine) == Paces()


@pytest.mark.parametrize("name", [item.name for item in dataclasses.fields(Paces)])
def test_paces_follow_the_figures_of_the_machine(name: str) -> None:
    def pace(machine: Machine) -> float:
        return getattr(paces_of(machine), name)

    names = ("clock", "wide_clock", "l2_rate", "l3_rate", "memory_rate")
    fast = dataclasses.replace(REFERENCE, **{field: 2 * getattr(REFERENCE, field) for field in names})
    quick = dataclasses.replace(fast, handover_ns=REFERENCE.handover_ns / 2, wake_ns=REFERENCE.wake_ns / 2)
    ratio = pace(quick) / pace(REFERENCE)
    assert ratio in (2, 4, 0.5, 0.25)
    assert (ratio < 1) == name.endswith("_ns")


@given(MACHINES)
def test_parts_of_caches_are_smaller_than_the_caches(machine: Machine) -> None:
    assert caches.row_bytes(machine) < caches.near_bytes(machine) < machine.l1_bytes
    parts = [caches.weight_bytes(machine), caches.block_bytes(machine), caches.cached_bytes(machine)]
    assert parts == sorted(parts) and parts[-1] < machine.l2_bytes
    assert caches.kept_bytes(machine) < caches.stream_bytes(machine) < machine.l3_bytes


def test_products_of_shorter_types_are_not_slower_at_the_peak() -> None:
    tiles = Target.parse("cpu:sapphirerapids").machine
    assert tiles.relative_rate("i8") == tiles.matrix_rate / (tiles.lanes(4) * tiles.fma_units)
    assert tiles.relative_rate("bf16") == tiles.relative_rate("i8") / 2
    for machine in FAMILIES.values():
        assert machine.relative_rate("i8") >= machine.byte_rate
        assert machine.relative_rate("bf16") >= machine.relative_rate("f32") == 1
