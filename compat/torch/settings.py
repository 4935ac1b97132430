"""The `mode` and `options` of `torch.compile(backend="stepwell")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...driver.options import Options, options_of
from ...driver.setup import Setup
from ...support.errors import OptionError, StepwellWarning
from ...support.warning import warn

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Settings:
    """The target and the options of graphs.

    Attributes:
        setup: target and options of the compiles.
        freezing: whether parameters and buffers are constants of graphs that are traced without gradients.
    """

    setup: Setup
    freezing: bool = False

    @staticmethod
    def of(mode: str | None, options: Mapping[str, Any] | None) -> Settings:
        """Reads the arguments of `torch.compile`.

        Args:
            mode: one of PyTorch's modes.
            options: "freezing", "target", and the fields of `stepwell.Options`.

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
        freezing, target = given.pop("freezing", False), given.pop("target", "cpu")
        if not isinstance(freezing, bool):
            raise OptionError(f"freezing is {freezing!r}, and must be True or False")
        if not isinstance(target, str):
            raise OptionError(f"target is {target!r}, and must be a name")
        return Settings(Setup.of(target, options_of(given, Options)), freezing)
