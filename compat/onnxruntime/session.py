"""`InferenceSession` on a compiled model."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ...runtime.executable import Executable
from .binding import IOBinding
from .described import Session
from .errors import Fail, InvalidArgument, NotImplemented, failure
from .inner import InnerSession
from .inputs import arranged, as_in_onnxruntime, errors_of_onnxruntime
from .options import RunOptions, SessionOptions
from .ranges import Ranged, for_ranges, size_options
from .session_model import SessionModel
from .values import OrtValue


class InferenceSession(Session):
    """A model that is compiled when it is opened or, if its shapes vary, for each new shape in a run."""

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
            providers: providers to run on; all but the CPU's are ignored with a warning.
            provider_options: accepted without effect.
            **kwargs: accepted without effect (`disabled_optimizers`).

        Raises:
            TypeError: it is neither a path nor contents.
            NoSuchFile: there is no such file.
            InvalidProtobuf: it is not ONNX.
            InvalidArgument: it holds no graph.
            NotImplemented: the model uses a feature that cannot be compiled.
            Fail: it cannot be compiled.
        """
        self._sess_options = copy(sess_options) if sess_options else SessionOptions()
        self._model = SessionModel(path_or_bytes, self._sess_options)
        self._profile: list[dict[str, Any]] = []
        self._profiling_start_time_ns = time.perf_counter_ns()
        self._enable_fallback = bool(int(kwargs.get("enable_fallback", 1)))
        self._choose(providers, provider_options)
        self._overriding: dict[frozenset[str], Executable | Ranged] = {}
        source = self._model.source()
        with errors_of_onnxruntime():
            self._executable = self._compiled(source)
            self._compile_free_dimensions()
        self._places = {info.name: place for place, info in enumerate(self._executable.outputs)}
        if self._sess_options.optimized_model_filepath:
            warnings.warn("optimized_model_filepath: the model as it was given is written, not optimized", stacklevel=2)
            self._model.write(self._sess_options.optimized_model_filepath)
        # Attributes of the original that are private but that programs read.
        self._model_path, self._model_bytes = self._model.path, self._model.contents
        self._inputs_meta, self._outputs_meta = self.get_inputs(), self.get_outputs()
        self._model_meta, self._sess = self.get_modelmeta(), InnerSession(self)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[np.ndarray]:
        """Runs the model.

        Args:
            output_names: names of the outputs to return; None or empty for all of them.
            input_feed: arrays, nested lists or `OrtValue`s by the name of an input or of a replaceable initializer. The
                model is compiled again for each set of replaced initializers.
            run_options: if they request termination, the run fails.

        Raises:
            ValueError: an input is missing.
            InvalidArgument: the inputs or outputs do not match the model's.
            NotImplemented, Fail: the model cannot be compiled for these shapes, or cannot process these inputs.
        """
        executable = self._executable
        if self._model.overridable:
            executable = self._overridden(frozenset(self._model.overridable).intersection(input_feed))
        values = arranged(input_feed, executable.inputs)
        if run_options is not None and run_options.terminate:
            raise failure(Fail, "Exiting due to terminate flag being set to true.")
        start = time.perf_counter_ns()
        try:
            outputs = executable(*values)
        except Exception as error:  # converted, or raised as it is
            converted = as_in_onnxruntime(error, executable.inputs, values)
            if converted is error:
                raise
            raise converted from error
        if self._sess_options.enable_profiling:
            self._record("model_run", start)
        results = list(outputs) if isinstance(outputs, tuple) else [outputs]
        if not output_names:
            return results
        unknown = [name for name in output_names if name not in self._places]
        if unknown:
            raise failure(InvalidArgument, f"Invalid output name:{unknown[0]}")
        return [results[self._places[name]] for name in output_names]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: Any = None
    ) -> list[OrtValue]:
        """Runs the model with `OrtValue`s as inputs and outputs."""
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
        """Returns an object to bind inputs and outputs to."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on the bound values.

        Raises:
            ValueError: the binding belongs to another session.
            RuntimeError: nothing is bound, or memory of another size.
        """
        if iobinding._iobinding.session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._iobinding.run(run_options)

    def get_profiling_start_time_ns(self) -> int:
        """Returns the time at which the session was opened, in nanoseconds."""
        return self._profiling_start_time_ns

    def end_profiling(self) -> str:
        """Writes the times of the runs so far as a Chrome trace; returns the file's name, "" if profiling is off."""
        if not self._sess_options.enable_profiling:
            return ""
        path = f"{self._sess_options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        Path(path).write_text(json.dumps(self._profile))
        return path

    def _record(self, name: str, start: int) -> None:
        end = time.perf_counter_ns()
        times = {"ts": (start - self._profiling_start_time_ns) // 1000, "dur": (end - start) // 1000}
        thread = threading.get_native_id()
        self._profile.append({"cat": "Session", "pid": os.getpid(), "tid": thread, "ph": "X", "name": name, **times})

    def _compile_free_dimensions(self) -> None:
        sizes = self._sess_options.free_dimensions
        if not sizes:
            return
        shapes = {info.name: tuple(sizes.get(str(dim), dim) for dim in info.shape) for info in self._executable.inputs}
        if all(isinstance(dim, int) for shape in shapes.values() for dim in shape):
            self._executable.prepare({name: tuple(map(int, shape)) for name, shape in shapes.items()})

    def _choose(self, providers: Sequence[Any] | None, options: Sequence[dict[str, Any]] | None) -> None:
        """Selects the providers; ignores invalid ones with a warning, as if they had failed."""
        try:
            self.set_providers(providers, options)
        except ValueError as error:
            if not self._enable_fallback:
                raise
            warnings.warn(f"EP Error {error} when using {providers}: the model runs on the CPU", stacklevel=3)
            self.set_providers()

    def _compiled(self, model: Path | bytes | onnx.ModelProto) -> Executable | Ranged:
        """Compiles a model for the number of threads and the sizes that the options specify."""
        threads = self._sess_options.intra_op_num_threads
        # ONNX Runtime chooses the number of threads itself if it is not positive.
        plain = compile_model(model, threads if threads > 0 else None, **size_options(self._sess_options))
        return for_ranges(plain, model, self._sess_options, self._model.path)

    def _overridden(self, names: frozenset[str]) -> Executable | Ranged:
        """Returns the model with these initializers as inputs."""
        if not names:
            return self._executable
        if names not in self._overriding:
            changed = self._model.whole(names)
            with errors_of_onnxruntime():
                self._overriding[names] = self._compiled(changed)
        return self._overriding[names]


def compile_model(model: Path | bytes | onnx.ModelProto, threads: int | None, **sizes: Any) -> Executable:
    """Compiles a model through Stepwell's public interface; `sizes` are options about sizes that vary."""
    from ... import Options, compile  # programs that only import the drop-in need not load a compiler

    return compile(model, threads=threads, options=Options(**sizes))
