"""GPUs as targets: names and capabilities."""

from __future__ import annotations

import pytest
from stepwell.lowering.target import Target
from stepwell.lowering.target_names import TargetError
from stepwell.targets.nvidia.target import GpuTarget


@pytest.mark.parametrize("name", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"])
def test_gpus_have_capabilities(name: str) -> None:
    target = GpuTarget.parse(f"cuda:{name}")
    assert (target.cpu, target.architecture, target.device) == (name, "nvptx64", "cuda")
    assert target.capability.has_wgmma == (name == "sm_90a")
    assert not target.runs_on(Target.host())


def test_a_gpu_that_is_not_known_is_refused() -> None:
    with pytest.raises(TargetError, match="cuda:sm_90a"):
        GpuTarget.parse("cuda:sm_70")
