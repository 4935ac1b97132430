"""A node of a graph as handlers receive it: its place in the module, and what torch knows about its results."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from mlir import ir
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg

from ...runtime.host.fallback import Fallback
from ..build import rank
from .context import ProgramContext
from .symbols import AtenSize, Symbols, extents
from .tensors import part_dtype

_FRAME = re.compile(r'File "([^"]*)", line (\d+), in ')
READS = frozenset({"aten._local_scalar_dense.default", "aten.item.default"})
"""Ops whose result is a number that depends on the contents of a tensor."""

_OWN_FILES = re.compile(r"(^|/)torch/(nn|fx|_|utils|export)")


class AtenNode:
    """One op of a graph.

    Attributes:
        fx: the node of torch's graph.
        name: path of its module in the model, and its name in the graph.
        overload: the op's overload, such as "aten.add.Tensor".
        importer: the current import.
    """

    def __init__(self, fx: torch.fx.Node, importer: ProgramContext) -> None:
        self.fx, self.importer = fx, importer
        self.name = name_of(fx)
        self.overload = overload_of(fx.target)

    @property
    def symbols(self) -> Symbols:
        """The values of symbolic sizes."""
        return self.importer.symbols

    @property
    def results(self) -> tuple[Any, ...]:
        """Knowledge of torch about each result: a tensor without contents, a number, or None."""
        value = self.fx.meta["val"]
        return tuple(value) if isinstance(value, tuple | list) else (value,)

    def dtype(self, index: int = 0) -> np.dtype:
        """Returns the element type of a result; of complex numbers that of their parts."""
        return part_dtype(self.results[index].dtype)

    def sizes(self, index: int = 0) -> list[AtenSize]:
        """Returns the shape of a result."""
        return self.symbols.sizes(self.results[index].shape)

    def shape(self, index: int = 0) -> ir.Value:
        """Returns the shape of a result as a list of i64."""
        return extents(self.sizes(index))

    def argument(self, name: str) -> Any:
        """Returns what torch knows about an argument: tensors without contents, and numbers."""
        return map_arg(arguments_of(self.fx)[name], lambda node: node.meta["val"])

    def promoted(self, *names: str) -> np.dtype:
        """Returns the element type to which torch converts these arguments before it combines them."""
        values = [plain_number(self.argument(name)) for name in names]
        if len(values) == 1:
            return part_dtype(values[0].dtype)
        return part_dtype(torch.result_type(*values))

    def is_used(self, index: int) -> bool:
        """Returns whether a result of several is read."""
        reads = (user for user in self.fx.users if overload_of(user.target) == "getitem")
        return any(user.args[1] == index and user.users for user in reads)


def plain_number(value: Any) -> Any:
    """Returns any number of the same kind for a symbolic one; other values are returned unchanged."""
    kinds = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
    return kinds.get(type(value), value)


def overload_of(target: Any) -> str:
    """Returns the name of a node's target: an overload, or a function of Python."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", None) or str(target)


def arguments_of(fx: torch.fx.Node) -> dict[str, Any]:
    """Returns all arguments of a node by the names of its op's schema, omitted ones with their defaults."""
    schema = cast(Any, fx.target)._schema
    found = {}
    for index, declared in enumerate(schema.arguments):
        if not declared.kwarg_only and index < len(fx.args):
            found[declared.name] = fx.args[index]
        elif declared.name in fx.kwargs:
            found[declared.name] = fx.kwargs[declared.name]
        else:
            found[declared.name] = declared.default_value
    return found


def name_of(fx: torch.fx.Node) -> str:
    """Returns the path of a node's module in the model, and the node's name."""
    # A node of a backward graph has the module of the forward node.
    stack = list((fx.meta.get("nn_module_stack") or fx.meta.get("fwd_nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    path = re.sub(r"^[LG]\['(\w+)'\]", r"\1", path)  # Dynamo's name of a variable
    path = re.sub(r"^(self|fn)(\.|$)", "", path)  # the model itself
    return f"{path}.{fx.name}" if path and not path.startswith("_empty_nn_module_stack") else fx.name


def fallback_of(node: torch.fx.Node, reason: str, kind: str = "operator") -> Fallback:
    """Describes an op that torch runs."""
    taken = (item.meta.get("val") for item in node.all_input_nodes)
    values = [value for value in taken if isinstance(value, torch.Tensor)]
    line = line_of(node)
    return Fallback(
        name_of(node),
        overload_of(node.target),
        reason=reason,
        kind=kind,
        dtypes=tuple(str(value.dtype).removeprefix("torch.") for value in values),
        shapes=tuple(tuple(size if isinstance(size, int) else str(size) for size in value.shape) for value in values),
        line="" if line is None else f"{line[0]}:{line[1]}",
    )


def is_complex(fx: torch.fx.Node) -> bool:
    """Returns whether an operand or a result of a node is a tensor of complex numbers."""
    known = (fx.meta.get("val"), *(item.meta.get("val") for item in fx.all_input_nodes))
    values = (item for value in known for item in (value if isinstance(value, tuple | list) else (value,)))
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)


def sizes_by_data(fx: torch.fx.Node) -> bool:
    """Returns whether a node makes a tensor of a size that depends on the contents of others."""
    if fx.op != "call_function" or overload_of(fx.target) == "getitem":
        return False
    made = _unbacked_sizes(fx.meta.get("val"))
    for item in fx.all_input_nodes if made else ():
        value = item.meta.get("val")
        made -= free_unbacked_symbols(value) if isinstance(value, torch.SymInt) else _unbacked_sizes(value)
    return bool(made)


def obstacle_of_size(fx: torch.fx.Node) -> str:
    """Returns why there is no code for a result whose size depends on data; empty if there may be."""
    if not sizes_by_data(fx):
        return ""
    values = (item.meta.get("val") for item in fx.all_input_nodes)
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    is_varying = any(isinstance(size, torch.SymInt) and not size.node.expr.is_number for size in sizes)
    return "the size of its result depends on data, and those of its operands vary" if is_varying else ""


def has_sizes_read_from_data(graph: torch.fx.Graph) -> bool:
    """Returns whether tensors have sizes that the graph reads from tensors as numbers."""
    numbers = [node.meta.get("val") for node in graph.nodes if overload_of(node.target) in READS]
    read = {symbol for value in numbers if isinstance(value, torch.SymInt) for symbol in free_unbacked_symbols(value)}
    return any(read & _unbacked_sizes(node.meta.get("val")) for node in graph.nodes) if read else False


def _unbacked_sizes(known: Any) -> set[Any]:
    """The symbols in the sizes of tensors that depend on data."""
    values = known if isinstance(known, tuple | list) else (known,)
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return {symbol for value in tensors for symbol in free_unbacked_symbols(value.shape)}


def is_computed_with(fx: torch.fx.Node) -> bool:
    """Returns whether a node's results are more than returned."""
    return any(_is_computed(user, fx) for user in fx.users)


def _is_computed(user: torch.fx.Node, fx: torch.fx.Node) -> bool:
    is_number = not isinstance(user.meta.get("val"), torch.Tensor | tuple | list)
    if user.op == "output":
        return not isinstance(fx.meta.get("val"), torch.Tensor)
    return is_computed_with(user) if is_number or overload_of(user.target) == "getitem" else True


def line_of(fx: torch.fx.Node) -> tuple[str, int] | None:
    """Returns file and line of the innermost call outside of torch that made a node; None if it is not recorded."""
    frames = _FRAME.findall(fx.meta.get("stack_trace") or "")
    if not frames:
        return None
    outside = [frame for frame in frames if not _OWN_FILES.search(frame[0])]
    file, line = (outside or frames)[-1]
    return file, int(line)


def at_line(fx: torch.fx.Node) -> str:
    """Returns the end of an error's reason: the line of Python that made a node; empty if it is not recorded."""
    line = line_of(fx)
    return "" if line is None else f" ({line[0]}, line {line[1]})"


def location_of(fx: torch.fx.Node) -> ir.Location:
    """Returns the location of a node's ops: its name, and its line of Python."""
    line = line_of(fx)
    if line is None:
        return ir.Location.name(name_of(fx))
    return ir.Location.name(name_of(fx), ir.Location.file(line[0], line[1], 0))


def axis_of(value: ir.Value, axis: int) -> int:
    """Returns a dimension counted from the first one; a scalar has a dimension 0."""
    return axis % max(rank(value), 1)


def axes_of(value: ir.Value, axes: Sequence[int] | int | None) -> tuple[int, ...]:
    """Returns dimensions counted from the first one, all of them for None or none; those of a scalar are none."""
    if rank(value) == 0:
        return ()
    chosen = [axes] if isinstance(axes, int) else axes
    return tuple(sorted({axis % rank(value) for axis in chosen})) if chosen else tuple(range(rank(value)))
