"""Figures of this machine: kept unless disturbed, used for `cpu` alone, and part of names and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stepwell.bench.machine import cores
from stepwell.driver.serving.specializer import Specializer
from stepwell.driver.setup import Setup
from stepwell.driver.sources.reading import read_source
from stepwell.lowering.target import Target
from stepwell.machines.families import FAMILIES
from stepwell.machines.names import MachineError
from stepwell.machines.paces import paces_of
from stepwell.runtime import processor
from stepwell.runtime.cache.cache import Cache
from stepwell.runtime.devices import figures, measurement
from stepwell.runtime.devices.figures import MachineFigures
from stepwell.runtime.devices.measured_loops import byte_products

MODEL = b"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
MEASURED = MachineFigures({"memory_rate": 1.25, "clock": 2.5})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """Provides an empty cache, and forgets at the end what was read from it."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    forget()
    yield Cache(tmp_path)
    forget()


def forget() -> None:
    for read in (figures.figures, Target.host, Target.parse):
        read.cache_clear()


def test_disturbed_figures_are_not_kept(cache: Cache) -> None:
    assert not figures.keep(MachineFigures(MEASURED.figures, is_disturbed=True), cache)
    assert not figures.keep(MEASURED, None)
    assert figures.kept(cache) == {}
    assert figures.keep(MEASURED, cache)
    assert figures.kept(cache) == MEASURED.figures


def test_code_for_this_machine_is_made_for_its_figures(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    family, name = Target.host(), Target.host().to_json()
    assert "memory_rate" not in dict(family.figures)
    figures.keep(MEASURED, cache)
    forget()
    machine = Target.host().machine
    assert (machine.memory_rate, machine.source("memory_rate")) == (1.25, "measured on this machine")
    assert paces_of(machine) != paces_of(family.machine)
    assert Target.host().to_json() != name
    monkeypatch.setenv("STEPWELL_MACHINE", "family")
    forget()
    assert Target.host() == family
    monkeypatch.setenv("STEPWELL_MACHINE", "memory_rate=2.5+l2_latency=40")
    forget()
    machine = Target.host().machine
    assert (machine.memory_rate, machine.l2_latency) == (2.5, 40.0)
    monkeypatch.setenv("STEPWELL_MACHINE", "memory_speed=2.5")
    forget()
    with pytest.raises(MachineError, match="a machine has no field 'memory_speed'"):
        _ = Target.host().machine


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "aarch64:neoverse-n1"])
def test_code_for_others_does_not_depend_on_this_machine(cache: Cache, level: str) -> None:
    before = Target.parse(level)
    figures.keep(MEASURED, cache)
    forget()
    assert Target.parse(level) == before and before.figures == ()
    assert before.machine.memory_rate == FAMILIES[before.machine.name].memory_rate


def test_keys_of_the_cache_hold_the_figures(cache: Cache) -> None:
    source = read_source(MODEL)

    def key(target: str) -> str:
        return Specializer(source, (), Setup(target)).cached.key((), {}).digest

    here, level = key("cpu"), key("x86-64-v3")
    figures.keep(MEASURED, cache)
    assert key("cpu") != here
    assert key("x86-64-v3") == level


def test_a_virtual_machine_has_no_last_level_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "reported_caches", lambda: {1: 1 << 15, 2: 1 << 20, 3: 1 << 29})
    monkeypatch.setattr(processor, "is_virtual", lambda: True)
    assert figures.cache_bytes() == {"l1_bytes": 1 << 15, "l2_bytes": 1 << 20}
    monkeypatch.setattr(processor, "is_virtual", lambda: False)
    assert figures.cache_bytes()["l3_bytes"] == 1 << 29


@pytest.mark.sweep
@pytest.mark.slow
def test_figures_are_plausible() -> None:
    machine = Target.host().machine
    found = measurement.measure(machine, cores()[:2]).figures
    assert 0.3 < found["clock"] < 8
    assert found["l1_rate"] > found["l3_rate"]
    assert found["l1_latency"] < found["l2_latency"] < found["l3_latency"]
    assert 0.25 < found["double_rate"] < 1


def test_products_of_bytes_are_measured_on_every_instruction_set() -> None:
    assert byte_products({"avx2"}, 8) == ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd")
    assert byte_products({"avx2", "avx512vnni", "avx512vl"}, 16) == ("llvm.x86.avx512.vpdpbusd.512",)
    assert byte_products({"avx2", "avxvnni"}, 8) == ("llvm.x86.avx512.vpdpbusd.256",)
    assert byte_products({"dotprod"}, 4) == ("llvm.aarch64.neon.udot.v4i32.v16i8",)
    assert byte_products({"sse2"}, 4) is None
    machine = Target.host().machine
    features = processor.features() or frozenset()
    rates = measurement._Loops().relative_rates(machine)
    assert ("byte_rate" in rates) == (byte_products(features, machine.lanes(4)) is not None)
    assert rates.get("byte_rate", 1.0) > 0.5
    assert ("brain_rate" in rates) == ("avx512bf16" in features)
    assert ("matrix_rate" in rates) == (features >= processor.TILE_FEATURES)


def test_a_process_that_may_not_use_tiles_has_other_figures(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "features", lambda: processor.TILE_FEATURES)
    figures.keep(MachineFigures({"matrix_rate": 1020.0}), cache)
    assert figures.figures()["matrix_rate"] == 1020.0
    monkeypatch.setattr(processor, "features", frozenset)
    figures.figures.cache_clear()
    assert "matrix_rate" not in figures.figures()
