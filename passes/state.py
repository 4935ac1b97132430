"""The state of a compile that is not in its module."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class CompileState:
    """What the passes of one compile know of the model besides its module.

    Attributes:
        parameters: the arrays that the module names; passes add and replace entries, and leave the arrays as they are.
        evaluated: the model's nodes whose work is done at compile time, in `@init`.
    """

    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    evaluated: set[str] = field(default_factory=set)
