"""A drop-in for the module `onnxruntime`: programs written for it run on Stepwell unchanged.

    import stepwell.compat.onnxruntime
    stepwell.compat.onnxruntime.install()   # before the program imports onnxruntime

or `python -m stepwell.compat.onnxruntime program.py`, or in your own program
`import stepwell.compat.onnxruntime as onnxruntime`.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

from .. import start
from . import devices, errors, modules
from .binding import IOBinding, SessionIOBinding
from .described import Session
from .devices import (
    PROVIDER,
    OrtAllocatorType,
    OrtArenaCfg,
    OrtDevice,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtEpDevice,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    OrtMemoryInfo,
    OrtMemType,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    get_ep_devices,
)
from .options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .providers import normalized
from .session import InferenceSession
from .values import ModelMetadata, NodeArg, OrtValue, OrtValueVector

__version__ = "1.31.1"
"""The version of ONNX Runtime whose interface this implements; programs compare it."""

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpDevice",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]


def install(children: bool = True) -> None:
    """Makes `import onnxruntime` return this module, in this process and in those it starts.

    ONNX Runtime's pure Python parts (quantization, transformers, tools) are imported from it if it is installed too,
    and run on Stepwell.

    Args:
        children: whether to set `STEPWELL_DROP_IN` in the environment, so that processes started from now on use the
            drop-in too. Forked processes always do.

    Raises:
        RuntimeError: the original onnxruntime has been imported already.
    """
    modules.install(sys.modules[__name__], capi)
    if children:
        start.inherit()


def __getattr__(name: str) -> ModuleType:
    return modules.borrowed(sys.modules[__name__], name)


def get_available_providers() -> list[str]:
    """Returns the providers that models can run on."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """Returns the providers that models can run on."""
    return [PROVIDER]


def get_device() -> str:
    """Returns the kind of device that models run on."""
    return "CPU"


def get_build_info() -> str:
    """Returns the name and version of this drop-in."""
    return f"Stepwell's drop-in for ONNX Runtime {__version__}"


def get_version_string() -> str:
    """Returns the version of the interface."""
    return __version__


def set_default_logger_severity(severity: int) -> None:
    """Accepts the level without effect; Stepwell raises or warns, and logs nothing."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepts the level without effect; Stepwell raises or warns, and logs nothing."""


def set_seed(seed: int) -> None:
    """Accepts the seed without effect; compiled models draw no random numbers."""


def disable_telemetry_events() -> None:
    """Does nothing: there is no telemetry."""


def enable_telemetry_events() -> None:
    """Does nothing: there is no telemetry."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Does nothing: there are no libraries of another device to load."""


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Accepts the sizes without effect; sessions have threads of their own."""


def has_collective_ops() -> bool:
    """Returns False: models do not run on several machines."""
    return False


def get_default_session_options() -> SessionOptions:
    """Returns the default options."""
    return SessionOptions()


def copy_tensors(src: list[OrtValue], dst: list[OrtValue], stream: object = None) -> None:
    """Copies the contents of values to other values."""
    for source, target in zip(src, dst, strict=True):
        np.copyto(target.numpy(), source.numpy())


def print_debug_info() -> None:
    """Prints the name and version of this drop-in."""
    print(get_build_info())


_OUTER = ("capi", "install", "preload_dlls", "print_debug_info")
_INNER = (OrtValueVector, Session, devices.get_ort_device_type, get_default_session_options)
"""Names in the outer module only (`_OUTER`), and objects in the inner modules only (`_INNER`)."""

capi = modules.inner_modules(
    {name: globals()[name] for name in __all__ if name not in _OUTER}
    | {item.__name__: item for item in _INNER}
    | {key: value for key, value in vars(errors).items() if isinstance(value, type)}
    | {"check_and_normalize_provider_args": normalized}
)
