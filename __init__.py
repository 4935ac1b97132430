"""Stepwell: a multi-level ML compiler on the upstream MLIR bindings, with inspectable IR at every level.

import stepwell

model = stepwell.compile("model.onnx")
outputs = model(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .support.version import VERSION as __version__

if TYPE_CHECKING:
    from . import lm as lm
    from .driver.api import compile, load
    from .driver.caching.cache_key import CacheMissError
    from .driver.check import Report, check
    from .driver.onnx_export import export_onnx
    from .driver.options import At, Options
    from .driver.sources.source import SourceError
    from .frontend.errors import ModelError
    from .frontend.onnx.writing.onnx_form import NoOnnxFormError
    from .frontend.torch.record import torch_report
    from .lowering.llvm_to_object.codegen import CodegenError
    from .lowering.target_names import TargetError
    from .passes.infra.base import PassError
    from .passes.infra.entry_points import PluginWarning
    from .passes.infra.failure import CompileError, Failure
    from .passes.infra.guarded import CompilerCrash
    from .passes.infra.runner import PassFailure
    from .quantization.float_model import QuantizationError
    from .quantization.options import QuantizationOptions
    from .quantization.quantize import QuantizedModel, quantize
    from .runtime.executable import Executable
    from .runtime.host.fallback import Fallback, FallbackWarning
    from .runtime.program import TensorInfo
    from .runtime.progress.events import Progress
    from .runtime.trainer import Trainer
    from .support.errors import (
        ArtefactError,
        CapacityError,
        DataError,
        GuardError,
        InputError,
        OptionError,
        RuntimeFailure,
        ShapeError,
        SlowWarning,
        StepwellError,
        StepwellWarning,
    )
    from .support.packages import MissingPackageError
    from .training.trainer import trainer
    from .training.value_and_grad import value_and_grad

__all__ = [
    "ArtefactError",
    "At",
    "CacheMissError",
    "CapacityError",
    "CodegenError",
    "CompileError",
    "CompilerCrash",
    "DataError",
    "Executable",
    "Failure",
    "Fallback",
    "FallbackWarning",
    "GuardError",
    "InputError",
    "MissingPackageError",
    "ModelError",
    "NoOnnxFormError",
    "OptionError",
    "Options",
    "PassError",
    "PassFailure",
    "PluginWarning",
    "Progress",
    "QuantizationError",
    "QuantizationOptions",
    "QuantizedModel",
    "Report",
    "RuntimeFailure",
    "ShapeError",
    "SlowWarning",
    "SourceError",
    "StepwellError",
    "StepwellWarning",
    "TargetError",
    "TensorInfo",
    "Trainer",
    "__version__",
    "check",
    "compile",
    "export_onnx",
    "load",
    "quantize",
    "torch_report",
    "trainer",
    "value_and_grad",
]

# Imported at first use: running compiled models needs neither the compiler nor MLIR.
_HOME = {
    "At": "driver.options",
    "Options": "driver.options",
    "Report": "driver.check",
    "check": "driver.check",
    "compile": "driver.api",
    "export_onnx": "driver.onnx_export",
    "load": "driver.api",
    "quantize": "quantization.quantize",
    "QuantizedModel": "quantization.quantize",
    "QuantizationError": "quantization.float_model",
    "QuantizationOptions": "quantization.options",
    "torch_report": "frontend.torch.record",
    "SourceError": "driver.sources.source",
    "ModelError": "frontend.errors",
    "NoOnnxFormError": "frontend.onnx.writing.onnx_form",
    "CompileError": "passes.infra.failure",
    "CompilerCrash": "passes.infra.guarded",
    "Failure": "passes.infra.failure",
    "PassError": "passes.infra.base",
    "PassFailure": "passes.infra.runner",
    "TargetError": "lowering.target_names",
    "CodegenError": "lowering.llvm_to_object.codegen",
    "CacheMissError": "driver.caching.cache_key",
    "ArtefactError": "support.errors",
    "MissingPackageError": "support.packages",
    "CapacityError": "support.errors",
    "DataError": "support.errors",
    "GuardError": "support.errors",
    "InputError": "support.errors",
    "RuntimeFailure": "support.errors",
    "ShapeError": "support.errors",
    "OptionError": "support.errors",
    "StepwellError": "support.errors",
    "StepwellWarning": "support.errors",
    "Executable": "runtime.executable",
    "Fallback": "runtime.host.fallback",
    "FallbackWarning": "runtime.host.fallback",
    "PluginWarning": "passes.infra.entry_points",
    "Progress": "runtime.progress.events",
    "SlowWarning": "support.errors",
    "TensorInfo": "runtime.program",
    "Trainer": "runtime.trainer",
    "trainer": "training.trainer",
    "value_and_grad": "training.value_and_grad",
}

_ROOMS = ("lm", "training")
"""Rooms that have a public interface of their own."""


def __getattr__(name: str) -> Any:
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'stepwell' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))})
