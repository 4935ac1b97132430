"""Decoders in folders of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...runtime.program import Shape
from ...support.short_repr import short_repr
from .folder import FolderSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.imported import ImportedModel, ModelInfo


@short_repr
@dataclass(frozen=True)
class HuggingFaceSource(FolderSource):
    """A folder with `config.json`, which is its contents, and weights in safetensors."""

    kind: ClassVar[str] = "huggingface"

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from ...frontend.huggingface import importer

        return importer.describe_model(self.folder)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...frontend.huggingface import importer

        return importer.import_model(self.folder, context, shapes)
