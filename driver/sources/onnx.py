"""ONNX files, and `onnx.ModelProto` in memory."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...runtime.program import Shape
from ...support.large_file import LargeFile
from ...support.short_repr import short_repr
from .source import ModelSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.diagnosis import Diagnosis
    from ...frontend.imported import ImportedModel, ModelInfo
    from ...frontend.onnx.reading.model import Model


@short_repr
@dataclass(frozen=True)
class OnnxSource(ModelSource):
    """A model of ONNX; its nodes without native code run on the host, between compiled pieces."""

    kind: ClassVar[str] = "onnx"
    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)

    @classmethod
    def of_object(cls, model: Any) -> OnnxSource | None:
        """Accepts an `onnx.ModelProto`."""
        return cls(model.SerializeToString()) if hasattr(model, "SerializeToString") else None

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from ...frontend.onnx.reading.model import describe_model

        return describe_model(self._parsed)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...frontend.onnx import importer
        from ...frontend.onnx.reading.statistics import with_statistics

        model, continued = with_statistics(self._parsed) if self.keeps_weights else (self._parsed, {})
        imported = importer.import_model(
            model,
            context,
            shapes,
            contents,
            sized=True,
            checked=self.checked,
            counts_elements=self.counts_elements,
            keeps_weights=self.keeps_weights,
        )
        vars(self).pop("_parsed", None)  # as large as the file, and rarely needed again
        return replace(imported, continued=continued)

    def diagnose(self, shapes: Mapping[str, Shape]) -> Diagnosis:
        """See `ModelSource`."""
        from ...frontend.onnx.fallback.diagnosis import diagnose

        return diagnose(self._parsed, shapes)

    @property
    def side_files(self) -> Sequence[Path]:
        """External data: a change of any such file that the model names changes the model."""
        if self.path is None:
            return ()
        beside = sorted(item for item in self.path.parent.glob("*.data") if item.is_file())
        return beside if beside and b"location" in self.data else ()

    @property
    def size(self) -> int:
        """See `ModelSource`."""
        return self._parsed.size

    @functools.cached_property
    def model(self) -> Model:
        """The parsed model with its own functions inlined; cached.

        Raises:
            ModelError: it is damaged.
        """
        from ...frontend.onnx.reading.model import inlined

        return inlined(self._parsed)

    @property
    def has_functions(self) -> bool:
        """True if the model has functions of its own, so that `model` has other nodes than the file."""
        return bool(self._parsed.proto.functions)

    @functools.cached_property
    def _parsed(self) -> Model:
        from ...frontend.onnx.reading.model import read_model

        return read_model(self.path or self.data, leaves_weights=isinstance(self.contents, LargeFile))
