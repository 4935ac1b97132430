"""The stepwell dialect: tensor ops that still look like the model. Each module defines a family of ops."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from ..core import Dialect, Op

_MODULES = [importlib.import_module(item.name) for item in pkgutil.walk_packages(__path__, f"{__name__}.")]

STEPWELL = Dialect(
    "stepwell",
    [
        op
        for module in _MODULES
        for op in vars(module).values()
        if inspect.isclass(op) and issubclass(op, Op) and op.__module__ == module.__name__
        if "OPERATION_NAME" in vars(op)
    ],
)
