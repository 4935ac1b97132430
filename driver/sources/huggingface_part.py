"""Parts of models in folders of Hugging Face, such as the encoder of an encoder-decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...runtime.cache.keys import key_of
from ...runtime.program import Shape
from ...support.short_repr import short_repr
from .folder import FolderSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir
    from typing_extensions import Self

    from ...frontend.imported import ImportedModel, ModelInfo


@short_repr
@dataclass(frozen=True)
class HuggingFacePartSource(FolderSource):
    """A part of the model in a folder with `config.json`, which is its contents, and weights in safetensors.

    Attributes:
        part: the name of the part.
    """

    kind: ClassVar[str] = "huggingface-part"

    part: str = ""

    @classmethod
    def of(cls, folder: Path, part: str) -> Self:
        """Returns the source of a part.

        Raises:
            OSError: the folder cannot be read.
        """
        return cls((folder / "config.json").read_bytes(), folder, part=part)

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from ...frontend.huggingface.parts import importer

        return importer.describe_part(self.folder, self.part)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...frontend.huggingface.parts import importer

        return importer.import_part(self.folder, self.part, context, shapes)

    @property
    def fingerprint(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `ModelSource`."""
        return key_of(self.kind, self.part, super().fingerprint)
