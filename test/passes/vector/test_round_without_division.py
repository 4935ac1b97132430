"""Integers that stepwell-round-without-division computes, natively, against divisions of numpy."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.passes.vector.round_without_division import RoundWithoutDivisionPass

from .vectors import on_vectors

_LIMITS = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767), "i4": (-8, 7)}


def _quantized(scale: np.float32, zero_point: int, low: int, high: int) -> str:
    splats = {"s": float(scale), "z": float(zero_point), "low": float(low), "high": float(high)}
    constants = "\n".join(
        f"%{name} = arith.constant dense<0x{np.float32(value).view(np.uint32):08X}> : VECTOR"
        for name, value in splats.items()
    )
    return f"""{constants}
      %1 = arith.divf %v, %s : VECTOR
      %2 = math.roundeven %1 : VECTOR
      %3 = arith.addf %2, %z : VECTOR
      %4 = arith.cmpf ogt, %low, %3 : VECTOR
      %5 = arith.select %4, %low, %3 : vector<16xi1>, VECTOR
      %6 = arith.cmpf olt, %high, %5 : VECTOR
      %7 = arith.select %6, %high, %5 : vector<16xi1>, VECTOR
      %r = arith.fptosi %7 : VECTOR to vector<16xi32>"""


def _numbers(scale: np.float32, low: int, high: int, random: np.random.Generator) -> np.ndarray:
    """Random numbers, all that lie near the middle of two integers, and special ones."""
    halves = ((np.arange(low - 2, high + 2)[:4000] + 0.5) * np.float64(scale)).astype(np.float32)
    near = [halves, *(np.nextafter(halves, np.float32(side)) for side in (-np.inf, np.inf))]
    near += [np.nextafter(item, np.float32(side)) for item, side in zip(near[1:], (-np.inf, np.inf), strict=True)]
    spread = random.uniform(1.2 * low - 1, 1.2 * high + 1, 20000) * np.float64(scale)
    sizes = np.exp(random.uniform(-100, 88, 2000)) * random.choice([-1, 1], 2000)
    info = np.finfo(np.float32)
    special = [0, -0.0, np.inf, -np.inf, info.max, info.min, info.tiny, info.smallest_subnormal, 1e30, -1e30]
    return np.concatenate([*near, spread, sizes, special]).astype(np.float32)


@pytest.mark.parametrize("kind", _LIMITS)
@pytest.mark.parametrize("seed", range(4))
def test_integers_are_those_of_a_division(kind: str, seed: int) -> None:
    random = np.random.default_rng([seed, *kind.encode()])
    low, high = _LIMITS[kind]
    # Scales as calibration gives them, powers of two, and one whose mantissa has all bits set.
    scale = np.float32(
        [np.exp(random.uniform(-12, 4)), 0.0237, 2.0**-7, np.nextafter(np.float32(1), np.float32(0))][seed]
    )
    zero_point = int(random.choice([0, low, high, random.integers(low, high + 1)]))
    x = _numbers(scale, low - zero_point, high - zero_point, random)
    got = on_vectors(_quantized(scale, zero_point, low, high), x, RoundWithoutDivisionPass(), "i4")
    with np.errstate(over="ignore"):
        want = np.clip(np.rint(x / scale) + np.float32(zero_point), low, high).astype(np.int32)
    np.testing.assert_array_equal(got, want)
