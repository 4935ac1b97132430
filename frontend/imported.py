"""Result of an import: a module of stepwell ops with its parameters, whatever the format of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from ..dialects.types import NATIVE_DTYPES
from ..support.short_repr import short_repr


@short_repr
@dataclass(frozen=True)
class ValueInfo:
    """An input or output of a model, as the file declares it.

    Attributes:
        name: its name.
        dtype: the numpy element type; `object` for strings and for values that are not tensors.
        dims: a number, or the name of a symbol, for each dimension; None if not even the rank is declared.
        kind: "tensor", another type ("seq(float32)", "optional(int64)", ...), or "" if no type is declared.
    """

    name: str
    dtype: np.dtype
    dims: tuple[int | str, ...] | None
    kind: str = "tensor"

    @property
    def is_native(self) -> bool:
        """Returns whether it is a tensor that code can be compiled for."""
        return self.kind == "tensor" and self.dtype in NATIVE_DTYPES


@short_repr
@dataclass(frozen=True)
class ModelInfo:
    """The inputs and outputs of a model, in order."""

    name: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]

    @property
    def is_static(self) -> bool:
        """Returns whether the shape of every input is declared in numbers."""
        return all(info.dims is not None and all(isinstance(dim, int) for dim in info.dims) for info in self.inputs)


@short_repr
@dataclass(frozen=True)
class ImportedModel:
    """A model after the import.

    Attributes:
        module: `func.func @main` of stepwell ops; see `import_model`.
        parameters: the weights that its `stepwell.parameter` ops name, read-only.
        name: the model's name in messages.
        info: the inputs and outputs that the file declares.
        nodes: every node that was imported, in order.
        values: the values of the model's graph by name, except those that nothing reads.
        continued: the parameters that further outputs continue from one training step to the next, by their names.
    """

    module: ir.Module
    parameters: dict[str, np.ndarray]
    name: str
    info: ModelInfo
    nodes: Sequence[ImportedNode] = ()
    values: Mapping[str, ir.Value] = field(default_factory=dict)
    continued: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedNode:
    """An imported node.

    Attributes:
        name: its name.
        op_type: its operator.
        inputs: the types of its inputs, except omitted ones.
        outputs: the types of its outputs, as far as they are known after the import.
        is_constant: whether all of its outputs are constants.
    """

    name: str
    op_type: str
    inputs: tuple[ir.Type, ...]
    outputs: tuple[ir.Type, ...]
    is_constant: bool
