"""The model that a session was opened with: its description, and the model as changed by options and runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import uses_external_data

from ...frontend.errors import ModelError
from ...frontend.onnx.reading.weights import external_bytes
from .errors import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile, failure
from .options import SessionOptions

_FOLDER = "session.model_external_initializers_file_folder_path"
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
_MAX_MESSAGE_BYTES = 2**31 - 1
"""Maximum size in bytes of a message that Protocol Buffers can write."""


class SessionModel:
    """A model given by its path or contents.

    Attributes:
        path: the file; None if contents were given.
        contents: the contents given instead of a file.
        description: the model without its weights.
        overridable: the initializers that are also inputs, so that a run may replace them.
    """

    def __init__(self, path_or_bytes: str | bytes | os.PathLike[str], options: SessionOptions) -> None:
        """Reads a model.

        Raises:
            TypeError: it is neither a path nor contents.
            NoSuchFile: there is no such file.
            InvalidProtobuf: it is not ONNX.
            InvalidArgument: it holds no graph.
        """
        is_path = isinstance(path_or_bytes, str | os.PathLike)
        if not is_path and not isinstance(path_or_bytes, bytes | bytearray):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self.path = os.fspath(path_or_bytes) if is_path else None
        self.contents = None if is_path else bytes(path_or_bytes)
        self._options = options
        self.description = self._read()
        graph = self.description.graph
        if not graph.node and not graph.input and not graph.output:
            raise failure(InvalidArgument, f"{self._prefix}No graph was found in the protobuf.")
        stored = {tensor.name: tensor for tensor in graph.initializer}
        # Before IR version 4, initializers had to be inputs although they were constants.
        inputs = [value.name for value in graph.input] if self.description.ir_version >= 4 else []
        self.overridable = [name for name in inputs if name in stored]
        self._is_changed = bool(options.initializers or options.files or options.has_session_config_entry(_FOLDER))
        if not is_path:  # a path locates the files with weights, contents do not
            self._is_changed |= any(uses_external_data(tensor) for tensor in stored.values())
        del graph.initializer[:]

    def source(self) -> Path | bytes | onnx.ModelProto:
        """Returns what to compile: the model unchanged, unless options require changes."""
        if self._is_changed:
            return self.whole()
        return Path(self.path) if self.path is not None else self.contents or b""

    def whole(self, without: Collection[str] = ()) -> onnx.ModelProto:
        """Returns the model with all weights included; options may replace the model's own.

        Args:
            without: initializers to omit, which become inputs.

        Raises:
            InvalidArgument: options replace an initializer that the model does not have.
            Fail: a file with weights cannot be read.
        """
        proto = self._read()
        given = {name: value.numpy() for name, value in self._options.initializers.items()}
        unknown = sorted(set(given) - {tensor.name for tensor in proto.graph.initializer})
        if unknown:
            raise failure(InvalidArgument, f"the model has no initializer '{unknown[0]}', which the options replace")
        for tensor in proto.graph.initializer:
            if tensor.name in given:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(given[tensor.name]), tensor.name))
        self._load_external(tensor for tensor in _tensors(proto.graph) if uses_external_data(tensor))
        kept = [tensor for tensor in proto.graph.initializer if tensor.name not in without]
        if without:
            del proto.graph.initializer[:]
            proto.graph.initializer.extend(kept)
        return proto

    def write(self, path: str) -> None:
        """Writes the model with all changes by options; weights too large for one file go into a second one."""
        proto = self.whole()
        options = self._options
        beside = (
            options.get_session_config_entry(_WEIGHTS_FILE) if options.has_session_config_entry(_WEIGHTS_FILE) else ""
        )
        if beside or proto.ByteSize() > _MAX_MESSAGE_BYTES:
            location = beside or f"{Path(path).name}.data"
            onnx.save_model(proto, path, save_as_external_data=True, location=location)
        else:
            onnx.save_model(proto, path)

    @property
    def _prefix(self) -> str:
        return "" if self.path is None else f"Load model from {self.path} failed:"

    def _read(self) -> onnx.ModelProto:
        try:
            if self.path is None:
                return onnx.load_model_from_string(self.contents or b"")
            return onnx.load_model(self.path, load_external_data=False)
        except (FileNotFoundError, ValueError) as error:  # ValueError: the name contains a zero byte
            raise failure(NoSuchFile, f"{self._prefix}Load model {self.path} failed. File doesn't exist") from error
        except IsADirectoryError as error:
            raise failure(InvalidProtobuf, f"{self._prefix}Protobuf parsing failed.") from error
        except Exception as error:  # protobuf's DecodeError, whose module differs between protobuf's own versions
            if type(error).__name__ != "DecodeError":
                raise
            text = f"{self._prefix}Protobuf parsing failed." if self.path else ""
            raise failure(InvalidProtobuf, text or "Failed to load model because protobuf parsing failed.") from error

    def _load_external(self, tensors: Iterable[onnx.TensorProto]) -> None:
        """Reads weights from other files into the model."""
        options = self._options
        folder = os.path.dirname(self.path) if self.path else ""
        if options.has_session_config_entry(_FOLDER):
            folder = options.get_session_config_entry(_FOLDER)
        for tensor in tensors:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            try:
                contents = options.files.get(entries.get("location", ""))
                if contents is None:
                    data = external_bytes(tensor, Path(folder or ".")).tobytes()
                else:
                    start = int(entries.get("offset", 0))
                    data = contents[start : start + int(entries.get("length", len(contents) - start))]
            except (ModelError, OSError, ValueError) as error:
                message = f"External data path validation failed for initializer: {tensor.name}. Error: {error}"
                raise failure(Fail, message) from error
            tensor.raw_data = data
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yields the stored tensors of a graph and of the graphs inside its nodes."""
    yield from graph.initializer
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            yield from _tensors(inner)
