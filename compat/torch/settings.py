"""The `mode` and `options` of `torch.compile(backend="stepwell")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...driver.options import Options, options_of
from ...driver.setup import Setup
from ...support.errors import OptionError, StepwellWarning
from ...support.warning import warn
from ...training.memory import check_budget

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Settings:
    """The target and the options of graphs.

    Attributes:
        setup: target and options of the compiles.
        freezing: whether parameters and buffers are constants of graphs that are traced without gradients.
        release_weights: whether the memory of weights that are constants is released: they are mapped from files then.
        memory_budget: the most bytes of the values of a training step, or, up to 1, a fraction of what they take if
            none is computed again; None for any.
    """

    setup: Setup
    freezing: bool = False
    release_weights: bool = False
    memory_budget: int | float | None = None

    @staticmethod
    def of(mode: str | None, options: Mapping[str, Any] | None) -> Settings:
        """Reads the arguments of `torch.compile`.

        Args:
            mode: one of PyTorch's modes.
            options: "freezing", "release_weights", "memory_budget", "target", and the fields of `stepwell.Options`.

        Raises:
            OptionError: a mode or an option is unknown, or has a value that is not allowed.

        Warns:
            StepwellWarning: the mode has no meaning for this backend.
        """
        if mode not in (None, *_MODES):
            raise OptionError(f"mode is {mode!r}, and must be one of {', '.join(map(repr, _MODES))}")
        if mode not in (None, "default"):
            text = f"mode={mode!r} has no meaning for the backend stepwell, which compiles as in the default mode"
            warn(f"{text}; options={{'freezing': True}} makes code for constant weights", StepwellWarning)
        given = dict(options or {})
        freezing, is_released = (_flag(given, name) for name in ("freezing", "release_weights"))
        if is_released and not freezing:
            raise OptionError("release_weights needs freezing: without it, code reads the weights in each call")
        target = given.pop("target", "cpu")
        if not isinstance(target, str):
            raise OptionError(f"target is {target!r}, and must be a name")
        budget = given.pop("memory_budget", None)
        check_budget(budget)
        return Settings(Setup.of(target, options_of(given, Options)), freezing, is_released, budget)


def _flag(given: dict[str, Any], name: str) -> bool:
    """Takes an option that is off by default."""
    value = given.pop(name, False)
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}, and must be True or False")
    return value
