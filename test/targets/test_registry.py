"""Families of targets: their names, and those that other packages add."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import stepwell
from stepwell.driver.caching import plugins
from stepwell.lowering.target import _X86_LEVELS
from stepwell.lowering.target_names import X86_LEVELS, TargetError
from stepwell.machines.gpus import CAPABILITIES, GPUS
from stepwell.runtime.devices import packages as target_packages
from stepwell.runtime.devices import registry as loaders
from stepwell.runtime.devices.native import NativeLoader
from stepwell.runtime.program import CodeTarget
from stepwell.targets import registry
from stepwell.targets.cpu import CpuBackend
from stepwell.targets.registry import backend_of, check_target, target_of

MODEL = b"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  return %0 : tensor<4xf32>
}"""


class TwinBackend(CpuBackend):
    """Code generation for a device that is like this machine."""

    family = "twin"

    def names(self):
        return ("twin:v1",)

    def target(self, name):
        if name.partition("+")[0] != "twin:v1":
            raise TargetError(f"unknown target '{name}'; known are twin:v1")
        host = target_of("cpu")
        return TwinTarget(host.triple, host.cpu, host.features, host.vector_bytes, host.vector_registers)

    def form_kernels(self, name):
        return backend_of("cpu").form_kernels("cpu")

    def kernel_facts(self, kernel):
        return {"unit": "twin", "cycles": 12}

    def phases(self):
        return [stepwell_phase(phase) for phase in super().phases()]


class TwinTarget(type(target_of("cpu"))):
    """The device."""

    device = "twin:v1"


def stepwell_phase(phase):
    """Returns a phase of this machine, for a target by any name."""
    return type(phase)(phase.name, phase.summary, lambda name: phase.pipeline("cpu"), phase.check)


def _caches() -> None:
    for cached in (target_packages.packages, registry.target_of, loaders._loader):
        cached.cache_clear()
    registry._backends.pop("twin", None)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of targets; the module `twins` adds a family."""
    module = types.ModuleType("twins")
    vars(module).update(backend=TwinBackend, loader=NativeLoader)
    monkeypatch.setitem(sys.modules, "twins", module)
    found = [EntryPoint("twin", "twins", target_packages.GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found if group == "stepwell.targets" else [])
    _caches()
    yield found
    _caches()


def test_names_are_those_of_the_targets() -> None:
    assert tuple(CAPABILITIES) == GPUS
    assert tuple(_X86_LEVELS) == X86_LEVELS
    for name in ("cpu", "aarch64", "aarch64:generic", *X86_LEVELS, *(f"cuda:{gpu}+tf32" for gpu in GPUS)):
        check_target(name)
        target_of(name)


@pytest.mark.parametrize("name", ["gpu", "x86-64-v9", "cpu:", "cpu:NAME", "aarch64:no-such-cpu", "cuda:sm_70"])
def test_unknown_targets_are_refused(name: str) -> None:
    with pytest.raises(TargetError):
        check_target(name)


def test_an_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"unknown target 'tpu:v1'; known are cpu, .*x86-64-v3.*, cuda:sm_100a$"):
        check_target("tpu:v1")


def test_a_package_adds_a_family(installed, tmp_path) -> None:
    check_target("twin:v1")
    assert isinstance(backend_of("twin:v1"), TwinBackend)
    made = stepwell.compile(MODEL, target="twin:v1", options=stepwell.Options(cache=False))
    assert [program.target.device for program in made.programs] == ["twin:v1"]
    assert made.programs[0].target.name == "twin:v1"
    report = made.report()
    assert report.kernels[0]["device"] == {"unit": "twin", "cycles": 12}
    assert re.search(r"unit +cycles +est\. .*twin +12 ", str(report), re.DOTALL)
    made.save(tmp_path / "model.stw")
    loaded = stepwell.load(tmp_path / "model.stw")
    assert [program.target.device for program in loaded.programs] == ["twin:v1"]
    np.testing.assert_allclose(loaded(np.arange(4, dtype=np.float32)), np.exp(np.arange(4)), rtol=1e-6)


def test_a_package_is_part_of_the_cache_key(installed) -> None:
    before = plugins.fingerprint()
    check_target("twin:v1")
    assert plugins.fingerprint() != before


def test_an_unknown_target_lists_those_of_packages(installed) -> None:
    with pytest.raises(TargetError, match="twin:v1"):
        check_target("tpu:v1")


def test_code_for_a_device_of_a_package_that_is_absent_says_so() -> None:
    target = CodeTarget("x86_64-unknown-linux-gnu", "x86-64-v2", device="twin:v1")
    assert loaders.missing(target) == ["an installed package that runs code for the device 'twin'"]


def test_a_broken_package_fails_its_own_targets_only(installed) -> None:
    installed[0] = EntryPoint("twin", "no_such_module", target_packages.GROUP)
    check_target("cpu")
    with pytest.raises(TargetError, match=r"no_such_module of the targets .twin:\.\.\.. failed: ModuleNotFound"):
        check_target("twin:v1")


def test_two_packages_with_one_family_are_left_out(installed) -> None:
    installed.append(EntryPoint("twin", "others", target_packages.GROUP))
    with (
        pytest.warns(target_packages.TargetClashWarning, match="others and twins both add targets 'twin'"),
        pytest.raises(TargetError),
    ):
        check_target("twin:v1")


def test_a_package_cannot_replace_a_built_in_family(installed) -> None:
    installed[0] = EntryPoint("cuda", "twins", target_packages.GROUP)
    with pytest.warns(target_packages.TargetClashWarning, match="'cuda' are built in"):
        target_packages.packages()
