"""Programs that PyTorch exported, in memory and in `.pt2` files."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...runtime.cache.keys import key_of
from ...runtime.program import Shape, TensorInfo
from ...support.large_file import LargeFile
from ...support.packages import require_package
from ...support.short_repr import short_repr
from .source import ModelSource

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ...frontend.diagnosis import Diagnosis
    from ...frontend.imported import ImportedModel, ModelInfo
    from ...frontend.torch.live import LiveProgram


@short_repr
@dataclass(frozen=True)
class TorchSource(ModelSource):
    """An exported program.

    Attributes:
        program: the program, if it was given in memory.
    """

    kind: ClassVar[str] = "torch"
    suffixes: ClassVar[tuple[str, ...]] = (".pt2",)

    contents: bytes | LargeFile = b""
    program: LiveProgram | None = None

    @classmethod
    def of_object(cls, model: Any) -> TorchSource | None:
        """Accepts a program, and what `export` accepts without example arguments."""
        return cls(program=model) if hasattr(model, "exported") else cls.export(model)

    @classmethod
    def export(
        cls,
        model: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        dynamic_shapes: Any = None,
    ) -> TorchSource | None:
        """Exports a module, or takes an `ExportedProgram`; None for anything else, without importing torch.

        Raises:
            ModelError: the module cannot be exported.
        """
        if "torch" not in sys.modules:
            return None
        from ...frontend.torch.program import is_program

        if not is_program(model):
            return None
        from ...frontend.torch.live import LiveProgram

        return cls(program=LiveProgram.of(model, args, kwargs, dynamic_shapes))

    @functools.cached_property
    def exported(self) -> LiveProgram:
        """The program; cached.

        Raises:
            ModelError: the file is damaged.
            MissingPackageError: PyTorch is not installed.
        """
        if self.program is not None:
            return self.program
        require_package("torch", self.name, "torch")
        from ...frontend.torch.live import LiveProgram

        return LiveProgram.read(self.data, self.name)

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        return self.exported.info

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        return self.exported.import_into(context, shapes, self.counts_elements, self.keeps_weights)

    def diagnose(self, shapes: Mapping[str, Shape]) -> Diagnosis:
        """See `ModelSource`; PyTorch runs the ops that are found."""
        return self.exported.diagnose(shapes, self.counts_elements)

    @property
    def name(self) -> str:
        """See `ModelSource`."""
        return super().name if self.program is None else self.program.name

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of the program and of PyTorch's rules, by which its ops are decomposed."""
        require_package("torch", self.name, "torch")
        rules = f"torch {importlib.metadata.version('torch')}"
        return key_of(rules, self.contents if self.program is None else self.program.fingerprint)

    @property
    def size(self) -> int:
        """See `ModelSource`."""
        return super().size if self.program is None else self.program.size

    @property
    def is_whole(self) -> bool:
        """See `ModelSource`; a program in memory has no bytes."""
        return self.program is None

    def declared_ranges(self, inputs: Sequence[TensorInfo]) -> Mapping[str, int | tuple[int, ...]]:
        """See `ModelSource`; nothing if a size has no maximum."""
        ranges = {} if self.program is None else self.program.interface.ranges
        bounded = {name: (max(low, 1), high) for name, (low, high) in ranges.items() if high is not None}
        return bounded if len(bounded) == len(ranges) else {}
