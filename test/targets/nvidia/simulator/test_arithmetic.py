"""Arithmetic, bits and conversions of the simulator: each instruction compared with the PTX ISA's definition."""

import numpy as np
import pytest

from .conftest import Compute

I32, U32, F32, F16, U64, I64, F64 = np.int32, np.uint32, np.float32, np.float16, np.uint64, np.int64, np.float64
SIGNED = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12345, -98765], I32)
OTHER = np.array([3, -2, 2, -3, 3, 2, -1, 1000, 7], I32)
UNSIGNED = SIGNED.view(U32)
NAN, INF = np.nan, np.inf
FLOATS = np.array([0.0, -0.0, 1.5, -2.25, 1e-40, 3e38, INF, -INF, NAN, 0.1], F32)
MORE = np.array([-0.0, 0.0, 2.5, 3.0, 1.0, 3e38, 1.0, INF, 2.0, 0.2], F32)
WIDE = SIGNED.astype(I64)


def single(values: list) -> np.ndarray:
    return np.array(values, F32)


def half(values: list) -> np.ndarray:
    return np.array(values, F16)


def double(values: list) -> np.ndarray:
    return np.array(values, F64)


def summed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return left + right


EXACT = [
    ("add.s32 %d, %a, %b;", [SIGNED, OTHER], SIGNED + OTHER),
    ("add.sat.s32 %d, %a, %b;", [SIGNED, OTHER], np.clip(WIDE + OTHER, -(2**31), 2**31 - 1).astype(I32)),
    ("sub.s32 %d, %a, %b;", [SIGNED, OTHER], SIGNED - OTHER),
    ("mul.lo.s32 %d, %a, %b;", [SIGNED, OTHER], SIGNED * OTHER),
    ("mul.hi.s32 %d, %a, %b;", [SIGNED, OTHER], ((WIDE * OTHER) >> 32).astype(I32)),
    ("mul.wide.s32 %d, %a, %b;", [SIGNED, OTHER], WIDE * OTHER),
    ("mul.wide.u32 %d, %a, 3;", [UNSIGNED], UNSIGNED.astype(U64) * 3),
    ("mad.lo.s32 %d, %a, %b, -5;", [SIGNED, OTHER], SIGNED * OTHER - 5),
    ("div.s32 %d, %a, %b;", [SIGNED[:6], OTHER[:6]], np.array([0, 0, 0, -2, -2, 2**30 - 1], I32)),
    ("rem.s32 %d, %a, %b;", [SIGNED[:6], OTHER[:6]], np.array([0, 1, -1, 1, -1, 1], I32)),
    ("rem.u32 %d, %a, 10;", [UNSIGNED], UNSIGNED % 10),
    ("mul.hi.u64 %d, %a, %b;", [np.array([2**63 + 5], U64), np.array([2**62 + 3], U64)],
     np.array([((2**63 + 5) * (2**62 + 3)) >> 64], U64)),
    ("mul.hi.s64 %d, %a, %b;", [np.array([-(2**62)], I64), np.array([12], I64)], np.array([-3], I64)),
    ("min.s32 %d, %a, %b;", [SIGNED, OTHER], np.minimum(SIGNED, OTHER)),
    ("max.u32 %d, %a, %b;", [UNSIGNED, OTHER.view(U32)], np.maximum(UNSIGNED, OTHER.view(U32))),
    ("abs.s32 %d, %a;", [SIGNED], np.abs(SIGNED)),
    ("sad.s32 %d, %a, %b, 1;", [np.array([5, -5], I32), np.array([2, 2], I32)], np.array([4, 8], I32)),
    ("dp4a.s32.u32 %d, %a, %b, %c;", [np.array([0x80FF0102], U32), np.array([0x02010304], U32), np.array([9], I32)],
     np.array([-128 * 2 - 1 + 3 + 8 + 9], I32)),
    ("not.b32 %d, %a;", [UNSIGNED], ~UNSIGNED),
    ("lop3.b32 %d, %a, %b, 0x0ff0, 0x96;", [UNSIGNED, OTHER.view(U32)], UNSIGNED ^ OTHER.view(U32) ^ U32(0x0FF0)),
    ("shl.b32 %d, %a, %b;", [np.array([1, 1, 3], U32), np.array([31, 32, 1], U32)], np.array([2**31, 0, 6], U32)),
    ("shr.s32 %d, %a, %b;", [np.array([-8, -8, 8], I32), np.array([1, 99, 99], U32)], np.array([-4, -1, 0], I32)),
    ("shf.l.wrap.b32 %d, %a, %b, 8;", [np.array([0x11223344], U32), np.array([0x55667788], U32)],
     np.array([0x66778811], U32)),
    ("shf.r.clamp.b32 %d, %a, %b, 40;", [np.array([1], U32), np.array([2], U32)], np.array([2], U32)),
    ("bfe.u32 %d, %a, 4, 8;", [np.array([0x12345678], U32)], np.array([0x67], U32)),
    ("bfe.s32 %d, %a, 4, 4;", [np.array([0xF0, 0x70], I32)], np.array([-1, 7], I32)),
    ("bfi.b32 %d, %a, %b, 8, 8;", [np.array([0xAB], U32), np.array([0x11223344], U32)], np.array([0x1122AB44], U32)),
    ("popc.b32 %d, %a;", [np.array([0, 0xFF, 0xFFFFFFFF], U32)], np.array([0, 8, 32], U32)),
    ("clz.b32 %d, %a;", [np.array([0, 1, 0x80000000], U32)], np.array([32, 31, 0], U32)),
    ("brev.b32 %d, %a;", [np.array([1, 6], U32)], np.array([0x80000000, 0x60000000], U32)),
    ("bfind.u32 %d, %a;", [np.array([0, 1, 0x300], U32)], np.array([0xFFFFFFFF, 0, 9], U32)),
    ("prmt.b32 %d, %a, %b, 0x7610;", [np.array([0x33221180], U32), np.array([0xFFEEDDCC], U32)],
     np.array([0xFFEE1180], U32)),
    ("prmt.b32 %d, %a, %b, 0x8880;", [np.array([0x33221180], U32), np.array([0], U32)], np.array([0xFFFFFF80], U32)),
    ("setp.lt.s32 %p1, %a, %b; selp.b32 %d, 1, 0, %p1;", [SIGNED, OTHER], (SIGNED < OTHER).astype(U32)),
    ("setp.leu.f32 %p1, %a, %b; selp.b32 %d, 1, 0, %p1;", [FLOATS, MORE], (~(FLOATS > MORE)).astype(U32)),
    ("setp.ne.f32 %p1, %a, %a; selp.b32 %d, 1, 0, %p1;", [FLOATS], np.zeros(10, U32)),
    ("setp.neu.f32 %p1, %a, %a; selp.b32 %d, 1, 0, %p1;", [FLOATS], np.isnan(FLOATS).astype(U32)),
    ("setp.gt.s32 %p2, %b, 0; setp.gt.and.s32 %p1|%p3, %a, 0, %p2; selp.b32 %d, 1, 2, %p3;", [SIGNED, OTHER],
     np.where((SIGNED <= 0) & (OTHER > 0), 1, 2).astype(U32)),
    ("set.lt.u32.s32 %d, %a, %b;", [SIGNED, OTHER], np.where(SIGNED < OTHER, U32(0xFFFFFFFF), U32(0))),
    ("setp.lt.s32 %p1, %a, 0; @!%p1 bra L; mov.b32 %a, 5; L: mov.b32 %d, %a;", [SIGNED],
     np.where(SIGNED < 0, 5, SIGNED)),
    ("mov.b32 %d, 9; setp.lt.s32 %p1, %a, 0; @%p1 mov.b32 %d, %a;", [SIGNED], np.where(SIGNED < 0, SIGNED, 9)),
    ("mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};", [UNSIGNED], (UNSIGNED >> 16) | (UNSIGNED << U32(16))),
    ("add.f32 %d, %a, %b;", [FLOATS, MORE], summed(FLOATS, MORE)),
    ("add.ftz.f32 %d, %a, %b;", [np.array([1e-40, 1], F32), np.array([1e-40, 2], F32)], np.array([0, 3], F32)),
    ("add.rz.f32 %d, %a, %b;", [np.array([1], F32), np.array([-1e-9], F32)], np.nextafter(single([1]), F32(0))),
    ("add.rp.f32 %d, %a, %b;", [np.array([1], F32), np.array([1e-9], F32)], np.nextafter(single([1]), F32(2))),
    ("mul.sat.f32 %d, %a, %b;", [single([2, -1, NAN, 0.5]), single([2, 1, 1, 0.5])], single([1, 0, 0, 0.25])),
    ("min.f32 %d, %a, %b;", [FLOATS, MORE], np.array([-0.0, -0.0, 1.5, -2.25, 1e-40, 3e38, 1, -INF, 2, 0.1], F32)),
    ("max.f32 %d, %a, %b;", [FLOATS, MORE], np.array([0.0, 0.0, 2.5, 3, 1, 3e38, INF, INF, 2, 0.2], F32)),
    ("max.NaN.f32 %d, %a, %b;", [FLOATS, MORE], np.array([0.0, 0.0, 2.5, 3, 1, 3e38, INF, INF, NAN, 0.2], F32)),
    ("fma.rn.f32 %d, %a, %b, %c;", [single([1 + 2**-12]), single([1 - 2**-12]), single([-1])], single([-(2.0**-24)])),
    ("fma.rn.f64 %d, %a, %b, %c;", [double([1 + 2**-30]), double([1 - 2**-30]), double([-1])], double([-(2.0**-60)])),
    ("neg.f32 %d, %a;", [FLOATS], -FLOATS),
    ("sqrt.rn.f32 %d, %a;", [np.abs(FLOATS)], np.sqrt(np.abs(FLOATS))),
    ("rcp.approx.ftz.f32 %d, %a;", [single([4, 0, -0.0, INF])], single([0.25, INF, -INF, 0])),
    ("ex2.approx.f32 %d, %a;", [single([0, 3, -INF])], single([1, 8, 0])),
    ("copysign.f32 %d, %a, %b;", [single([-1, 1]), single([5, -6])], single([-5, 6])),
    ("add.f16 %d, %a, %b;", [half([1, 2048, 65504]), half([2**-11, 1, 65504])], half([1, 2048, INF])),
    ("fma.rn.f16x2 %d, %a, %b, %c;", [half([1, 2]).view(U32), half([3, 4]).view(U32), half([5, 6]).view(U32)],
     half([8, 14]).view(U32)),
    ("cvt.rn.f32.s32 %d, %a;", [SIGNED], SIGNED.astype(F32)),
    ("cvt.rzi.s32.f32 %d, %a;", [single([1.9, -1.9, NAN, 1e20, -INF])], np.array([1, -1, 0, 2**31 - 1, -(2**31)], I32)),
    ("cvt.rni.u32.f32 %d, %a;", [single([2.5, 3.5, -1])], np.array([2, 4, 0], U32)),
    ("cvt.rmi.f32.f32 %d, %a;", [single([2.5, -2.5])], single([2, -3])),
    ("cvt.s32.s8 %d, %a;", [np.array([0x80, 0x7F, 0x1FF], U32)], np.array([-128, 127, -1], I32)),
    ("cvt.sat.u8.s32 %d, %a;", [np.array([-3, 200, 300], I32)], np.array([0, 200, 255], U32)),
    ("cvt.s64.s32 %d, %a;", [SIGNED], WIDE),
    ("cvt.u32.u64 %d, %a;", [np.array([2**40 + 7], U64)], np.array([7], U32)),
    ("cvt.rn.f16.f32 %d, %a;", [single([1 + 2**-11, 1e6, 2**-24])], half([1, INF, 2**-24])),
    ("cvt.rz.f16.f32 %d, %a;", [single([1 + 2**-10 + 2**-11, 1e6])], half([1 + 2**-10, 65504])),
    ("cvt.f32.f16 %d, %a;", [half([1.5, -INF])], single([1.5, -INF])),
    ("cvt.rn.f16x2.f32 %d, %a, %b;", [single([1]), single([2])], half([2, 1]).view(U32)),
    ("cvt.rn.bf16.f32 %d, %a;", [single([1, 1 + 2**-8, 1 + 3 * 2**-8, NAN])],
     np.array([0x3F80, 0x3F80, 0x3F82, 0x7FFF], np.uint16)),
    ("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", [single([-1]), single([2])], np.array([0x00004000], U32)),
    ("cvt.f32.bf16 %d, %a;", [np.array([0x3F80, 0xC000], np.uint16)], single([1, -2])),
    ("cvt.rna.tf32.f32 %d, %a;", [single([1 + 2**-11, 1 + 2**-12])], single([1 + 2**-10, 1])),
    ("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", [single([1000, 1.0625]), single([-1, 2**-9])],
     np.array([0x7EB8, 0x3801], np.uint16)),
    ("cvt.rn.f16x2.e4m3x2 %d, %a;", [np.array([0x7EB8], np.uint16)], half([-1, 448]).view(U32)),
    ("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", [single([1e9]), single([-1])], np.array([0x7BBC], np.uint16)),
    ("cvt.pack.sat.s8.s32.b32 %d, %a, %b, 0x1234;", [np.array([300], I32), np.array([-5], I32)],
     np.array([0x12347FFB], U32)),
    ("add.bf16x2 %d, %a, %b;", [np.array([0x3F804000], U32), np.array([0x40003F80], U32)], np.array([0x40404040], U32)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sources", "expected"), EXACT, ids=[row[0] for row in EXACT])
def test_results_are_exact(compute: Compute, text: str, sources: list, expected: np.ndarray) -> None:
    result = compute(text, sources, expected.dtype)
    np.testing.assert_array_equal(result, expected)
    if expected.dtype.kind == "f":
        kept = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[kept]), np.signbit(expected[kept]))


@pytest.mark.parametrize(
    ("opcode", "function"),
    [("lg2", np.log2), ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh), ("rsqrt", lambda x: 1 / np.sqrt(x))],
)
def test_approximations_are_near(compute: Compute, opcode: str, function: object) -> None:
    values = np.linspace(0.01, 3, 64).astype(F32)
    result = compute(f"{opcode}.approx.f32 %d, %a;", [values], F32)
    np.testing.assert_allclose(result, function(values.astype(F64)), rtol=1e-6)  # type: ignore[operator]
