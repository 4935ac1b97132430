"""The base class of passes, and the registry that finds a pass by its name.

    @register
    @dataclass(frozen=True)
    class FoldConstantsPass(Pass):
        \"\"\"Evaluate ops whose operands are constants.

        Before and after IR, preconditions.
        \"\"\"

        name = "stepwell-fold-constants"
        max_elements: int = 1024

        def run(self, op: ir.Operation, state: CompileState) -> None: ...

The docstring is the help text, the fields are the options (`max_elements` is spelt `max-elements` in text).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from mlir import ir

from .failure import CompileError
from .state import CompileState


class PassError(CompileError):
    """A pass cannot do its work; the message gives the reason, and `location` the position in the IR."""

    def __init__(self, message: str, location: ir.Location | None = None) -> None:
        super().__init__(message)
        self.location = location


@dataclass(frozen=True)
class Pass:
    """Base class of the passes written in Python.

    Attributes:
        name: kebab-case name in textual pipelines.
        anchor: op that the pass runs on, `builtin.module` or `func.func`.
    """

    name: ClassVar[str]
    anchor: ClassVar[str] = "builtin.module"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Transforms `op` in place.

        Args:
            op: the op that the pass is anchored on.
            state: parameters, remarks and other data of the compile.

        Raises:
            PassError: the pass cannot do its work.
        """
        raise NotImplementedError(self.name)


P = TypeVar("P", bound=type[Pass])

_REGISTRY: dict[str, type[Pass]] = {}


def register(cls: P) -> P:
    """Registers a pass under its name.

    Raises:
        ValueError: another pass already has this name.
    """
    if _REGISTRY.setdefault(cls.name, cls) is not cls:
        raise ValueError(f"two passes are called '{cls.name}': {_REGISTRY[cls.name]} and {cls}")
    return cls


def registry() -> dict[str, type[Pass]]:
    """Every registered pass by name."""
    return dict(sorted(_REGISTRY.items()))
