"""Reads GGUF files: settings by name, and tensors whose data stays in the file until it is used.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from ...support.packages import require_package
from ...support.short_repr import short_repr
from ..errors import ModelError
from .blocks import BlockWeight, is_block_format, read_blocks

T = TypeVar("T")

_FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
"""Types of floats by their names in GGUF."""

_LARGEST_SIZE = 1 << 40
"""Maximum size of a dimension: a choice beyond all models, above which a file is damaged."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file.

    Attributes:
        name: its name.
        kind: the name of its type, such as "Q4_0" or "F16".
        shape: its dimensions, the last one contiguous.
        data: numbers of the shape for types of floats; for others the bytes of the blocks, [.., bytes per row], or the
            weight in blocks.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    data: np.ndarray | BlockWeight

    @property
    def is_in_blocks(self) -> bool:
        """True if numbers of few bits have a scale per block."""
        return isinstance(self.data, BlockWeight) or is_block_format(self.kind)

    def floats(self) -> np.ndarray:
        """Returns the numbers of a tensor of floats, in the type of the file.

        Raises:
            ModelError: it is of another type.
        """
        if self.kind not in _FLOATS or isinstance(self.data, BlockWeight):
            raise ModelError(f"the tensor '{self.name}' has the type {self.kind}, which is not supported")
        return np.ascontiguousarray(self.data).view(_FLOATS[self.kind]).reshape(self.shape)

    def blocks(self) -> BlockWeight:
        """Reads the weight in blocks."""
        return self.data if isinstance(self.data, BlockWeight) else read_blocks(self.kind, self.data)


@short_repr
@dataclass(frozen=True)
class GgufFile:
    """The contents of a file.

    Attributes:
        settings: numbers, strings and lists by name.
        tensors: the tensors by name.
    """

    settings: dict[str, Any]
    tensors: dict[str, StoredTensor]

    def setting(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Returns a setting.

        Raises:
            ModelError: it is missing and has no default, or is of another type.
        """
        value: Any = self.settings.get(name, default)
        if value is None:
            raise ModelError(f"lacks the setting '{name}'")
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ModelError(f"the setting '{name}' is {value!r}, and must be of type {kind.__name__}")
        return value

    def tensor(self, name: str) -> StoredTensor:
        """Returns a tensor.

        Raises:
            ModelError: there is none of this name.
        """
        if name not in self.tensors:
            raise ModelError(f"lacks the tensor '{name}'")
        return self.tensors[name]


def read_gguf(path: Path) -> GgufFile:
    """Reads a file, which stays mapped.

    Raises:
        ModelError: it is damaged.
        MissingPackageError: the package `gguf` is not installed.
    """
    require_package("gguf", path.name, "gguf")
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        settings = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {item.name: _stored(item) for item in reader.tensors}
    except OSError as error:
        raise ModelError(error.strerror or str(error)) from error
    except Exception as error:  # the reader fails in many ways on damaged files
        raise ModelError(f"is not a valid GGUF file: {type(error).__name__}: {error}") from error
    return GgufFile(settings, tensors)


def _stored(item: Any) -> StoredTensor:
    shape = tuple(int(size) for size in reversed(item.shape))
    if not all(0 < size <= _LARGEST_SIZE for size in shape):
        raise ValueError(f"tensor '{item.name}' has the shape {list(shape)}")
    return StoredTensor(item.name, item.tensor_type.name, shape, item.data)
