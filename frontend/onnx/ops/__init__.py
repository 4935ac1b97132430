"""The operators that can be imported, a module per family; importing the package registers all of them."""

from . import (
    activation,
    arithmetic,
    constant,
    contraction,
    control,
    indexing,
    layout,
    logic,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
    shape,
)

__all__ = [
    "activation",
    "arithmetic",
    "constant",
    "contraction",
    "control",
    "indexing",
    "layout",
    "logic",
    "normalization",
    "padding",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
