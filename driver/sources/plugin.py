"""Models whose formats other packages import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.program import Shape
from ...support.short_repr import short_repr
from .source import ModelSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.imported import ImportedModel, ModelInfo


@short_repr
@dataclass(frozen=True)
class PluginSource(ModelSource):
    """A model that a registered frontend imports.

    Attributes:
        frontend: the name of the frontend, and of the format.
    """

    frontend: str = ""

    @property
    def kind(self) -> str:  # type: ignore[override]  # that of an instance
        """The name of the format."""
        return self.frontend

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from mlir import ir

        return self._imported(ir.Context()).info

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        return self._imported(context)

    def _imported(self, context: ir.Context) -> ImportedModel:
        from ...frontend.registry import import_by

        return import_by(self.frontend, self.data, self.name, context)
