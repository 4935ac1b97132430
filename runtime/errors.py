"""The base of all errors and warnings, and those of loading and calling a compiled model."""

from __future__ import annotations


class StepwellError(Exception):
    """Base class of every exception that Stepwell raises."""


class StepwellWarning(UserWarning):
    """Base class of every warning that Stepwell issues."""


class OptionError(StepwellError, ValueError):
    """An option has no such name, or a value of the wrong type or range; the message names those that are allowed."""


class RuntimeFailure(StepwellError):
    """Base class of everything that the runtime refuses to do; the message says what was expected and what came."""


class ArtefactError(RuntimeFailure):
    """An artefact is damaged, of an unknown schema, or made for another machine."""


class InputError(RuntimeFailure, ValueError):
    """A call's inputs are not what the model takes."""


class ShapeError(InputError):
    """The inputs' shapes are not among those compiled, and no compiler is at hand."""


class GuardError(RuntimeFailure):
    """The inputs' contents chose a branch of the model that cannot work on their shapes."""


class DataError(GuardError, ValueError):
    """Data that a node has no answer to: an index outside of its dimension, or an integer divided by zero.

    Attributes:
        node: the node's name.
        op_type: its operator.
        index: the first such index; None if it is not known, or for a division.
        extent: the extent of the dimension that it counts in; likewise.
    """

    def __init__(
        self, message: str, node: str = "", op_type: str = "", index: int | None = None, extent: int | None = None
    ) -> None:
        """Takes the message and what it is about."""
        super().__init__(message)
        self.node, self.op_type, self.index, self.extent = node, op_type, index, extent


class CapacityError(RuntimeFailure):
    """There is not as much memory as a program needs."""


class NativeCodeError(RuntimeFailure):
    """Objects cannot be put into this process; the message is the linker's."""
