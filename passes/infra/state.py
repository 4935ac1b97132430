"""Compile state that is stored outside the module."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class CompileState:
    """Data about the model that the passes of one compile share, besides its module.

    Attributes:
        parameters: arrays that the module names; passes add and replace entries but never modify an array.
        evaluated: the model's nodes that are computed at compile time, in `@init`.
    """

    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    evaluated: set[str] = field(default_factory=set)
