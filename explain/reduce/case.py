"""The case that is reduced: a model, and the inputs of a trial that belong to it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...support.errors import StepwellError


class ReduceError(StepwellError):
    """Raised if a reduction cannot start; the message says why."""


@dataclass(frozen=True)
class Case:
    """A model that may fail.

    Attributes:
        kind: "onnx" or "mlir", also the suffix of its files.
        data: the bytes of the file.
        pipeline: the passes to run on MLIR; "" to compile it.
        shapes: shapes of the inputs that have no fixed one.
    """

    kind: str
    data: bytes
    pipeline: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of MLIR."""
        return self.data.decode()

    @property
    def digest(self) -> str:
        """A digest that identifies this case."""
        shapes = repr(sorted(self.shapes.items()))
        return hashlib.sha256(b"\0".join((self.data, self.pipeline.encode(), shapes.encode()))).hexdigest()[:20]
