"""What goes wrong while a model is read: one class, whose message names the model, the node and what to do."""

from __future__ import annotations


class ModelError(Exception):
    """A model cannot be read.

    Attributes:
        reason: what is wrong and what to do about it, without the place.
        node: the name of the model's node it is about; "" where it is about the whole model.
        op_type: the kind of that node; "" likewise.
        model: the model's name; "" until the importer, which knows it, fills it in.
    """

    def __init__(self, reason: str, *, node: str = "", op_type: str = "", model: str = "") -> None:
        super().__init__(reason)
        self.reason, self.node, self.op_type, self.model = reason, node, op_type, model

    def at(self, *, node: str = "", op_type: str = "", model: str = "") -> ModelError:
        """This error with what is not known of its place yet filled in."""
        self.node, self.op_type, self.model = self.node or node, self.op_type or op_type, self.model or model
        return self

    def __str__(self) -> str:
        node = f"node '{self.node}' ({self.op_type})" if self.op_type else self.node
        return ": ".join(part for part in (self.model, node, self.reason) if part)


class NodeError(ModelError):
    """A node does not fit its operands: their shapes, types or contents."""


class UnsupportedError(ModelError):
    """A model is right, but uses what cannot be compiled."""


class NeedsShapes(ModelError):
    """A model can only be read for known input shapes: its graph depends on them."""

    def __str__(self) -> str:
        return f"{super().__str__()}; give the shapes of the inputs"
