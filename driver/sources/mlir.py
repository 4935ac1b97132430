"""MLIR files and modules, of any phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...runtime.program import Shape, TensorInfo
from ...support.short_repr import short_repr
from .source import ModelSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.imported import ImportedModel, ModelInfo

_BEGINNINGS = (b"module", b"func.func", b"//", b"#", b"ML\xefR", b"builtin.module", b"!")


@short_repr
@dataclass(frozen=True)
class MlirSource(ModelSource):
    """A module, with its parameters in a file beside it."""

    kind: ClassVar[str] = "mlir"
    suffixes: ClassVar[tuple[str, ...]] = (".mlir", ".mlirbc")

    @classmethod
    def recognises(cls, data: bytes) -> bool:
        """See `ModelSource`."""
        return data.lstrip()[:64].startswith(_BEGINNINGS)

    @classmethod
    def of_object(cls, model: Any) -> MlirSource | None:
        """Accepts a module of MLIR's bindings."""
        return cls(model.operation.get_asm(enable_debug_info=True).encode()) if hasattr(model, "operation") else None

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from ...frontend import mlir_text

        return mlir_text.describe_model(self.path or self.data)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...frontend import mlir_text

        return mlir_text.import_model(self.path or self.data, context, shapes)

    @property
    def side_files(self) -> Sequence[Path]:
        """The parameters of a dump."""
        beside = [] if self.path is None else [self.path.with_name("parameters.safetensors")]
        return [path for path in beside if path.is_file()]

    def declared_ranges(self, inputs: Sequence[TensorInfo]) -> Mapping[str, int | tuple[int, ...]]:
        """See `ModelSource`."""
        if all(info.is_static for info in inputs):
            return {}
        from ...frontend import mlir_text

        return mlir_text.declared_ranges(self.path or self.data)
