"""Errors of reading a model: the message names the model, the node and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..dialects.core import OpError
from ..passes.infra.failure import CompileError, Failure, ModelOp
from ..runtime.host.fallback import Fallback


class ModelError(CompileError):
    """A model cannot be read.

    Attributes:
        reason: the error and its remedy, without its location.
        node: name of the model's node that the error is about; "" if it is about the whole model.
        op_type: operator of that node; "" if the error is about the whole model.
        model: the model's name; "" until the importer fills it in.
        position: index, in the model's graph, of the node that the error is about, or that contains or calls the node
            it is about; None if it is about the whole model.
    """

    def __init__(self, reason: str, *, node: str = "", op_type: str = "", model: str = "") -> None:
        super().__init__(reason)
        self.reason, self.node, self.op_type, self.model = reason, node, op_type, model
        self.phase = "import"
        self.position: int | None = None

    def at(self, *, node: str = "", op_type: str = "", model: str = "", position: int | None = None) -> ModelError:
        """Fills in unknown parts of this error's location; the position is that of the outermost node."""
        self.node, self.op_type, self.model = self.node or node, self.op_type or op_type, self.model or model
        self.position = self.position if position is None else position
        return self

    def __str__(self) -> str:
        node = f"node '{self.node}' ({self.op_type})" if self.op_type else self.node
        return ": ".join(part for part in (self.model, node, self.reason) if part)


@contextmanager
def naming(model: str, misfit: str = "has tensors that do not fit together") -> Iterator[None]:
    """Names a model in errors while it is imported.

    Args:
        model: its name.
        misfit: the beginning of the message if an op does not accept its operands.
    """
    try:
        yield
    except OpError as error:
        raise ModelError(f"{misfit}: {error}", model=model) from error
    except ModelError as error:
        raise error.at(model=model) from error.__cause__


class NodeError(ModelError):
    """A node does not match the shapes, types or contents of its operands."""


class AttributeFault(NodeError):
    """An attribute of a node has a value that its operator does not define."""


class UnsupportedError(ModelError):
    """A model is valid, but uses a feature that cannot be compiled."""

    @staticmethod
    def of_nodes(reason: str, found: Sequence[Fallback], *, model: str, target: str = "") -> UnsupportedError:
        """Creates the error that nodes without native code may not run elsewhere; `failure` names all of them."""
        error = UnsupportedError(f"{reason}: {'; '.join(map(str, found))}", model=model)
        ops = tuple(ModelOp(item.node, item.op_type) for item in found)
        first = next((item for item in found if item.phase), found[0])
        folder = Path(first.reproducer) if first.reproducer else None
        phase = first.phase or error.phase
        error.failure = Failure(error.reason, phase, first.pass_name, ops, target=target, reproducer=folder)
        return error


class NeedsContents(UnsupportedError):
    """A node can only be compiled for known contents: the size of its output, or its function, depends on them.

    Attributes:
        inputs: small inputs of the model whose contents, together with the shapes of all inputs, are enough; empty if
            the contents are computed from larger inputs.
    """

    def __init__(self, reason: str, inputs: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.inputs = tuple(inputs)


class NeedsPieces(UnsupportedError):
    """A program can be compiled, but only in pieces."""


class SizedByData(UnsupportedError):
    """A node reads a value whose size depends on data: it can only be compiled apart from the one that computes it.

    Attributes:
        value: the value's name in the graph of the node.
    """

    def __init__(self, reason: str, value: str) -> None:
        super().__init__(reason)
        self.value = value


class NeedsShapes(ModelError):
    """A model can only be read for known input shapes: its graph depends on them.

    Attributes:
        value: the value in the module under construction whose contents are not known; None if a size is not known.
    """

    def __init__(self, reason: str, value: Any = None) -> None:
        super().__init__(reason)
        self.value = value

    def __str__(self) -> str:
        return f"{super().__str__()}; give the shapes of the inputs"
