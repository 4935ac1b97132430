"""Orthogonal polynomials, by their recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir

from .....dialects.stepwell.reduction import ReduceMaxOp
from ....build import cast, dtype, emit, rank
from ....formulas import Formula
from ....loops import Carried, Stack, counted, written_out
from ...node import AtenNode
from ...registry import imports
from ..arithmetic import as_value
from .functions import widened

_WRITTEN_OUT = 16
"""Maximum degree, if it is a number, up to which steps need no loop."""

_Step = Callable[[Formula, Formula, Formula, Formula], Formula]
"""The next polynomial from x, its degree less 1, the last polynomial and the one before."""


def _chebyshev(x: Formula, k: Formula, last: Formula, before: Formula) -> Formula:
    return (x + x) * last - before


def _hermite(x: Formula, k: Formula, last: Formula, before: Formula) -> Formula:
    return (x + x) * last - 2 * k * before


def _probabilists_hermite(x: Formula, k: Formula, last: Formula, before: Formula) -> Formula:
    return x * last - k * before


def _laguerre(x: Formula, k: Formula, last: Formula, before: Formula) -> Formula:
    return ((2 * k + 1 - x) * last - k * before) / (k + 1)


def _legendre(x: Formula, k: Formula, last: Formula, before: Formula) -> Formula:
    return ((2 * k + 1) * x * last - k * before) / (k + 1)


def _handler(step: _Step, first: Callable[[Formula], Formula], is_shifted: bool) -> Callable[..., ir.Value]:
    def handler(node: AtenNode, x: Any, n: Any) -> ir.Value:
        point = widened(as_value(x, node.dtype()), node.dtype())
        point = 2 * point - 1 if is_shifted else point
        degree = n if isinstance(n, ir.Value) else as_value(n, np.dtype(np.float64))
        known = n if isinstance(n, int | float) else None
        return cast(_evaluated(point, cast(degree, np.int64), known, step, first).value, node.dtype())

    return handler


def _evaluated(
    x: Formula, degree: ir.Value, known: float | None, step: _Step, first: Callable[[Formula], Formula]
) -> Formula:
    """The polynomial of each element's degree: steps up to the greatest one, of which each element takes its own."""
    wanted = Formula(degree)
    one = x * 0 + 1 + (wanted * 0).as_type(_kind(x))  # in the shape of both
    point, linear = x * one, first(x) * one
    start = linear.where(wanted >= 1, one).where(wanted >= 0, 0)

    def body(number: ir.Value, values: Carried) -> tuple[Carried, list[Stack]]:
        before, last, made = map(Formula, values)
        k = Formula(number) + 1
        following = step(point, k.as_type(_kind(x)), last, before)
        kept = following.where(wanted > k, made)
        return [last.value, following.value, kept.value], []

    initial = [one.value, linear.value, start.value]
    if known is not None and known <= _WRITTEN_OUT:
        return Formula(written_out(max(int(known) - 1, 0), initial, body)[0][2])
    most = emit(ReduceMaxOp, degree, axes=tuple(range(rank(degree))), keepdims=False) if rank(degree) else degree
    count = (Formula(most) - 1).at_least(0)
    return Formula(counted(count.value, initial, body)[0][2])


def _kind(x: Formula) -> np.dtype:
    return dtype(x.value)


for _prefix, _is_shifted in (("", False), ("shifted_", True)):
    for _letter, _first in (
        ("t", lambda x: x),
        ("u", lambda x: x + x),
        ("v", lambda x: x + x - 1),
        ("w", lambda x: x + x + 1),
    ):
        _name = f"aten.special_{_prefix}chebyshev_polynomial_{_letter}"
        imports(f"{_name}.default", f"{_name}.x_scalar", f"{_name}.n_scalar")(_handler(_chebyshev, _first, _is_shifted))
for _family, _step, _first in (
    ("hermite_polynomial_h", _hermite, lambda x: x + x),
    ("hermite_polynomial_he", _probabilists_hermite, lambda x: x),
    ("laguerre_polynomial_l", _laguerre, lambda x: 1 - x),
    ("legendre_polynomial_p", _legendre, lambda x: x),
):
    _name = f"aten.special_{_family}"
    imports(f"{_name}.default", f"{_name}.x_scalar", f"{_name}.n_scalar")(_handler(_step, _first, False))
