"""Decoders in GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...runtime.program import Shape
from ...support.short_repr import short_repr
from .source import ModelSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.imported import ImportedModel, ModelInfo


@short_repr
@dataclass(frozen=True)
class GgufSource(ModelSource):
    """A decoder in a GGUF file."""

    kind: ClassVar[str] = "gguf"
    suffixes: ClassVar[tuple[str, ...]] = (".gguf",)

    @classmethod
    def recognises(cls, data: bytes) -> bool:
        """See `ModelSource`."""
        return data.startswith(b"GGUF")

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from ...frontend.gguf import importer

        return importer.describe_model(self.path or self.data, self.name)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...frontend.gguf import importer

        return importer.import_model(self.path or self.data, self.name, context, shapes)
