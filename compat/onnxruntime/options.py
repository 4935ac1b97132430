"""`SessionOptions`, `RunOptions` and their enumerations: every setting can be read back.

Only `intra_op_num_threads`, `enable_profiling`, `optimized_model_filepath`, the free dimensions and the initializers
have an effect: the others tune parts that a compiled model does not have.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from .devices import PROVIDER
from .errors import InvalidArgument, NotImplemented, failure

if TYPE_CHECKING:
    from .values import OrtValue


class _Named(enum.IntEnum):
    """Numbers that print by name, as ONNX Runtime's do."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Named):
    """The level of graph optimisation; here always the highest."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    """The execution mode of independent nodes; here kernels run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """The order in which nodes run; here the compiler's."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(slots=True)
class SessionOptions:
    """The options of a session. As in ONNX Runtime, an unknown attribute is an error."""

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    free_dimensions: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    denoted_dimensions: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    initializers: dict[str, OrtValue] = field(default_factory=dict, init=False, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    providers: dict[str, dict[str, str]] = field(default_factory=dict, init=False, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Stores a setting by name."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Returns a setting by name.

        Raises:
            RuntimeError: it is not set.
        """
        return _entry(self, self._entries, key)

    def has_session_config_entry(self, key: str) -> bool:
        """Returns whether a setting is set."""
        return key in self._entries

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes a symbolic dimension, so that the model is compiled before the first run."""
        self.free_dimensions[name] = value

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fixes the dimensions of inputs that have a denotation."""
        self.denoted_dimensions[denotation] = value

    def add_initializer(self, name: str, ort_value: OrtValue) -> None:
        """Replaces the value of an initializer of the model."""
        self.initializers[name] = ort_value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Supplies the values of initializers that the model stores in other files."""
        self.initializers.update(zip(names, values, strict=True))

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[bytes], lengths: Sequence[int]
    ) -> None:
        """Supplies the contents of the files that contain the model's initializers, by file name."""
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self.files[name] = bytes(buffer)[:length]

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Requests a provider.

        Raises:
            InvalidArgument: it is not the CPU's.
        """
        if name != PROVIDER:
            raise failure(InvalidArgument, f"Failed to add provider of type '{name}' to SessionOptions.")
        self.providers[name] = dict(options)

    def add_provider_for_devices(self, devices: Sequence[Any], options: dict[str, str]) -> None:
        """Requests devices of `get_ep_devices`."""
        for device in devices:
            self.add_provider(device.ep_name, options)

    def has_providers(self) -> bool:
        """Returns whether providers were requested here."""
        return bool(self.providers)

    def register_custom_ops_library(self, path: str) -> NoReturn:
        """Rejects the library: operators in another runtime's machine code cannot be compiled.

        Raises:
            NotImplemented: always.
        """
        raise failure(NotImplemented, f"custom operators of {path} cannot be compiled")


@dataclass(slots=True)
class RunOptions:
    """The options of a run."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    training_mode: bool = False
    _entries: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Stores a setting by name."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Returns a setting by name.

        Raises:
            RuntimeError: it is not set.
        """
        return _entry(self, self._entries, key)


def _entry(options: SessionOptions | RunOptions, entries: dict[str, str], key: str) -> str:
    if key not in entries:
        raise RuntimeError(f"{type(options).__name__} does not have configuration with key: {key}")
    return entries[key]
