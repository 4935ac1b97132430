"""Decoders in ONNX files with their settings, imported as the step of a decoder."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...runtime.program import Shape
from ...support.large_file import LargeFile
from ...support.short_repr import short_repr
from .source import ModelSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir
    from typing_extensions import Self

    from ...frontend.imported import ImportedModel, ModelInfo
    from ...frontend.onnx.decoders.folder import DecoderFolder
    from ...frontend.onnx.reading.model import Model


@short_repr
@dataclass(frozen=True)
class OnnxDecoderSource(ModelSource):
    """The file of a decoder, in the form of ONNX Runtime GenAI or of optimum; its settings are beside it."""

    kind: ClassVar[str] = "onnx-decoder"

    @classmethod
    def at(cls, path: Path) -> Self:
        """Returns the source of a folder, or of the file of a decoder in it.

        Raises:
            ModelError: the folder lacks the decoder.
            OSError: it cannot be read.
        """
        from ...frontend.onnx.decoders.folder import decoder_file

        file = decoder_file(path) if path.is_dir() else path
        return cls(LargeFile.at(file), file)

    @property
    def file(self) -> Path:
        """The file."""
        assert self.path is not None, "a decoder is given by its path"
        return self.path

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from ...frontend.onnx.decoders.importer import describe_decoder

        return describe_decoder(self._parsed, self._folder.names)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...frontend.onnx.decoders.importer import import_decoder
        from ...passes.graph.pipelines import CLEAN_UP, COMPOSITES
        from ...passes.infra.pipeline import Pipeline
        from ...passes.infra.state import CompileState
        from ...targets.registry import target_of

        imported = import_decoder(self._parsed, self._folder.names, context, shapes)
        vars(self).pop("_parsed", None)  # as large as the file, and rarely needed again
        # Caches are recognised by the attention that reads them, which exporters write as products.
        state = CompileState(imported.parameters, self.target, target_of(self.target).machine)
        Pipeline((*COMPOSITES, *CLEAN_UP)).run(imported.module, state=state)
        return imported

    @property
    def side_files(self) -> Sequence[Path]:
        """The settings, and external data."""
        from ...frontend.onnx.decoders.folder import settings_files

        beside = sorted(item for item in self.file.parent.glob(f"{self.file.name}*") if item != self.file)
        return [*settings_files(self.file), *beside]

    @functools.cached_property
    def _folder(self) -> DecoderFolder:
        from ...frontend.onnx.decoders.folder import read_decoder_folder

        return read_decoder_folder(self.file)

    @functools.cached_property
    def _parsed(self) -> Model:
        from ...frontend.onnx.reading.model import read_model

        return read_model(self.file, leaves_weights=True)
