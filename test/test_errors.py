"""Every error and warning of Stepwell has one base class."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil

import pytest
import stepwell
from stepwell.support.errors import StepwellError, StepwellWarning

_WITH_TORCH = (
    *("stepwell.frontend.torch", "stepwell.compat.torch.", "stepwell.compat.transformers."),
    "stepwell.bench.training_models",
)


def _modules() -> list[str]:
    found = pkgutil.walk_packages(stepwell.__path__, "stepwell.")
    # Excludes test files, guides, programs that run when imported, and modules that need torch.
    lacks_torch = importlib.util.find_spec("torch") is None
    return [
        item.name
        for item in found
        if item.name.split(".")[1] not in ("test", "docs", "examples", "build")
        and not item.name.endswith("__main__")
        and "torch_models" not in item.name
        and not (lacks_torch and item.name.startswith(_WITH_TORCH))
    ]


@pytest.mark.slow
def test_every_exception_class_has_the_base_class() -> None:
    odd, count = [], 0
    for name in _modules():
        for item in vars(importlib.import_module(name)).values():
            if not inspect.isclass(item) or not issubclass(item, BaseException) or item.__module__ != name:
                continue
            count += 1
            base = StepwellWarning if issubclass(item, Warning) else StepwellError
            if not issubclass(item, base):
                odd.append(f"{name}.{item.__name__}")
    assert odd == []
    assert count > 50


@pytest.mark.parametrize(
    ("name", "builtin"), [("InputError", ValueError), ("OptionError", ValueError), ("TargetError", ValueError)]
)
def test_builtin_bases_are_kept(name: str, builtin: type[Exception]) -> None:
    assert issubclass(getattr(stepwell, name), builtin)
    assert issubclass(getattr(stepwell, name), stepwell.StepwellError)


def test_exported_exceptions_have_the_base_class() -> None:
    for name in stepwell.__all__:
        item = getattr(stepwell, name)
        if inspect.isclass(item) and issubclass(item, BaseException):
            assert issubclass(item, stepwell.StepwellError | stepwell.StepwellWarning), name
