"""Instruction sets of this machine's processor."""

from __future__ import annotations

from stepwell.runtime import processor


def test_capabilities_of_arm_processors() -> None:
    # The values of a Neoverse N1 under Linux 5.15: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp
    # cpuid asimdrdm lrcpc dcpop asimddp ssbs.
    one = sum(1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 20, 28))
    assert processor.arm_features({16: one, 26: 0}) == {"neon", "lse", "fullfp16", "rdm", "rcpc", "dotprod"}
    assert processor.arm_features({16: 2, 26: 1 << 1 | 1 << 13 | 1 << 14}) == {"neon", "sve2", "i8mm", "bf16"}
