"""What is being reduced: a model, and what belongs to it in a trial."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...runtime.errors import StepwellError


class ReduceError(StepwellError):
    """A reduction cannot start; the message says why."""


@dataclass(frozen=True)
class Case:
    """A model that may fail.

    Attributes:
        kind: "onnx" or "mlir", also the suffix of its files.
        data: the bytes of the file.
        pipeline: the passes to run on MLIR; "" where it is compiled.
        shapes: of inputs of the model that have no fixed one.
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
        """Tells this case from every other."""
        shapes = repr(sorted(self.shapes.items()))
        return hashlib.sha256(b"\0".join((self.data, self.pipeline.encode(), shapes.encode()))).hexdigest()[:20]
