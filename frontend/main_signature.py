"""The signature of @main: concrete shapes bound to the inputs, types and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlir import ir
from mlir.dialects import func

from ..dialects import discardable
from ..dialects.core import OpError, check_extents, spec_of
from ..dialects.dims import Dim, Symbolic, unknown
from ..dialects.types import TensorSpec, tensor_type
from ..passes.ir.functions import update_type
from ..support.wording import quantity
from .errors import ModelError, NeedsShapes
from .imported import ModelInfo, ValueInfo

PortDims = tuple[int | str | Symbolic, ...]
"""The dimensions of an input: numbers, names, and expressions over sizes that a compile is for."""


def bound_inputs(info: ModelInfo, shapes: Mapping[str, Sequence[Dim]]) -> list[PortDims]:
    """The dimensions of each input: the declared ones, with symbols replaced by the numbers that `shapes` gives.

    Raises:
        ModelError: a shape is for an unknown input, contradicts the declaration or another shape, or is too large.
        NeedsShapes: an input's rank is not declared, and `shapes` does not give it.
    """
    names = [value.name for value in info.inputs]
    unknown = sorted(set(shapes) - set(names))
    if unknown:
        raise ModelError(f"has no input '{unknown[0]}'; its inputs are {', '.join(names)}")
    numbers: dict[str, Dim] = {}
    for value in info.inputs:
        if value.name in shapes:
            _bind(value, tuple(shapes[value.name]), numbers)
    found = [_resolved(value, shapes.get(value.name), numbers) for value in info.inputs]
    for value, dims in zip(info.inputs, found, strict=True):
        try:
            check_extents(tuple(dim for dim in dims if isinstance(dim, int)))
        except OpError as error:
            raise ModelError(f"input '{value.name}': {error}") from None
    return found


def _bind(value: ValueInfo, shape: tuple[Dim, ...], numbers: dict[str, Dim]) -> None:
    """Checks a shape against a declaration, and records the values of its symbols."""
    declared = shape if value.dims is None else value.dims
    if len(declared) != len(shape):
        raise ModelError(
            f"input '{value.name}' has {quantity(len(declared), 'dimension')} {_text(declared)}, "
            f"but {_text(shape)} is given"
        )
    for dim, number in zip(declared, shape, strict=True):
        expected = number if value.dims is None else numbers.setdefault(dim, number) if isinstance(dim, str) else dim
        if (isinstance(number, int) and number < 0) or number != expected:
            raise ModelError(
                f"input '{value.name}' has the shape {_text(declared)}, "
                f"which {_text(shape)} is not{_symbol(dim, expected)}"
            )


def _symbol(dim: Dim | str, number: Dim) -> str:
    return f" with {dim} = {number}" if isinstance(dim, str) else ""


def _resolved(value: ValueInfo, shape: Sequence[Dim] | None, numbers: Mapping[str, Dim]) -> PortDims:
    if shape is not None:
        return tuple(shape)
    if value.kind != "tensor":
        return ()
    if value.dims is None:
        raise NeedsShapes(f"does not declare the rank of input '{value.name}', so that its shape must be given")
    return tuple(dim if isinstance(dim, int) else numbers.get(dim, dim) for dim in value.dims)


def _text(dims: Sequence[Dim | str]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def tensor_of(info: ValueInfo, dims: PortDims) -> ir.Type:
    """The type of an input with these dimensions; names that are only declared are for passes to deduce shapes from."""
    return tensor_type(TensorSpec(tuple(unknown() if isinstance(dim, str) else dim for dim in dims), info.dtype))


def result_dims(info: ValueInfo, value: ir.Value) -> PortDims:
    """The known dimensions of an output, and the declared names of the others."""
    shape = spec_of(value).shape
    names = info.dims if info.dims is not None and len(info.dims) == len(shape) else (0,) * len(shape)
    return tuple(
        dim if isinstance(dim, int) else name if isinstance(name, str) else f"{info.name}.{axis}"
        for axis, (dim, name) in enumerate(zip(shape, names, strict=True))
    )


def module_of(
    info: ModelInfo,
    shapes: Mapping[str, Sequence[Dim]],
    build: Callable[[Mapping[str, ir.Value]], Mapping[str, ir.Value]],
) -> ir.Module:
    """Builds a module whose @main is made at once.

    Args:
        info: the model's inputs and outputs.
        shapes: shapes for all inputs, in numbers or expressions over sizes.
        build: builds the ops at the insertion point from the inputs by name, and returns the outputs by name.

    Raises:
        ModelError, NeedsShapes: see `bound_inputs`.
    """
    dims = bound_inputs(info, shapes)
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        types = [tensor_of(item, given) for item, given in zip(info.inputs, dims, strict=True)]
        main = func.FuncOp("main", (types, []))
    block = main.add_entry_block()
    with ir.InsertionPoint(block):
        found = build({item.name: value for item, value in zip(info.inputs, block.arguments, strict=True)})
        outputs = [found[item.name] for item in info.outputs]
        func.ReturnOp(outputs)
    declare(main, info, dims, outputs)
    return module


def declare(
    main: func.FuncOp,
    info: ModelInfo,
    dims: Sequence[PortDims],
    outputs: Sequence[ir.Value],
    others: Sequence[ir.DictAttr] = (),
) -> None:
    """Gives @main the types of what it returns, and names to its arguments and results.

    Args:
        main: the function, whose body is complete.
        info: the model's inputs and outputs.
        dims: the dimensions of each input.
        outputs: the values of the outputs.
        others: the attributes of what it returns behind them.
    """
    update_type(main.operation)
    arguments = [named(item.name, given) for item, given in zip(info.inputs, dims, strict=True)]
    results = [named(item.name, result_dims(item, value)) for item, value in zip(info.outputs, outputs, strict=True)]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)
    main.attributes["res_attrs"] = ir.ArrayAttr.get([*results, *others])


def named(name: str, dims: PortDims) -> ir.Attribute:
    """The attributes that describe an argument or a result of @main."""
    written = tuple(str(dim) if isinstance(dim, Symbolic) else dim for dim in dims)
    return ir.DictAttr.get(discardable.NAME.entry(name) | discardable.DIMS.entry(written))
