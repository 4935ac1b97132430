"""Imports MLIR: a module that Stepwell printed at some phase, or that a user wrote by hand.

Parameters are read from `parameters.safetensors` beside the file, where `--dump-phases` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from ..dialects import discardable
from ..dialects.registry import load_dialects
from ..dialects.stepwell.constant import ConstantOp, ParameterOp
from ..dialects.types import numpy_dtype
from ..dialects.verifier import VerificationError, verify
from ..passes.infra.custom_forms import find_custom_form
from ..passes.infra.diagnostics import MLIRError, find_place
from ..passes.infra.guarded import Crash, guarded
from ..passes.ir.functions import is_output
from ..passes.ir.locations import dominant
from ..passes.ir.rewriting import walk
from ..runtime import safetensors
from ..support.errors import ArtefactError
from ..support.wording import quantity
from .errors import ModelError
from .imported import ImportedModel, ImportedNode, ModelInfo, ValueInfo
from .module_checks import check_all_there, check_attributes, check_parameters, is_late

PARAMETERS = "parameters.safetensors"


def describe_model(model: bytes | Path) -> ModelInfo:
    """The inputs and outputs of @main.

    Raises:
        ModelError: the module is not valid MLIR, or has no @main.
    """
    context = _new_context()
    with context:
        return info_of(_parse(model, context), _name(model))


def declared_ranges(model: bytes | Path) -> dict[str, int | tuple[int, ...]]:
    """The attribute `stepwell.ranges` by size: a number, or least and greatest size and step; {} without it.

    Raises:
        ModelError: the module is not valid MLIR.
    """
    context = _new_context()
    with context:
        ranges = discardable.RANGES.read(_parse(model, context).operation) or {}
    return {name: values[0] if values[0] == values[1] else tuple(values) for name, values in ranges.items()}


def import_model(
    model: bytes | Path, context: ir.Context, shapes: Mapping[str, Sequence[int]] | None = None
) -> ImportedModel:
    """Parses a module. @main's inputs get the given shapes later, when the phase `graph` is made.

    Raises:
        ModelError: the module is not valid MLIR, has no @main, or its parameters cannot be read, or are missing though
            the next phase needs them.
    """
    module, parameters = _parse(model, context), _parameters(model)
    try:
        check_parameters(module, parameters)
        if not is_late(module):
            check_all_there(module, parameters)
    except ModelError as error:
        raise error.at(model=_name(model)) from None
    nodes = () if is_late(module) else _nodes(module)
    return ImportedModel(module, parameters, _name(model), info_of(module, _name(model)), nodes)


def _nodes(module: ir.Module) -> Sequence[ImportedNode]:
    """Returns the nodes that locations name: the ops of one name are one node, of the type of the last."""
    found: dict[str, ImportedNode] = {}
    for op in walk(module.operation):
        name = dominant(op.location)
        if not name or not op.results:
            continue
        is_constant = op.name in (ConstantOp.OPERATION_NAME, ParameterOp.OPERATION_NAME)
        inputs = found[name].inputs if name in found else tuple(operand.type for operand in op.operands)
        outputs = tuple(result.type for result in op.results)
        found[name] = ImportedNode(name, op.name, inputs, outputs, is_constant)
    return tuple(found.values())


def _name(model: bytes | Path) -> str:
    return model.name if isinstance(model, Path) else "module"


def _parse(model: bytes | Path, context: ir.Context) -> ir.Module:
    text = model if isinstance(model, bytes) else model.read_bytes()
    try:
        guarded(lambda note: _parsed(text, _new_context()) and b"")
        return _parsed(text, context)
    except Crash as error:
        raise ModelError(f"not valid MLIR, or nested too deep: {error}", model=_name(model)) from None
    except RecursionError:
        raise ModelError("the module's regions are nested too deep", model=_name(model)) from None
    except ModelError as error:
        raise error.at(model=_name(model)) from None
    except MLIRError as error:
        raise ModelError(f"not valid MLIR: {_first(error, text)}", model=_name(model)) from None
    except VerificationError as error:
        found = error.violations[0]
        raise ModelError(f"not valid MLIR: {_located(found.location, found.message)}", model=_name(model)) from None


def _new_context() -> ir.Context:
    """A context for MLIR's parser, which loads the dialects of the ops that it reads."""
    return ir.Context(load_on_create_dialects=("irdl",))  # pyright: ignore[reportCallIssue]  (the stubs lack it)


def _parsed(text: bytes, context: ir.Context) -> ir.Module:
    load_dialects(context)
    module = ir.Module.parse(text, context)
    verify(module)
    check_attributes(module)
    return module


def _first(error: Any, text: bytes) -> str:
    """The first error that MLIR reports, and its location."""
    diagnostics = error.error_diagnostics
    found = None if diagnostics else find_custom_form(text)
    if found is not None:
        return f"line {found[0]}, column {found[1]}: {found[2]}"
    if not diagnostics:
        return str(error).splitlines()[0]
    return _located(diagnostics[0].location, diagnostics[0].message)


def _located(location: ir.Location, message: str) -> str:
    place = find_place(location)
    return f"{message} ({location})" if place is None else f"line {place.line}, column {place.column}: {message}"


def info_of(module: ir.Module, name: str) -> ModelInfo:
    """Returns the inputs and outputs of @main.

    Raises:
        ModelError: there is no function @main with a body.
    """
    symbols = ir.SymbolTable(module.operation)
    if "main" not in symbols:
        raise ModelError("there is no function @main", model=name)
    # From the phase `memref` on, buffers and pointers carry less information than the module's attributes.
    if is_late(module):
        interface = discardable.INTERFACE.required(module.operation)
        return ModelInfo(name, *(_interface_values(interface[key]) for key in ("inputs", "outputs")))
    main = symbols["main"]
    if main.operation.name != "func.func" or not main.regions[0].blocks:
        raise ModelError(f"@main must be a function with a body, but is '{main.operation.name}'", model=name)
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs = _values(kind.inputs, main.attributes, "arg_attrs", "input")
    return ModelInfo(name, inputs, _values(kind.results, main.attributes, "res_attrs", "output"))


def _interface_values(entries: ir.Attribute) -> tuple[ValueInfo, ...]:
    found = []
    for entry in map(ir.DictAttr, ir.ArrayAttr(entries)):
        kind = ir.RankedTensorType(ir.TypeAttr(entry["type"]).value)
        name = ir.StringAttr(entry["name"]).value
        found.append(ValueInfo(name, numpy_dtype(kind.element_type), tuple(kind.shape)))
    return tuple(found)


def _values(types: Sequence[ir.Type], attributes: ir.OpAttributeMap, key: str, what: str) -> tuple[ValueInfo, ...]:
    declared = list(ir.ArrayAttr(attributes[key])) if key in attributes else [ir.DictAttr.get({})] * len(types)
    infos = [
        _value(kind, ir.DictAttr(attrs), f"{what}{index}")
        for index, (kind, attrs) in enumerate(zip(types, declared, strict=True))
    ]
    return tuple(info for info, attrs in zip(infos, declared, strict=True) if is_output(ir.DictAttr(attrs)))


def _value(kind: ir.Type, attributes: ir.DictAttr, default: str) -> ValueInfo:
    if not isinstance(kind, ir.RankedTensorType):
        raise ModelError(f"@main must take and return tensors of known rank, but {default} is {kind}")
    name, dims = discardable.NAME.read(attributes, default), discardable.DIMS.read(attributes, (0,) * kind.rank)
    if len(dims) != kind.rank:
        raise ModelError(
            f"the attribute '{discardable.DIMS.name}' of {name} must list {quantity(kind.rank, 'dimension')}, "
            f"not {list(dims)}"
        )
    shape = tuple(
        kind.get_dim_size(axis)
        if not kind.is_dynamic_dim(axis)
        else (dim if isinstance(dim, str) else f"{name}.{axis}")
        for axis, dim in enumerate(dims)
    )
    return ValueInfo(name, numpy_dtype(kind.element_type), shape)


def _parameters(model: bytes | Path) -> dict[str, np.ndarray]:
    if isinstance(model, bytes) or not (side := model.with_name(PARAMETERS)).is_file():
        return {}
    try:
        return safetensors.view(np.fromfile(side, np.uint8))
    except ArtefactError as error:
        raise ModelError(f"cannot be read: {error}", model=side.name) from None
