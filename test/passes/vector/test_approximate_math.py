"""The polynomials of stepwell-approximate-math, run natively, compared with numpy in extended precision."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from stepwell.lowering.target import Target
from stepwell.passes.vector import approximate_math
from stepwell.passes.vector.approximate_math import ApproximateMathPass

from .vectors import on_vectors

Array = np.ndarray


def compute(body: str, x: Array, has_scalef: bool = False, lanes: int = 16) -> Array:
    """Applies `body`, which reads %v and defines %r, to every element of `x`."""
    return on_vectors(body, x, ApproximateMathPass(has_scalef), lanes=lanes)


def call(name: str) -> str:
    return f"%r = math.{name} %v : VECTOR"


def units_off(got: Array, want: Array) -> Array:
    """Returns the error in units of the exact result's last place; 0 if both are the same infinity or NaN."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        distance = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(rounded))
    same = (got == rounded) & (np.signbit(got) == np.signbit(rounded)) | (np.isnan(got) & np.isnan(rounded))
    is_other_zero = (got == 0) & (rounded == 0)
    return np.where(same, 0, np.where(np.isfinite(distance) & ~is_other_zero, distance, np.inf))


def exact_erf(x: Array) -> Array:
    return np.array([math.erf(float(item)) for item in x], np.longdouble)


def specials(dtype: str) -> Array:
    info = np.finfo(dtype)
    edges = [0, info.tiny, info.tiny / 8, info.max, 1, 1e4, np.inf]
    return np.array([*edges, *(-edge for edge in edges), np.nan], dtype)


def everywhere(dtype: str) -> Array:
    """Numbers of all relevant magnitudes, and both signs."""
    rng = np.random.default_rng(0)
    limit = 720 if dtype == "f8" else 105
    parts = [rng.standard_normal(4000), rng.uniform(-limit, limit, 4000), rng.uniform(-10, 10, 4000)]
    parts.append(np.exp(rng.uniform(-40, 0, 4000)) * rng.choice([-1, 1], 4000))
    return np.concatenate([specials(dtype), *(part.astype(dtype) for part in parts)])


def positive(dtype: str) -> Array:
    rng = np.random.default_rng(1)
    limit = 700 if dtype == "f8" else 87
    near_one = 1 + rng.standard_normal(4000) * 0.01
    return np.concatenate(
        [specials(dtype), np.exp(rng.uniform(-limit, limit, 8000)).astype(dtype), near_one.astype(dtype)]
    )


def angles(dtype: str) -> Array:
    rng = np.random.default_rng(2)
    large = rng.uniform(-(2**44), 2**44, 4000 if dtype == "f4" else 0)
    small = [rng.uniform(-limit, limit, 4000) for limit in (10, 1e5)]
    return np.concatenate([*small, large, [0, np.inf, np.nan]]).astype(dtype)


def fractions(dtype: str) -> Array:
    """Numbers in [-1, 1], many of them near its ends and its middle, and a few outside."""
    rng = np.random.default_rng(3)
    near = np.exp(rng.uniform(-30, 0, 4000)) * rng.choice([-1, 1], 4000)
    parts = [rng.uniform(-1, 1, 4000), near, np.copysign(1 - np.abs(near), near), [0.5, 1, -1, 1.5, 0]]
    return np.concatenate([specials(dtype), *(np.asarray(part).astype(dtype) for part in parts)])


def above_one(dtype: str) -> Array:
    rng = np.random.default_rng(4)
    limit = 700 if dtype == "f8" else 87
    parts = [1 + np.exp(rng.uniform(-15, 0, 4000)), np.exp(rng.uniform(0, limit, 4000))]
    return np.concatenate([specials(dtype), *(part.astype(dtype) for part in parts)])


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[str], Array]]] = {
    "acos": (np.arccos, fractions),
    "acosh": (np.arccosh, above_one),
    "asin": (np.arcsin, fractions),
    "asinh": (np.arcsinh, everywhere),
    "atan": (np.arctan, everywhere),
    "atanh": (np.arctanh, fractions),
    "cosh": (np.cosh, everywhere),
    "sinh": (np.sinh, everywhere),
    "tan": (np.tan, angles),
    "exp": (np.exp, everywhere),
    "expm1": (np.expm1, everywhere),
    "tanh": (np.tanh, everywhere),
    "erf": (exact_erf, everywhere),
    "log": (np.log, positive),
    "log1p": (np.log1p, positive),
    "sin": (np.sin, angles),
    "cos": (np.cos, angles),
}


def stated_bounds() -> list[tuple[str, str, float]]:
    """Returns function, type and bound from the first table of docs/numerics.md."""
    page = (Path(__file__).parents[3] / "docs" / "numerics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\d+) \| [\d.]+ \| (\d+) \| [\d.]+ \|$", page, re.MULTILINE)
    return [
        (name, dtype, float(bound)) for name, *bounds in rows for dtype, bound in zip(("f4", "f8"), bounds, strict=True)
    ]


def test_bounds_are_stated_for_every_function() -> None:
    stated = {name for name, _, _ in stated_bounds()}
    assert {f"math.{name}" for name in stated} == set(approximate_math.FUNCTIONS)
    assert stated == {*FUNCTIONS, "powf"}


@pytest.mark.parametrize(("name", "dtype", "bound"), [item for item in stated_bounds() if item[0] != "powf"])
def test_error_is_within_the_stated_bound(name: str, dtype: str, bound: float) -> None:
    exact, inputs = FUNCTIONS[name]
    x = inputs(dtype)
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.longdouble))
    off = units_off(compute(call(name), x), want)
    worst = int(off.argmax())
    assert off[worst] <= bound, f"{name}({x[worst]!r}) is {off[worst]:.2f} units off"


@pytest.mark.few(10)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("exponent", [-1.5, -0.5, 0.0, 0.3, 2.0, 3.0, 7.0, 61.5, 711.5, -np.inf, np.inf])
def test_powers(exponent: float, dtype: str) -> None:
    x = np.concatenate([positive(dtype), everywhere(dtype)])
    kind, bits = (np.float32, "u4") if dtype == "f4" else (np.float64, "u8")
    text = f"0x{kind(exponent).view(bits):X}"
    body = f"%y = arith.constant dense<{text}> : VECTOR\n%r = math.powf %v, %y : VECTOR"
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), np.longdouble(kind(exponent)))
    off = units_off(compute(body, x), want)
    bound = {item[:2]: item[2] for item in stated_bounds()}["powf", dtype]
    assert off.max() <= bound, x[int(off.argmax())]


@pytest.mark.parametrize("has_scalef", [False, *([True] if Target.host().vector_bytes == 64 else [])])
@pytest.mark.parametrize(("dtype", "least", "most"), [("f4", -87.33, 88.37), ("f8", -708.39, 709.4)])
def test_an_exponential_that_may_flush_is_right_elsewhere(
    dtype: str, least: float, most: float, has_scalef: bool
) -> None:
    x = everywhere(dtype)
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.longdouble))
    got = compute("%r = math.exp %v fastmath<afn> : VECTOR", x, has_scalef)
    assert units_off(got, want)[~((x < least) | (x > most))].max() <= 2.1
    assert (got[x > most] >= np.exp(np.array(most, dtype))).all()
    np.testing.assert_array_equal(got[x < least], 0)


@pytest.mark.skipif(Target.host().vector_bytes < 64, reason="needs AVX-512")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("lanes", [16, 32])
def test_an_exponential_scaled_by_one_instruction(dtype: str, lanes: int) -> None:
    x = everywhere(dtype)
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.longdouble))
    assert units_off(compute(call("exp"), x, has_scalef=True, lanes=lanes), want).max() <= 1


def test_an_erf_that_may_be_approximate_is_within_6_units() -> None:
    x = everywhere("f4")
    off = units_off(compute("%r = math.erf %v fastmath<afn> : VECTOR", x), exact_erf(x))
    assert off.max() <= 6


@pytest.mark.parametrize("exponent", [1, 3, 5, 13])
def test_powers_that_a_double_holds_are_exact(exponent: int) -> None:
    most = min(1999, int(2 ** (53 / exponent)))
    x = np.arange(1, most + 1, dtype=np.float64)
    body = f"%y = arith.constant dense<{float(exponent)}> : VECTOR\n%r = math.powf %v, %y : VECTOR"
    assert compute(body, x).tolist() == [float(base**exponent) for base in range(1, most + 1)]


def test_the_power_of_a_positive_number_that_norms_take() -> None:
    x = np.exp(np.random.default_rng(3).uniform(-87, 88, 20000)).astype("f4")
    x[:3] = np.inf, np.nan, 1
    body = "%y = arith.constant dense<-0.75> : VECTOR\n%r = math.powf %v, %y fastmath<afn> : VECTOR"
    assert units_off(compute(body, x), np.power(x.astype(np.longdouble), np.longdouble(-0.75))).max() <= 4


def test_halves_are_rounded_once() -> None:
    x = everywhere("f2")
    with np.errstate(all="ignore"):
        want = np.tanh(x.astype(np.longdouble))
    assert units_off(compute(call("tanh"), x), want).max() <= 0.51
