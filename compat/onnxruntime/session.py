"""`InferenceSession` on a compiled model."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ...frontend.errors import UnsupportedError
from ...runtime.errors import InputError
from ...runtime.executable import Executable
from .errors import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile, NotImplemented, failure
from .options import RunOptions, SessionOptions
from .values import IOBinding, ModelMetadata, NodeArg, OrtValue, type_name, type_of

PROVIDER = "CPUExecutionProvider"


class InferenceSession:
    """A model that is compiled when it is opened (or, where its shapes vary, for each new shape that it is run on)."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
        provider_options: Sequence[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Opens a model.

        Args:
            path_or_bytes: an ONNX file, or its contents.
            sess_options: see `SessionOptions`.
            providers: what to run on; all but the CPU's are passed over with a warning.
            provider_options: taken, and without effect.
            **kwargs: likewise (`disabled_optimizers`).

        Raises:
            NoSuchFile: there is no such file.
            InvalidProtobuf: it is not ONNX.
            NotImplemented: the model uses what cannot be compiled.
            Fail: it cannot be compiled.
        """
        self._options = sess_options or SessionOptions()
        self._proto = _read(path_or_bytes)
        self._profile: list[dict[str, Any]] = []
        self._start = time.perf_counter_ns()
        self.set_providers(providers or [PROVIDER])
        if self._options.optimized_model_filepath:
            warnings.warn("optimized_model_filepath: a compiled model has no ONNX form to write", stacklevel=2)
        model = bytes(path_or_bytes) if isinstance(path_or_bytes, bytes | bytearray) else Path(path_or_bytes)
        with _errors_of_onnxruntime():
            self._executable = compile_model(model, self._options.intra_op_num_threads or None)
            self._compile_free_dimensions()
        del self._proto.graph.initializer[:]  # of the model only its description is needed from here on

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[np.ndarray]:
        """Runs the model.

        Args:
            output_names: which outputs to give; None or none for all of them.
            input_feed: arrays, nested lists or `OrtValue`s by input.
            run_options: taken, and without effect.

        Raises:
            ValueError: an input is missing.
            InvalidArgument: the inputs or outputs are not the model's.
            NotImplemented, Fail: the model cannot be compiled for these shapes, or has no answer to these inputs.
        """
        names = [info.name for info in self._executable.inputs]
        missing = [name for name in names if name not in input_feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        unknown = [name for name in input_feed if name not in names]
        if unknown:
            raise failure(InvalidArgument, f"Invalid input name: {unknown[0]}")
        start = time.perf_counter_ns()
        with _errors_of_onnxruntime():
            arrays = [_as_array(input_feed[info.name], info.dtype) for info in self._executable.inputs]
            outputs = self._executable(*arrays)
        if self._options.enable_profiling:
            self._record("model_run", start)
        results = dict(zip((info.name for info in self._executable.outputs), _as_tuple(outputs), strict=True))
        wanted = output_names or list(results)
        odd = [name for name in wanted if name not in results]
        if odd:
            raise failure(InvalidArgument, f"Invalid output name:{odd[0]}")
        return [results[name] for name in wanted]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: Any = None
    ) -> list[OrtValue]:
        """Runs the model from and to `OrtValue`s."""
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[np.ndarray], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs the model in another thread, which then calls `callback(outputs, user_data, error)`."""

        def work() -> None:
            try:
                outputs, message = self.run(output_names, input_feed, run_options), ""
            except (ValueError, InvalidArgument, NotImplemented, Fail) as error:
                outputs, message = [], str(error)
            callback(outputs, user_data, message)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        """Something to bind inputs and outputs to."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on what is bound."""
        iobinding.run()

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs."""
        args = {value.name: value for value in self._proto.graph.input}
        return [self._node_arg(args[info.name], info.dtype) for info in self._executable.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs."""
        args = {value.name: value for value in self._proto.graph.output}
        return [self._node_arg(args[info.name], info.dtype) for info in self._executable.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initialisers that a run may replace: none, for they are compiled in."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the ONNX file says of itself."""
        proto = self._proto
        return ModelMetadata(
            custom_metadata_map={item.key: item.value for item in proto.metadata_props},
            description=proto.doc_string,
            domain=proto.domain,
            graph_description=proto.graph.doc_string,
            graph_name=proto.graph.name,
            producer_name=proto.producer_name,
            version=proto.model_version,
        )

    def get_session_options(self) -> SessionOptions:
        """The options that the session was opened with."""
        return self._options

    def get_providers(self) -> list[str]:
        """What the model runs on."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of what the model runs on: none."""
        return {PROVIDER: {}}

    def set_providers(self, providers: Sequence[Any], provider_options: Sequence[dict[str, Any]] | None = None) -> None:
        """Passes over every provider but the CPU's, with a warning."""
        names = [item if isinstance(item, str) else item[0] for item in providers]
        for name in names:
            if name != PROVIDER:
                warnings.warn(
                    f"Specified provider '{name}' is not in available provider names. "
                    f"Available providers: '{PROVIDER}'",
                    stacklevel=3,
                )

    def disable_fallback(self) -> None:
        """There is nothing to fall back to."""

    def enable_fallback(self) -> None:
        """There is nothing to fall back to."""

    def get_profiling_start_time_ns(self) -> int:
        """When the session was opened."""
        return self._start

    def end_profiling(self) -> str:
        """Writes the times of the runs so far as a Chrome trace; gives the file's name, "" where profiling is off."""
        if not self._options.enable_profiling:
            return ""
        path = f"{self._options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        Path(path).write_text(json.dumps(self._profile))
        return path

    def _record(self, name: str, start: int) -> None:
        end = time.perf_counter_ns()
        times = {"ts": (start - self._start) // 1000, "dur": (end - start) // 1000}
        thread = threading.get_native_id()
        self._profile.append({"cat": "Session", "pid": os.getpid(), "tid": thread, "ph": "X", "name": name, **times})

    def _compile_free_dimensions(self) -> None:
        sizes = self._options.free_dimensions
        if not sizes:
            return
        shapes = {info.name: tuple(sizes.get(str(dim), dim) for dim in info.shape) for info in self._executable.inputs}
        if all(isinstance(dim, int) for shape in shapes.values() for dim in shape):
            self._executable.prepare({name: tuple(map(int, shape)) for name, shape in shapes.items()})

    def _node_arg(self, value: onnx.ValueInfoProto, dtype: np.dtype) -> NodeArg:
        sizes = self._options.free_dimensions
        shape: list[int | str | None] = [
            dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param, dim.dim_param or None)
            for dim in value.type.tensor_type.shape.dim
        ]
        kind = type_of(value.type) if value.type.WhichOneof("value") else type_name(dtype)
        return NodeArg(value.name, kind, shape)


def compile_model(model: Path | bytes, threads: int | None) -> Executable:
    """Compiles through Stepwell's ordinary entry."""
    from ... import compile  # what only imports the drop-in need not load a compiler

    return compile(model, threads=threads)


@contextmanager
def _errors_of_onnxruntime() -> Iterator[None]:
    """Turns Stepwell's errors into those that programs expect."""
    try:
        yield
    except UnsupportedError as error:
        raise failure(NotImplemented, str(error)) from error
    except InputError as error:
        raise failure(InvalidArgument, str(error)) from error
    except Exception as error:  # of any level of the compiler; others' errors pass
        if not type(error).__module__.startswith("stepwell."):
            raise
        raise failure(Fail, str(error)) from error


def _read(path_or_bytes: str | bytes | os.PathLike[str]) -> onnx.ModelProto:
    try:
        if isinstance(path_or_bytes, bytes | bytearray):
            return onnx.load_model_from_string(bytes(path_or_bytes))
        return onnx.load_model(os.fspath(path_or_bytes), load_external_data=False)
    except FileNotFoundError as error:
        message = f"Load model from {path_or_bytes} failed:Load model {path_or_bytes} failed. File doesn't exist"
        raise failure(NoSuchFile, message) from error
    except Exception as error:  # protobuf's DecodeError, whose module differs between protobuf's own versions
        if type(error).__name__ != "DecodeError":
            raise
        raise failure(InvalidProtobuf, "Failed to load model because protobuf parsing failed.") from error


def _as_array(value: Any, dtype: np.dtype) -> Any:
    if isinstance(value, OrtValue):
        return value.numpy()
    return np.asarray(value, dtype) if isinstance(value, list | tuple | int | float | bool) else value


def _as_tuple(outputs: np.ndarray | tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
