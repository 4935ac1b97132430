"""Stepwell: a multi-level ML compiler on the upstream MLIR bindings, which explains itself at every level.

import stepwell

model = stepwell.compile("model.onnx")
outputs = model(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .checks import Report, check
    from .compiler import Options, compile, load
    from .frontend.errors import ModelError
    from .lowering.llvm_to_object.codegen import CodegenError
    from .lowering.target import TargetError
    from .passes.base import PassError
    from .passes.failure import CompileError, Failure
    from .passes.guarded import CompilerCrash
    from .passes.runner import PassFailure
    from .runtime.cache_key import CacheMissError
    from .runtime.errors import ArtefactError, CapacityError, GuardError, InputError, RuntimeFailure, ShapeError
    from .runtime.executable import Executable
    from .runtime.fallback import Fallback, FallbackWarning
    from .runtime.program import TensorInfo
    from .runtime.slow import SlowWarning
    from .source import SourceError

__all__ = [
    "ArtefactError",
    "CacheMissError",
    "CapacityError",
    "CodegenError",
    "CompileError",
    "CompilerCrash",
    "Executable",
    "Failure",
    "Fallback",
    "FallbackWarning",
    "GuardError",
    "InputError",
    "ModelError",
    "Options",
    "PassError",
    "PassFailure",
    "Report",
    "RuntimeFailure",
    "ShapeError",
    "SlowWarning",
    "SourceError",
    "TargetError",
    "TensorInfo",
    "__version__",
    "check",
    "compile",
    "load",
]

# Looked up when first used: what only runs compiled models needs neither the compiler nor MLIR.
_HOME = {
    "Options": "compiler",
    "Report": "checks",
    "check": "checks",
    "compile": "compiler",
    "load": "compiler",
    "SourceError": "source",
    "ModelError": "frontend.errors",
    "CompileError": "passes.failure",
    "CompilerCrash": "passes.guarded",
    "Failure": "passes.failure",
    "PassError": "passes.base",
    "PassFailure": "passes.runner",
    "TargetError": "lowering.target",
    "CodegenError": "lowering.llvm_to_object.codegen",
    "CacheMissError": "runtime.cache_key",
    "ArtefactError": "runtime.errors",
    "CapacityError": "runtime.errors",
    "GuardError": "runtime.errors",
    "InputError": "runtime.errors",
    "RuntimeFailure": "runtime.errors",
    "ShapeError": "runtime.errors",
    "Executable": "runtime.executable",
    "Fallback": "runtime.fallback",
    "FallbackWarning": "runtime.fallback",
    "SlowWarning": "runtime.slow",
    "TensorInfo": "runtime.program",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'stepwell' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
