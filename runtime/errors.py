"""What can go wrong when something compiled is loaded or called."""

from __future__ import annotations


class RuntimeFailure(Exception):
    """Base of everything that the runtime refuses to do; the message says what was expected and what came."""


class ArtefactError(RuntimeFailure):
    """An artefact is damaged, of an unknown schema, or made for another machine."""


class InputError(RuntimeFailure, ValueError):
    """A call's inputs are not what the model takes."""


class ShapeError(InputError):
    """The inputs' shapes are not among those compiled, and no compiler is at hand."""


class GuardError(RuntimeFailure):
    """The inputs' contents chose a branch of the model that cannot work on their shapes."""


class CapacityError(RuntimeFailure):
    """There is not as much memory as a program needs."""


class NativeCodeError(RuntimeFailure):
    """Objects cannot be put into this process; the message is the linker's."""
