"""Parses ONNX files and describes their inputs and outputs without building anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, inliner, version_converter

from ....dialects.dims import MAX_RANK
from ....support.short_repr import short_repr
from ...errors import ModelError, UnsupportedError
from ...imported import ModelInfo, ValueInfo
from .classes import with_numbered_classes
from .left_in_file import without_weights
from .limits import check_expansion
from .names import normal_domain
from .ordered import in_order
from .text import check_text

OLDEST_OPSET = 7
"""The oldest opset that is imported directly. Older ones broadcast differently and are converted by ONNX first."""

NEWEST_OPSET = 28
"""The newest opset whose ops have been checked against their definitions."""

_DTYPES: dict[int, np.dtype] = {
    onnx.TensorProto.FLOAT: np.dtype(np.float32),
    onnx.TensorProto.DOUBLE: np.dtype(np.float64),
    onnx.TensorProto.FLOAT16: np.dtype(np.float16),
    onnx.TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    onnx.TensorProto.INT64: np.dtype(np.int64),
    onnx.TensorProto.INT32: np.dtype(np.int32),
    onnx.TensorProto.INT16: np.dtype(np.int16),
    onnx.TensorProto.INT8: np.dtype(np.int8),
    onnx.TensorProto.UINT64: np.dtype(np.uint64),
    onnx.TensorProto.UINT32: np.dtype(np.uint32),
    onnx.TensorProto.UINT16: np.dtype(np.uint16),
    onnx.TensorProto.UINT8: np.dtype(np.uint8),
    onnx.TensorProto.BOOL: np.dtype(np.bool_),
    onnx.TensorProto.INT4: np.dtype(ml_dtypes.int4),
    onnx.TensorProto.INT2: np.dtype(ml_dtypes.int2),
    onnx.TensorProto.UINT4: np.dtype(ml_dtypes.uint4),
    onnx.TensorProto.UINT2: np.dtype(ml_dtypes.uint2),
    onnx.TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    onnx.TensorProto.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    onnx.TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    onnx.TensorProto.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    onnx.TensorProto.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    onnx.TensorProto.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
}


_OBJECT = np.dtype(object)

_CONVERSION_ERRORS = (
    RuntimeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    version_converter.ConvertError,
)


@short_repr
@dataclass(frozen=True)
class Model:
    """A parsed file.

    Attributes:
        proto: the parsed contents.
        name: the name used in messages: the file's name, else the graph's.
        folder: the folder of external data; None if the model did not come from a file.
        weights: weights of the graph that are stored outside it, as this model is a part of a larger one; else None.
    """

    proto: onnx.ModelProto
    name: str
    folder: Path | None
    weights: Sequence[onnx.TensorProto] | None = None

    @property
    def initializers(self) -> Sequence[onnx.TensorProto]:
        """The weights of the graph."""
        return self.proto.graph.initializer if self.weights is None else self.weights

    @property
    def size(self) -> int:
        """Approximate number of ops, including weights."""
        return len(self.proto.graph.node) + len(self.initializers)


def read_model(model: bytes | str | Path | onnx.ModelProto, leaves_weights: bool = False) -> Model:
    """Parses a model; external data is not read.

    Args:
        model: the file's path or its bytes, or the result of `onnx.load(path, load_external_data=False)`.
        leaves_weights: whether to leave large weights in the file, as if they were external data.

    Raises:
        ModelError: it is not an ONNX model, or exceeds the limits on expansion.
        OSError: the file cannot be read.
    """
    path = Path(model) if isinstance(model, str | Path) else None
    name = "model" if path is None else path.name
    if isinstance(model, onnx.ModelProto):
        proto = model
    else:
        data = model if isinstance(model, bytes) else _contents(Path(model), leaves_weights)
        proto = _parsed(data, name)
    check_text(proto, name)
    check_expansion(proto, name)
    return _checked(Model(proto, proto.graph.name or name if path is None else name, path and path.parent))


def _contents(path: Path, leaves_weights: bool) -> bytes:
    less = without_weights(path) if leaves_weights else None
    return path.read_bytes() if less is None else less


def _parsed(data: bytes, name: str) -> onnx.ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except DecodeError:
        reason = "not an ONNX model: the file is damaged, truncated, or of another format"
        raise ModelError(reason, model=name) from None


def _checked(model: Model) -> Model:
    if not model.proto.HasField("graph"):
        raise ModelError("not an ONNX model: it holds no graph", model=model.name)
    imported = opsets(model.proto.opset_import, model.name)
    if not imported:
        raise ModelError("does not declare the version of the ONNX operators it uses (opset_import)", model=model.name)
    opset = imported.get("", NEWEST_OPSET)
    if opset > NEWEST_OPSET:
        message = f"uses opset {opset}, but the newest supported opset is {NEWEST_OPSET}; export it for that opset"
        raise ModelError(message, model=model.name)
    current = model if opset >= OLDEST_OPSET else _converted(model, opset)
    return replace(current, proto=with_numbered_classes(in_order(current.proto)))


def _converted(model: Model, opset: int) -> Model:
    """Converts a model of an older opset to the oldest one that is imported directly."""
    try:
        proto = version_converter.convert_version(model.proto, OLDEST_OPSET)
    except _CONVERSION_ERRORS as error:
        reason = str(error).strip().rpartition("failed: ")[2] or type(error).__name__
        message = f"uses opset {opset}, and ONNX cannot convert it to opset {OLDEST_OPSET}: {reason}"
        raise ModelError(message, model=model.name) from None
    return replace(model, proto=proto)


def inlined(model: Model) -> Model:
    """Replaces the calls of the model's own functions by their bodies."""
    if not model.proto.functions:
        return model
    try:
        return replace(model, proto=inliner.inline_local_functions(model.proto))
    except _CONVERSION_ERRORS as error:
        raise ModelError(f"its functions cannot be inlined: {error}", model=model.name) from error


def opsets(imports: Iterable[onnx.OperatorSetIdProto], model: str) -> dict[str, int]:
    """The version of each operator domain; "ai.onnx" is the domain "".

    Raises:
        ModelError: a domain is imported in two versions, or in an invalid version.
    """
    versions: dict[str, int] = {}
    for entry in imports:
        domain = normal_domain(entry.domain)
        if not 0 <= entry.version < 1 << 31:  # ONNX's own functions take an int of C++
            raise ModelError(f"imports the invalid version {entry.version} of the domain '{domain}'", model=model)
        if versions.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"imports two versions of the domain '{domain}'", model=model)
    return versions


def describe_model(model: bytes | str | Path | onnx.ModelProto | Model) -> ModelInfo:
    """The inputs and outputs that a model declares; nothing is compiled, and no weight is read.

    Raises:
        ModelError: it is not an ONNX model, or the type of an input is not declared.
        OSError: the file cannot be read.
    """
    read = model if isinstance(model, Model) else read_model(model)
    graph = read.proto.graph
    stored = {tensor.name for tensor in graph.initializer}
    try:
        inputs = tuple(value_info(value, "input") for value in graph.input if value.name not in stored)
        undeclared = [info.name for info in inputs if not info.kind]
        if undeclared:
            raise ModelError(f"does not declare the type of input '{undeclared[0]}'")
        outputs = tuple(value_info(value, "output") for value in graph.output)
        _check_unique([info.name for info in inputs])
    except ModelError as error:
        raise error.at(model=read.name) from None
    return ModelInfo(read.name, inputs, outputs)


def _check_unique(names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ModelError(f"two inputs are called '{repeated[0]}'")


def value_info(value: onnx.ValueInfoProto, what: str) -> ValueInfo:
    """Describes one declaration; dimensions without a name are named after the value and their axis.

    Raises:
        ModelError: the tensor has an unknown element type, or more dimensions than a numpy array can have.
    """
    if value.type.WhichOneof("value") != "tensor_type":
        return ValueInfo(value.name, _OBJECT, None, type_text(value.type))
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return ValueInfo(value.name, _OBJECT, None, "")
    dtype = host_dtype(tensor.elem_type, f"{what} '{value.name}'")
    if not tensor.HasField("shape"):
        return ValueInfo(value.name, dtype, None)
    if len(tensor.shape.dim) > MAX_RANK:
        raise ModelError(f"{what} '{value.name}' has {len(tensor.shape.dim)} dimensions, more than {MAX_RANK}")
    return ValueInfo(value.name, dtype, tuple(_dim(dim, value.name, axis) for axis, dim in enumerate(tensor.shape.dim)))


def _dim(dim: onnx.TensorShapeProto.Dimension, name: str, axis: int) -> int | str:
    """Reads a dimension; exporters write -1 or nothing for an unknown one."""
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
        return dim.dim_value
    return f"{name}.{axis}" if dim.dim_param in ("", "?") else dim.dim_param


def element_dtype(kind: int, what: str) -> np.dtype:
    """The numpy dtype of an ONNX element type; `what` names the value in the message.

    Raises:
        UnsupportedError: code cannot be compiled for this type.
    """
    if kind not in _DTYPES:
        raise UnsupportedError(f"{what} has the element type {_element_name(kind)}, which is not supported")
    return _DTYPES[kind]


def host_dtype(kind: int, what: str) -> np.dtype:
    """`element_dtype`, extended to other numpy types: Python objects for strings, complex numbers.

    Raises:
        UnsupportedError: there is no such element type.
    """
    if kind in _DTYPES:
        return _DTYPES[kind]
    if kind == onnx.TensorProto.UNDEFINED or kind not in onnx.TensorProto.DataType.values():
        raise UnsupportedError(f"{what} has the element type {_element_name(kind)}, which is not supported")
    return helper.tensor_dtype_to_np_dtype(kind)


def is_native(kind: onnx.TypeProto) -> bool:
    """Returns whether values of a type are tensors that code can be compiled for."""
    return kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.elem_type in _DTYPES


def type_text(kind: onnx.TypeProto | None) -> str:
    """A type in words: "float32", "string", "seq(float32)"; "" if it is not known."""
    which = None if kind is None else kind.WhichOneof("value")
    if kind is None or which is None:
        return ""
    if which in ("tensor_type", "sparse_tensor_type"):
        return _element_text(getattr(kind, which).elem_type)
    if which == "map_type":
        return f"map({_element_text(kind.map_type.key_type)}, {type_text(kind.map_type.value_type)})"
    if which == "sequence_type":
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    return f"optional({type_text(kind.optional_type.elem_type)})" if which == "optional_type" else which


def _element_text(kind: int) -> str:
    """The numpy name of an element type; "string" for strings, which have none."""
    known = kind in onnx.TensorProto.DataType.values() and kind != onnx.TensorProto.UNDEFINED
    if kind == onnx.TensorProto.STRING or not known:
        return "string" if known else ""
    return helper.tensor_dtype_to_np_dtype(kind).name


def _element_name(kind: int) -> str:
    return onnx.TensorProto.DataType.Name(kind) if kind in onnx.TensorProto.DataType.values() else str(kind)
