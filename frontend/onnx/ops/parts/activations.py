"""Activation functions named by an attribute, such as those of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir

from .....dialects.stepwell import elementwise as ew
from ....build import emit, scalar
from ....errors import NodeError

ActivationFunction = Callable[[ir.Value], ir.Value]


@dataclass(frozen=True)
class _Kind:
    """Builder of a function from its parameters, and the parameters' defaults: alpha, or alpha and beta."""

    make: Callable[..., ActivationFunction]
    defaults: tuple[float, ...] = ()


def _affine(alpha: float, beta: float) -> ActivationFunction:
    return lambda x: emit(ew.AddOp, emit(ew.MulOp, x, scalar(alpha, x)), scalar(beta, x))


def _scaled_tanh(alpha: float, beta: float) -> ActivationFunction:
    return lambda x: emit(ew.MulOp, emit(ew.TanhOp, emit(ew.MulOp, x, scalar(beta, x))), scalar(alpha, x))


def _thresholded(alpha: float) -> ActivationFunction:
    return lambda x: emit(ew.SelectOp, emit(ew.GreaterOp, x, scalar(alpha, x)), x, scalar(0, x))


def _softsign() -> ActivationFunction:
    return lambda x: emit(ew.DivOp, x, emit(ew.AddOp, emit(ew.AbsOp, x), scalar(1, x)))


_KINDS = {
    "affine": _Kind(_affine, (1.0, 0.0)),
    "elu": _Kind(lambda alpha: lambda x: emit(ew.EluOp, x, alpha=alpha), (1.0,)),
    "hardsigmoid": _Kind(lambda alpha, beta: lambda x: emit(ew.HardSigmoidOp, x, alpha=alpha, beta=beta), (0.2, 0.5)),
    "leakyrelu": _Kind(lambda alpha: lambda x: emit(ew.LeakyReluOp, x, alpha=alpha), (0.01,)),
    "relu": _Kind(lambda: lambda x: emit(ew.ReluOp, x)),
    "scaledtanh": _Kind(_scaled_tanh, (1.0, 1.0)),
    "sigmoid": _Kind(lambda: lambda x: emit(ew.SigmoidOp, x)),
    "softplus": _Kind(lambda: lambda x: emit(ew.SoftplusOp, x)),
    "softsign": _Kind(_softsign),
    "tanh": _Kind(lambda: lambda x: emit(ew.TanhOp, x)),
    "thresholdedrelu": _Kind(_thresholded, (1.0,)),
}


def activations(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[ActivationFunction]:
    """The functions with the given names, in any letter case. Those with parameters take `alphas` and `betas` in turn.

    Raises:
        NodeError: there is no such function.
    """
    alpha, beta = iter(alphas), iter(betas)
    return [_activation(name, alpha, beta) for name in names]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> ActivationFunction:
    kind = _KINDS.get(name.lower())
    if kind is None:
        raise NodeError(f"has the unknown activation '{name}': expected one of {', '.join(_KINDS)}")
    given = zip((alphas, betas), kind.defaults, strict=False)
    return kind.make(*(next(values, default) for values, default in given))
