"""Base classes of all errors and warnings, and the errors of loading and calling a compiled model."""

from __future__ import annotations


class StepwellError(Exception):
    """Base class of every exception that Stepwell raises."""


class StepwellWarning(UserWarning):
    """Base class of every warning that Stepwell issues."""


class SlowWarning(StepwellWarning):
    """A model runs or compiles slower than it could on this machine, for a known reason."""


class OptionError(StepwellError, ValueError):
    """An option has an unknown name, or a value of the wrong type or range; the message lists the allowed ones."""


class RuntimeFailure(StepwellError):
    """Base class of the runtime's errors; the message says what was expected and what was given."""


class ArtefactError(RuntimeFailure):
    """An artefact is damaged, of an unknown schema, or built for another machine."""


class InputError(RuntimeFailure, ValueError):
    """A call's inputs do not match the model's inputs."""


class ShapeError(InputError):
    """The inputs' shapes are not among those compiled, and no compiler is available."""


class GuardError(RuntimeFailure):
    """The inputs' contents selected a branch of the model that does not support their shapes."""


class DataError(GuardError, ValueError):
    """A node received data for which it is undefined: an index outside of its dimension, or a zero divisor.

    Attributes:
        node: the node's name.
        op_type: its operator.
        index: the first invalid index; None if it is unknown, or for a division.
        extent: the extent of the indexed dimension; None in the same cases.
    """

    def __init__(
        self, message: str, node: str = "", op_type: str = "", index: int | None = None, extent: int | None = None
    ) -> None:
        """Stores the message and its details."""
        super().__init__(message)
        self.node, self.op_type, self.index, self.extent = node, op_type, index, extent


class CapacityError(RuntimeFailure):
    """A program needs more memory than is available."""


class NativeCodeError(RuntimeFailure):
    """Objects cannot be loaded into this process; the message is the linker's."""
