"""The import that a node belongs to, as handlers of operators see it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import onnx
from mlir import ir

from ...counts import Counts
from .scope import Scope

Checked = bool | Literal["inputs"]
"""The indices and divisors to check: all (True), none (False), or those that come straight from an input."""


class ImportContext(Protocol):
    """The state of one import, shared by all of its handlers; see `Importer`."""

    checked: Checked
    parameters: dict[str, np.ndarray]
    counts: Counts
    keeps_weights: bool
    choices: int
    appends_caches: bool
    """True if caches of keys and values grow at their end, as texts of a batch end at the same position."""

    @property
    def folder(self) -> Path | None:
        """The folder of the model's external data; None if there is none."""
        ...

    @property
    def is_specialized(self) -> bool:
        """True if the shape of every input is known."""
        ...

    @property
    def is_static(self) -> bool:
        """True if the model itself declares the shape of every input."""
        ...

    def input_name(self, argument: ir.BlockArgument) -> str | None:
        """Returns the name of the input for an argument of @main; None for an argument of an inner block."""
        ...

    def may_require_contents(self, value: ir.Value) -> bool:
        """Returns whether a compile may be given the contents that determine a value; in ranges, none are given."""
        ...

    def weight(self, name: str, array: np.ndarray) -> ir.Value:
        """Creates a stored tensor: a literal if it is small, else a parameter."""
        ...

    def graph(
        self,
        graph: onnx.GraphProto,
        scope: Scope,
        weights: Iterable[onnx.TensorProto] | None = None,
        reduced: Collection[int] = (),
    ) -> list[ir.Value]:
        """Imports a graph at the insertion point, with the names in `scope`; returns its outputs."""
        ...

    def inline(self, graph: onnx.GraphProto, scope: Scope, reduced: Collection[int] = ()) -> list[ir.Value]:
        """Imports an inner graph in place of its node; only reductions read the outputs in `reduced`."""
        ...

    def nodes(self, nodes: Iterable[tuple[int, onnx.NodeProto]], scope: Scope) -> None:
        """Imports nodes, given with their indices, in order."""
        ...
