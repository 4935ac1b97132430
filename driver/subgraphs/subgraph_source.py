"""The source of a subgraph, which is compiled as a separate model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...runtime.cache.keys import key_of
from ...runtime.hybrid.plan import Kinds, NativeStep
from ...runtime.program import Shape
from ...support.short_repr import short_repr

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.imported import ImportedModel
    from ...frontend.onnx.reading.model import Model
    from ..sources.onnx import OnnxSource


@short_repr
@dataclass(frozen=True)
class SubgraphSource:
    """A subgraph of a model.

    Attributes:
        whole: the model, or the larger subgraph, that it was cut from.
        step: the step of the hybrid plan that runs it.
        kinds: the element types of its inputs.
        decided: returns the values that have only one content for one set of input shapes.
    """

    whole: OnnxSource | SubgraphSource
    step: NativeStep
    kinds: Kinds
    decided: Callable[[], set[str]]

    @property
    def checked(self) -> bool | Literal["inputs"]:
        """The checks of data, as in `Options.checked`."""
        return self.whole.checked

    @property
    def counts_elements(self) -> bool:
        """True if the target has code for ops whose number of results depends on data."""
        return self.whole.counts_elements

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest that identifies this subgraph."""
        step = self.step
        return key_of(self.whole.fingerprint, repr((step.nodes, step.body, step.inputs, step.outputs)))

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return self.whole.name

    @property
    def size(self) -> int:
        """Approximate number of ops, including weights."""
        return self.model.size

    @functools.cached_property
    def model(self) -> Model:
        """The subgraph as a complete model."""
        from ...frontend.onnx.fallback import bodies, partition

        kinds = dict(zip(self.step.inputs, self.kinds, strict=True))
        if self.step.body is not None:
            return bodies.body_of(self.whole.model, self.step, kinds)
        cut = partition.Subgraph(self.step.nodes, self.step.inputs, self.step.outputs)
        return partition.model_of(self.whole.model, cut, kinds)

    def import_into(
        self,
        context: ir.Context,
        shapes: Mapping[str, Shape],
        contents: Mapping[str, np.ndarray],
    ) -> ImportedModel:
        """Imports the subgraph as a module of the `import` phase."""
        from ...frontend.onnx import importer

        options: Any = {"sized": True, "checked": self.checked, "counts_elements": self.counts_elements}
        return importer.import_model(self.model, context, shapes, contents, **options)
