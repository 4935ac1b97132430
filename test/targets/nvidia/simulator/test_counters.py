"""The simulator's counters: bank conflicts, sectors, instructions."""

import numpy as np
import pytest
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.counters import Counters, instructions
from stepwell.targets.nvidia.simulator.harness import simulate
from stepwell.targets.nvidia.simulator.memory import GlobalMemory
from stepwell.targets.nvidia.simulator.simulate import SimulatedModule

from .conftest import kernel

TILE = ".shared .align 16 .b8 tile[16384]; mov.u32 %r1, tile;"


def counted(body: str) -> Counters:
    """Returns the traffic of a body that two warps run on an array of 64 KiB."""
    counters = Counters()
    ptx = kernel(TILE + body, 1)
    simulate(ptx, "k", GridGeometry((1, 1, 1), (64, 1, 1)), [np.zeros(1 << 16, np.uint8)], observer=counters)
    return counters


@pytest.mark.parametrize(
    ("stride", "width", "passes"),
    [(4, 1, 1), (8, 1, 2), (128, 1, 32), (132, 1, 1), (16, 4, 4), (32, 4, 8), (144, 4, 4)],
)
def test_conflicts_of_banks(stride: int, width: int, passes: int) -> None:
    vector = "" if width == 1 else ".v4"
    values = "%r0" if width == 1 else "{%r0, %r0, %r0, %r0}"
    found = counted(f"mad.lo.u32 %r2, %r0, {stride}, %r1; st.shared{vector}.b32 [%r2], {values};")
    (traffic,) = found.shared.values()
    assert traffic.spent == 2 * passes
    assert traffic.conflicts == 2 * (passes - (4 if width == 4 else 1))
    assert (traffic.requests, traffic.width) == (2, 4 * width)


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (32, 32), (0, 1)])
def test_sectors_of_global_memory(stride: int, sectors: int) -> None:
    (traffic,) = counted(f"mad.wide.u32 %rd0, %r0, {stride}, %rd0; ld.global.b32 %r2, [%rd0];").memory.values()
    assert traffic.spent == 2 * sectors
    assert traffic.needed == 2 * (4 if stride else 1)


def test_instructions_are_counted_by_warps() -> None:
    module = SimulatedModule(
        kernel("L: add.u32 %r0, %r0, 64; setp.lt.u32 %p1, %r0, 640; @%p1 bra L;", 0), GlobalMemory()
    )
    module.launch("k", GridGeometry((2, 1, 1), (64, 1, 1)), [])
    counts = instructions(module.kernel("k"))
    assert (counts["add.u32"], counts["bra"], counts["ret"]) == (40, 40, 4)
