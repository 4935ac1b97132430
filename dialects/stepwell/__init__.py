"""The stepwell dialect: tensor ops that still look like the model. One module per family of ops."""

from __future__ import annotations

import inspect

from ..core import Dialect, Op
from . import (
    constant,
    contraction,
    cumulative,
    elementwise,
    movement,
    normalization,
    packed,
    planar,
    pooling,
    recurrent,
    reduction,
    regions,
    shape,
    sorting,
    winograd,
)

_FAMILIES = (
    elementwise,
    contraction,
    packed,
    winograd,
    pooling,
    planar,
    regions,
    reduction,
    normalization,
    movement,
    sorting,
    cumulative,
    shape,
    constant,
    recurrent,
)

STEPWELL = Dialect(
    "stepwell",
    [
        op
        for family in _FAMILIES
        for op in vars(family).values()
        if inspect.isclass(op) and issubclass(op, Op) and "OPERATION_NAME" in vars(op)
    ],
)
