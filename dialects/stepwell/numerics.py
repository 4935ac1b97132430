"""Numerics that several reference implementations share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..types import is_float


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a reference to compute narrow floats in float32 and round results once, to the first operand's type."""

    @functools.wraps(function)
    def reference(*operands: np.ndarray | None, **attributes: Any) -> Any:
        assert operands[0] is not None
        dtype = operands[0].dtype
        return _rounded(function(*(widen(operand) for operand in operands), **attributes), dtype)

    return reference


def summed_up(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a reference of sums of products to sum floats in float64, rounded once, and bytes in i32.

    BLAS and numpy's einsum choose the summation order by CPU and number of threads. In float64 that order changes a
    float32 result by at most one rounding, so the reference is the same on every machine.
    """

    @functools.wraps(function)
    def reference(*operands: np.ndarray | None, **attributes: Any) -> Any:
        assert operands[0] is not None
        dtype = operands[0].dtype
        if is_float(dtype):
            return _rounded(function(*map(_in_float64, operands), **attributes), dtype)
        if dtype.itemsize == 1:
            lhs, rhs, *others = operands
            assert lhs is not None and rhs is not None
            return function(lhs.astype(np.int32), rhs.astype(np.int32), *others, **attributes)
        return function(*operands, **attributes)

    return reference


def _in_float64(array: np.ndarray | None) -> np.ndarray | None:
    return array.astype(np.float64) if array is not None and is_float(array.dtype) else array


def _rounded(results: Any, dtype: np.dtype) -> Any:
    if isinstance(results, tuple):
        return tuple(np.asarray(result).astype(dtype, copy=False) for result in results)
    return np.asarray(results).astype(dtype, copy=False)


def widen(array: np.ndarray | None) -> np.ndarray | None:
    """`array` in float32, if its element type is a narrower float."""
    if array is None or not is_float(array.dtype) or array.dtype.itemsize >= 4:
        return array
    return array.astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """`1 / (1 + exp(-x))`, without overflow on either side."""
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, computed in float64 with the rational approximations of fdlibm's s_erf.c.

    The error is below one unit in the last place of a float64.
    """
    magnitude = np.abs(np.asarray(x, np.float64))
    result = np.where(np.isnan(magnitude), np.nan, 1.0)
    for low, high, approximation in _ERF_RANGES:
        inside = (magnitude >= low) & (magnitude < high)
        result[inside] = approximation(magnitude[inside])
    return np.copysign(result, x)


def _erf_small(x: np.ndarray) -> np.ndarray:
    return x + x * (_polynomial(x * x, _PP) / _polynomial(x * x, _QQ))


def _erf_middle(x: np.ndarray) -> np.ndarray:
    return _ERX + _polynomial(x - 1, _PA) / _polynomial(x - 1, _QA)


def _erf_tail(x: np.ndarray, numerator: tuple[float, ...], denominator: tuple[float, ...]) -> np.ndarray:
    s = 1 / (x * x)
    # exp(-x * x) would lose digits for a large x * x; the square of the upper half of the bits is exact.
    high = x.astype(np.float32).astype(np.float64)
    exponential = np.exp(-high * high - 0.5625) * np.exp(
        (high - x) * (high + x) + _polynomial(s, numerator) / _polynomial(s, denominator)
    )
    return 1 - exponential / x


def _polynomial(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


# From fdlibm's s_erf.c, by its names; each table lists the coefficients from the lowest power up.
_ERX = 8.45062911510467529297e-01
_PP = (
    1.28379167095512558561e-01,
    -3.25042107247001499370e-01,
    -2.84817495755985104766e-02,
    -5.77027029648944159157e-03,
    -2.37630166566501626084e-05,
)
_QQ = (
    1.0,
    3.97917223959155352819e-01,
    6.50222499887672944485e-02,
    5.08130628187576562776e-03,
    1.32494738004321644526e-04,
    -3.96022827877536812320e-06,
)
_PA = (
    -2.36211856075265944077e-03,
    4.14856118683748331666e-01,
    -3.72207876035701323847e-01,
    3.18346619901161753674e-01,
    -1.10894694282396677476e-01,
    3.54783043256182359371e-02,
    -2.16637559486879084300e-03,
)
_QA = (
    1.0,
    1.06420880400844228286e-01,
    5.40397917702171048937e-01,
    7.18286544141962662868e-02,
    1.26171219808761642112e-01,
    1.36370839120290507362e-02,
    1.19844998467991074170e-02,
)
_RA = (
    -9.86494403484714822705e-03,
    -6.93858572707181764372e-01,
    -1.05586262253232909814e01,
    -6.23753324503260060396e01,
    -1.62396669462573470355e02,
    -1.84605092906711035994e02,
    -8.12874355063065934246e01,
    -9.81432934416914548592e00,
)
_SA = (
    1.0,
    1.96512716674392571292e01,
    1.37657754143519042600e02,
    4.34565877475229228821e02,
    6.45387271733267880336e02,
    4.29008140027567833386e02,
    1.08635005541779435134e02,
    6.57024977031928170135e00,
    -6.04244152148580987438e-02,
)
_RB = (
    -9.86494292470009928597e-03,
    -7.99283237680523006574e-01,
    -1.77579549177547519889e01,
    -1.60636384855821916062e02,
    -6.37566443368389627722e02,
    -1.02509513161107724954e03,
    -4.83519191608651397019e02,
)
_SB = (
    1.0,
    3.03380607434824582924e01,
    3.25792512996573918826e02,
    1.53672958608443695994e03,
    3.19985821950859553908e03,
    2.55305040643316442583e03,
    4.74528541206955367215e02,
    -2.24409524465858183362e01,
)
_ERF_RANGES: tuple[tuple[float, float, Callable[[np.ndarray], np.ndarray]], ...] = (
    (0.0, 0.84375, _erf_small),
    (0.84375, 1.25, _erf_middle),
    (1.25, 1 / 0.35, functools.partial(_erf_tail, numerator=_RA, denominator=_SA)),
    (1 / 0.35, 6.0, functools.partial(_erf_tail, numerator=_RB, denominator=_SB)),
)
