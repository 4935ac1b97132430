"""`SessionOptions`, `RunOptions` and their enumerations: every setting that programs make can be read back.

Only `intra_op_num_threads`, `enable_profiling` and the free dimensions change what happens: the rest tunes parts that a
compiled model does not have.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NoReturn

from .errors import NotImplemented, failure


class GraphOptimizationLevel(enum.IntEnum):
    """How far graphs are optimised; here always all the way."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether independent nodes run at once; here kernels run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """In which order nodes run; here the compiler's."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(slots=True)
class SessionOptions:
    """What a session is asked for. As in ONNX Runtime, an unknown attribute is an error."""

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

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps a setting by name."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """A setting by name.

        Raises:
            Fail: it was not made.
        """
        return _entry(self._entries, key)

    def has_session_config_entry(self, key: str) -> bool:
        """Whether a setting was made."""
        return key in self._entries

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes a symbolic dimension, so that the model is compiled before the first run."""
        self.free_dimensions[name] = value

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Takes the size; dimensions are known by their names."""

    def has_providers(self) -> bool:
        """Whether providers were added here: none can be."""
        return False

    def register_custom_ops_library(self, path: str) -> NoReturn:
        """Refuses: operators in another runtime's machine code cannot be compiled.

        Raises:
            NotImplemented: always.
        """
        raise failure(NotImplemented, f"custom operators of {path} cannot be compiled")


@dataclass(slots=True)
class RunOptions:
    """What a run is asked for."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    training_mode: bool = False
    _entries: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keeps a setting by name."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """A setting by name.

        Raises:
            Fail: it was not made.
        """
        return _entry(self._entries, key)


def _entry(entries: dict[str, str], key: str) -> str:
    if key not in entries:
        raise RuntimeError(f"'{key}' was not set")
    return entries[key]
