"""A drop-in for the module `onnxruntime`: programs written for it run on Stepwell unchanged.

    import stepwell.compat.onnxruntime
    stepwell.compat.onnxruntime.install()   # before the program imports onnxruntime

or, in a program of one's own, `import stepwell.compat.onnxruntime as onnxruntime`.
"""

from __future__ import annotations

import sys
import types

from . import errors
from .options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .session import PROVIDER, InferenceSession
from .values import IOBinding, ModelMetadata, NodeArg, OrtValue

__version__ = "1.23.0"
"""The version of ONNX Runtime whose interface this is: programs compare it."""

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "capi",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]

SessionIOBinding = IOBinding


def install() -> None:
    """Makes `import onnxruntime` give this module, in this process.

    Raises:
        RuntimeError: the true onnxruntime has been imported already.
    """
    here = sys.modules[__name__]
    if sys.modules.get("onnxruntime", here) is not here:
        raise RuntimeError("onnxruntime is imported already: call install() before the first import of it")
    sys.modules["onnxruntime"] = here
    sys.modules["onnxruntime.capi"] = capi
    for name, module in vars(capi).items():
        if isinstance(module, types.ModuleType):
            sys.modules[f"onnxruntime.capi.{name}"] = module


def get_available_providers() -> list[str]:
    """What models can run on."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """What models can run on."""
    return [PROVIDER]


def get_device() -> str:
    """The kind of device that models run on."""
    return "CPU"


def get_build_info() -> str:
    """What this is."""
    return f"Stepwell's drop-in for ONNX Runtime {__version__}"


def get_version_string() -> str:
    """The version of the interface."""
    return __version__


def set_default_logger_severity(severity: int) -> None:
    """Takes the level; Stepwell raises or warns, and logs nothing."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Takes the level; Stepwell raises or warns, and logs nothing."""


def set_seed(seed: int) -> None:
    """Takes the seed; compiled models draw no random numbers."""


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def enable_telemetry_events() -> None:
    """There is no telemetry."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """There are no libraries of another device to load."""


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Takes the sizes; sessions have threads of their own."""


def has_collective_ops() -> bool:
    """Whether models may run on several machines: they do not."""
    return False


def get_default_session_options() -> SessionOptions:
    """Options as they are by default."""
    return SessionOptions()


_FUNCTIONS = (
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_default_session_options,
    get_device,
    get_version_string,
    has_collective_ops,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
"""What programs also call by its inner name."""


def _capi() -> types.ModuleType:
    """`onnxruntime.capi`, through which programs reach exceptions and classes by their inner names."""
    package = types.ModuleType("onnxruntime.capi", "Inner names of ONNX Runtime that programs import.")
    package.__path__ = []
    for name in ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection"):
        module = types.ModuleType(f"onnxruntime.capi.{name}", package.__doc__)
        public = {key: value for key, value in vars(errors).items() if isinstance(value, type)}
        names = (ExecutionMode, GraphOptimizationLevel, InferenceSession, ModelMetadata, NodeArg, OrtValue)
        public |= {item.__name__: item for item in (*names, RunOptions, SessionOptions, IOBinding)}
        public |= {function.__name__: function for function in _FUNCTIONS} | {"SessionIOBinding": IOBinding}
        vars(module).update(public)
        setattr(package, name, module)
    return package


capi = _capi()
