"""What goes wrong while a model is read: one class, whose message names the model, the node and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..passes.failure import CompileError


class ModelError(CompileError):
    """A model cannot be read.

    Attributes:
        reason: what is wrong and what to do about it, without the place.
        node: the name of the model's node it is about; "" where it is about the whole model.
        op_type: the kind of that node; "" likewise.
        model: the model's name; "" until the importer, which knows it, fills it in.
        position: the index of the node in the model's graph that it is about, or that holds or calls the one that it is
            about; None where it is about the whole model.
    """

    def __init__(self, reason: str, *, node: str = "", op_type: str = "", model: str = "") -> None:
        super().__init__(reason)
        self.reason, self.node, self.op_type, self.model = reason, node, op_type, model
        self.phase = "import"
        self.position: int | None = None

    def at(self, *, node: str = "", op_type: str = "", model: str = "", position: int | None = None) -> ModelError:
        """This error with what is not known of its place yet filled in; the position is that of the outermost node."""
        self.node, self.op_type, self.model = self.node or node, self.op_type or op_type, self.model or model
        self.position = self.position if position is None else position
        return self

    def __str__(self) -> str:
        node = f"node '{self.node}' ({self.op_type})" if self.op_type else self.node
        return ": ".join(part for part in (self.model, node, self.reason) if part)


class NodeError(ModelError):
    """A node does not fit its operands: their shapes, types or contents."""


class AttributeFault(NodeError):
    """An attribute of a node has a value that its operator does not know."""


class UnsupportedError(ModelError):
    """A model is right, but uses what cannot be compiled."""


class NeedsContents(UnsupportedError):
    """A node can only be compiled for known contents: the size of its output, or what it does, depends on them.

    Attributes:
        inputs: the small inputs of the model whose contents, together with the shapes of all, are enough; none where
            the contents are computed from larger ones.
    """

    def __init__(self, reason: str, inputs: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.inputs = tuple(inputs)


class NeedsShapes(ModelError):
    """A model can only be read for known input shapes: its graph depends on them.

    Attributes:
        value: the value in the module that is being made whose contents are not known; None where it is a size.
    """

    def __init__(self, reason: str, value: Any = None) -> None:
        super().__init__(reason)
        self.value = value

    def __str__(self) -> str:
        return f"{super().__str__()}; give the shapes of the inputs"
