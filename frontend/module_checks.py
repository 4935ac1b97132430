"""Checks the attributes of modules of later phases: whether they are present, well-formed and consistent with @main.

Passes write these attributes, and later phases trust them; a module from a file may hold any value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from mlir import ir

from ..dialects import discardable
from ..dialects.registry import OPS
from ..dialects.stepwell.constant import ParameterOp
from ..dialects.types import ElementTypeError, TensorSpec, numpy_dtype, spec_of_type
from ..passes.infra.diagnostics import find_place
from ..passes.ir.functions import are_dimensions, dictionaries, is_output
from ..passes.ir.memory_layout import byte_size
from ..passes.ir.named_ops import ops_named
from ..passes.ir.rewriting import find_ops
from .errors import ModelError

_Fits = Callable[[ir.Attribute], bool]
_Read = tuple[str, TensorSpec, ir.Location]
_TENSOR_PHASES = ("kernels", "tiled", "vector")
_PLANNED_PHASES = ("memref", "llvm", "nvvm")


def is_late(module: ir.Module) -> bool:
    """Returns whether a module declares a phase in which its attributes carry more information than @main."""
    return discardable.PHASE.read(module.operation) in _TENSOR_PHASES + _PLANNED_PHASES


def check_attributes(module: ir.Module) -> None:
    """Checks the attributes that later phases and the runtime rely on.

    Raises:
        ModelError: an attribute is missing, malformed, or does not match @main.
    """
    attributes = module.operation.attributes
    if discardable.TABLE.is_on(module.operation):
        raise ModelError("the module was bound to ranges of sizes: compile it from the phase import instead")
    if not is_late(module):
        return
    phase = discardable.PHASE.required(module.operation)
    planned = (discardable.PARAMETERS, discardable.ARENA_BYTES) if phase in _PLANNED_PHASES else ()
    for needed in (discardable.INTERFACE, *planned):
        if not needed.is_on(module.operation):
            raise ModelError(f"the module declares the phase '{phase}', but has no attribute '{needed.name}'")
    for name, (form, fits) in _FORMS.items():
        if name in attributes and not fits(attributes[name]):
            raise ModelError(f"the module's attribute '{name}' must be {form}, but is {attributes[name]}"[:300])
    # In the last phases @main takes pointers, whose types give no sizes to check.
    if phase in (*_TENSOR_PHASES, "memref"):
        _check_main(module, phase)


def check_parameters(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
    """Checks that the contents of parameters have the shapes and types that a module declares.

    Raises:
        ModelError: some do not, or @init is not a function that computes parameters from others.
    """
    for name, wanted, where, found in _beside(module, parameters):
        if found is not None and (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise ModelError(f"{where}the parameter '{name}' is declared as {wanted}, but its contents are {found}")


def check_all_there(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
    """Checks that all parameters that a module reads have contents, which compiling needs (inspecting does not).

    Raises:
        ModelError: a parameter has no contents.
    """
    for name, _, where, found in _beside(module, parameters):
        if found is None:
            raise ModelError(
                f"{where}there are no contents for the parameter '{name}': put them into parameters.safetensors beside "
                "the file"
            )


def _beside(
    module: ir.Module, parameters: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, TensorSpec, str, TensorSpec | None]]:
    """Yields the parameters that a module reads: name, declared type, location as text, and type of the contents."""
    known = {name: TensorSpec(array.shape, array.dtype) for name, array in parameters.items()}
    init, read = _init(module), _read(module)
    if init is not None:
        made = {name: spec for name, spec, _ in _arguments(init, "res_attrs")}
        known, read = {**known, **made}, itertools.chain(_arguments(init, "arg_attrs"), read)
    for name, wanted, location in read:
        place = find_place(location)
        where = f"line {place.line}, column {place.column}: " if place and place.line else ""
        yield name, wanted, where, known.get(name)


def _read(module: ir.Module) -> Iterator[_Read]:
    for op in ops_named(module.operation, ParameterOp.OPERATION_NAME):
        view = ParameterOp(op)
        yield view.name, TensorSpec(view.shape, view.dtype), op.location
    if is_late(module):
        for entry in discardable.PARAMETERS.read(module.operation, ()):
            kind = ir.TypeAttr(entry["type"]).value
            yield ir.StringAttr(entry["name"]).value, spec_of_type(kind), module.operation.location


def _init(module: ir.Module) -> ir.Operation | None:
    """The function that computes parameters from others by stepwell ops in a single block."""
    symbols = ir.SymbolTable(module.operation)
    if "init" not in symbols:
        return None
    init = symbols["init"].operation
    if init.name != "func.func" or len(init.regions[0].blocks) != 1:
        raise ModelError("@init must be a function with a body of one block")
    strange = find_ops(init, lambda op: op.name not in OPS and op.name != "func.return")
    if strange:
        raise ModelError(f"@init may only contain ops of the stepwell dialect, but has '{strange[0].name}'")
    return init


def _arguments(init: ir.Operation, key: str) -> Iterator[_Read]:
    """The arguments (`arg_attrs`) or results (`res_attrs`) of @init."""
    kind = ir.FunctionType(ir.TypeAttr(init.attributes["function_type"]).value)
    types = kind.inputs if key == "arg_attrs" else kind.results
    for index, (item, attrs) in enumerate(zip(types, dictionaries(init, key), strict=True)):
        name = discardable.NAME.read(attrs, f"parameter{index}")
        if not _is_tensor_type(item):
            raise ModelError(f"@init must take and return named tensors of static shape, but {name} is {item}")
        yield name, spec_of_type(item), init.location


def _check_main(module: ir.Module, phase: str) -> None:
    """Compares the signature of @main with the declared interface."""
    symbols = ir.SymbolTable(module.operation)
    main = symbols["main"].operation if "main" in symbols else None
    if main is None or main.name != "func.func":
        raise ModelError("there is no function @main")
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    interface = discardable.INTERFACE.required(module.operation)
    inputs, outputs = (_types(ir.ArrayAttr(interface[key])) for key in ("inputs", "outputs"))
    guards, counts = (len(ir.ArrayAttr(interface[key])) for key in ("guards", "counts"))
    if phase in _TENSOR_PHASES:
        attributes = dictionaries(main, "res_attrs")
        results = [item for item, attrs in zip(kind.results, attributes, strict=True) if is_output(attrs)]
        marked = [sum(mark.is_on(attrs) for attrs in attributes) for mark in (discardable.GUARD, discardable.COUNT)]
        numbers = [item for item, attrs in zip(kind.results, attributes, strict=True) if discardable.COUNT.is_on(attrs)]
        fits = (inputs, outputs, [guards, counts]) == (list(kind.inputs), results, marked)
        fits = fits and all(byte_size(item) == _COUNT_BYTES for item in numbers)
    else:
        arena = discardable.ARENA_BYTES.required(module.operation)
        read = map(byte_size, _types(discardable.PARAMETERS.required(module.operation)))
        sizes = [*map(byte_size, [*inputs, *outputs]), *[1] * guards, *[_COUNT_BYTES] * counts, *read, arena]
        buffers = [item for item in kind.inputs if isinstance(item, ir.MemRefType) and item.has_static_shape]
        fits = sizes == [byte_size(item) for item in buffers] and len(buffers) == len(kind.inputs)
    if not fits:
        raise ModelError(f"@main has the type {kind}, which does not match the module's attributes")


def _types(entries: Iterable[ir.Attribute]) -> list[ir.Type]:
    return [ir.TypeAttr(ir.DictAttr(entry)["type"]).value for entry in entries]


def _is_tensor_type(kind: ir.Type) -> bool:
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        return False
    try:
        numpy_dtype(kind.element_type)
    except ElementTypeError:
        return False
    return True


def _is_string(item: ir.Attribute) -> bool:
    return isinstance(item, ir.StringAttr)


def _is_interface(item: ir.Attribute) -> bool:
    if not _INTERFACE(item):
        return False
    interface = ir.DictAttr(item)
    ranks = [ir.RankedTensorType(kind).rank for kind in _types(ir.ArrayAttr(interface["outputs"]))]
    return all(are_dimensions(list(ir.DenseI64ArrayAttr(pairs)), ranks) for pairs in ir.ArrayAttr(interface["counts"]))


def _is_type(item: ir.Attribute) -> bool:
    return isinstance(item, ir.TypeAttr) and _is_tensor_type(item.value)


def _is_size(item: ir.Attribute) -> bool:
    return isinstance(item, ir.IntegerAttr) and 0 <= item.value < 1 << 62


def _list_of(fits: _Fits) -> _Fits:
    return lambda item: isinstance(item, ir.ArrayAttr) and all(map(fits, item))


def _dictionary(**entries: _Fits) -> _Fits:
    return lambda item: (
        isinstance(item, ir.DictAttr) and all(key in item and fits(item[key]) for key, fits in entries.items())
    )


def _is_buffer(item: ir.Attribute) -> bool:
    if not _BUFFER(item):
        return False
    buffer = ir.DictAttr(item)
    return "node" not in buffer or _is_string(buffer["node"])


_COUNT_BYTES = 8
"""Size of a count in bytes: an i64."""
_TENSORS = _list_of(_dictionary(name=_is_string, type=_is_type))
_INTERFACE = _dictionary(
    inputs=_TENSORS,
    outputs=_TENSORS,
    guards=_list_of(_is_string),
    counts=_list_of(lambda item: isinstance(item, ir.DenseI64ArrayAttr)),
)
_BUFFER = _dictionary(name=_is_string, offset=_is_size, bytes=_is_size, first=_is_size, last=_is_size)
_FORMS: dict[str, tuple[str, _Fits]] = {
    discardable.INTERFACE.name: (
        "inputs and outputs, with names and types of tensors, guards and counts",
        _is_interface,
    ),
    discardable.PARAMETERS.name: ("a list of names and types of tensors", _TENSORS),
    discardable.ARENA_BYTES.name: ("a number of bytes", _is_size),
    discardable.LIFETIMES.name: (
        "a list of buffers with names, offsets, sizes in bytes and lifetimes",
        _list_of(_is_buffer),
    ),
}
