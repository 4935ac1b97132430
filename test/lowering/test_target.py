"""CPUs as targets: names, vector registers, and which machines run which code."""

from __future__ import annotations

import pytest
from stepwell.lowering.target import Target
from stepwell.lowering.target_names import TargetError


@pytest.mark.parametrize(
    ("name", "vector_bytes", "vector_registers"),
    [
        ("x86-64-v2", 16, 16),
        ("x86-64-v3", 32, 16),
        ("x86-64-v4", 64, 32),
        ("aarch64", 16, 32),
        ("aarch64:neoverse-n1", 16, 32),
    ],
)
def test_vector_registers(name: str, vector_bytes: int, vector_registers: int) -> None:
    target = Target.parse(name)
    assert (target.vector_bytes, target.vector_registers) == (vector_bytes, vector_registers)
    assert target.lanes(4) == vector_bytes // 4


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("aarch64", {"neon"}, {"dotprod", "bf16", "sve"}),
        ("aarch64:neoverse-n1", {"neon", "dotprod", "fullfp16"}, {"i8mm", "bf16", "sve"}),
        ("aarch64:neoverse-v1", {"neon", "dotprod", "fullfp16", "i8mm", "bf16", "sve"}, {"sve2"}),
    ],
)
def test_arm_processors_have_features(name: str, has: set[str], lacks: set[str]) -> None:
    features = {item[1:] for item in Target.parse(name).features}
    assert has <= features and not lacks & features
    reason = Target.parse(name).why_not_on(Target.parse("aarch64"))
    assert reason is None if has == {"neon"} else reason is not None and "dotprod" in reason


def test_the_host_runs_its_own_code() -> None:
    host = Target.parse("cpu")
    assert host == Target.host()
    assert host.runs_on(host)


def test_levels_include_the_lower_ones() -> None:
    assert Target.parse("x86-64-v2").runs_on(Target.parse("x86-64-v4"))
    reason = Target.parse("x86-64-v4").why_not_on(Target.parse("x86-64-v3"))
    assert reason is not None and "avx512f" in reason
    reason = Target.parse("aarch64").why_not_on(Target.parse("x86-64-v3"))
    assert reason == "it is compiled for aarch64, but this machine is x86_64"


@pytest.mark.parametrize("name", ["gpu", "x86-64-v9", "cpu:", "aarch64:no-such-cpu", "cuda:sm_80"])
def test_unknown_targets_are_refused(name: str) -> None:
    with pytest.raises(TargetError):
        Target.parse(name)


@pytest.mark.parametrize(
    ("name", "method"), [("x86-64-v3", "pairs"), ("x86-64-v4", "pairs"), ("cpu:sapphirerapids", "dot")]
)
def test_products_of_bytes_take_the_best_instructions(name: str, method: str) -> None:
    if name.startswith("cpu:") and Target.host().architecture != "x86_64":
        pytest.skip("names of CPUs are those of this architecture")
    assert Target.parse(name).bytes_method == method
