"""Descriptions of machines: complete, plausible, with a source for each number, and found by names."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.machines import names
from stepwell.machines.families import FAMILIES, LEVELS, REFERENCE
from stepwell.machines.machine import Machine

NUMBERS = [
    item.name
    for item in dataclasses.fields(Machine)
    if item.name not in ("name", "architecture", "is_level", "sources")
]
ALL = list(FAMILIES.values())


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_every_number_is_positive_and_has_a_source(machine: Machine) -> None:
    for name in NUMBERS:
        assert getattr(machine, name) > 0 or name in ("brain_rate", "matrix_rate"), name
        assert machine.source(name), name


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_levels_of_memory_are_in_order(machine: Machine) -> None:
    assert machine.l1_bytes < machine.l2_bytes / machine.l2_cores
    assert machine.l2_bytes / machine.l2_cores < machine.l3_bytes
    assert machine.l1_rate > machine.l2_rate > machine.l3_rate
    assert machine.l1_latency < machine.l2_latency < machine.l3_latency
    assert machine.memory_rate <= machine.memory_total <= machine.memory_rate * machine.cores
    assert machine.l3_latency / machine.clock < machine.memory_latency
    assert machine.wide_clock <= machine.clock


@pytest.mark.parametrize("level", LEVELS, ids=lambda machine: machine.name)
def test_levels_differ_from_the_reference_only_in_their_vectors(level: Machine) -> None:
    own = {"architecture", "vector_bytes", "vector_registers", "byte_rate"}
    different = {name for name in [*NUMBERS, "architecture"] if getattr(level, name) != getattr(REFERENCE, name)}
    assert different <= own
    assert level.is_level


@pytest.mark.parametrize(
    ("cpu", "family"),
    [
        ("x86-64-v3", "x86-64-v3"),
        ("znver3", "zen3"),
        ("znver5", "zen5"),
        ("skylake-avx512", "skylake-x"),
        ("rocketlake", "rocketlake"),
        ("emeraldrapids", "sapphirerapids"),
        ("haswell", "x86-64-v3"),
    ],
)
def test_x86_cpus_have_families(cpu: str, family: str) -> None:
    found = names.machine_of_cpu(cpu, "x86_64", (), 32, 16)
    assert (found.name, found.vector_bytes, found.vector_registers) == (family, 32, 16)


@pytest.mark.parametrize(
    ("cpu", "family"), [("apple-m3", "apple-m1"), ("grace", "neoverse-v2"), ("generic", "aarch64")]
)
def test_arm_cpus_have_families(cpu: str, family: str) -> None:
    assert names.machine_of_cpu(cpu, "aarch64", ("+neon",), 16, 32).name == family


def test_features_tell_a_machine_that_reports_an_older_model() -> None:
    assert names.machine_of_cpu("rocketlake", "x86_64", ("+amx-tile",), 64, 32).name == REFERENCE.name
    assert names.machine_of_cpu("x86-64-v4", "x86_64", ("+amx-tile",), 64, 32).is_level


@given(
    st.sampled_from(sorted(FAMILIES)),
    st.dictionaries(st.sampled_from(["l1_bytes", "l2_bytes", "cores"]), st.integers(1, 1 << 30)),
    st.dictionaries(st.sampled_from(["clock", "memory_rate", "handover_ns"]), st.floats(0.001, 1e6)),
)
def test_texts_are_read_back(name: str, counts: dict[str, int], rates: dict[str, float]) -> None:
    figures = {**counts, **rates}
    text = "+".join([name, *(f"{field}={value!r}" for field, value in figures.items())])
    assert names.parse(text) == names.with_figures(FAMILIES[name], figures, "test")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pdp-11", "unknown machine 'pdp-11'; known are x86-64-v2, "),
        ("zen3+wheels=4", "a machine has no field 'wheels'"),
        ("zen3+l2_bytes=many", "'l2_bytes=many' in machine 'zen3+l2_bytes=many' must be a field and a number"),
    ],
)
def test_bad_texts_are_errors(text: str, message: str) -> None:
    with pytest.raises(names.MachineError, match=message.replace("+", r"\+")):
        names.parse(text)
