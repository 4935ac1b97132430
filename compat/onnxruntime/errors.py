"""The exceptions of `onnxruntime.capi.onnxruntime_pybind11_state`, which programs import by name."""

from __future__ import annotations

from ...support.errors import StepwellError


class Fail(StepwellError):
    """A model failed to compile or to run."""


class InvalidArgument(StepwellError):
    """A run's inputs or outputs do not match the model's."""


class NoSuchFile(StepwellError):
    """The model's file does not exist."""


class NoModel(StepwellError):
    """No model was given."""


class EngineError(StepwellError):
    """Never raised here."""


class RuntimeException(StepwellError):
    """Never raised here."""


class InvalidProtobuf(StepwellError):
    """The model is not ONNX."""


class ModelLoaded(StepwellError):
    """Never raised here."""


class NotImplemented(StepwellError):
    """The model uses a feature that cannot be compiled."""


class InvalidGraph(StepwellError):
    """The model violates ONNX's rules."""


class EPFail(StepwellError):
    """Never raised here."""


class ModelLoadCanceled(StepwellError):
    """Never raised here."""


class ModelRequiresCompilation(StepwellError):
    """Never raised here."""


class NotFound(StepwellError):
    """Never raised here."""


_CODES = {
    Fail: (1, "FAIL"),
    InvalidArgument: (2, "INVALID_ARGUMENT"),
    NoSuchFile: (3, "NO_SUCHFILE"),
    NoModel: (4, "NO_MODEL"),
    InvalidProtobuf: (7, "INVALID_PROTOBUF"),
    NotImplemented: (9, "NOT_IMPLEMENTED"),
    InvalidGraph: (10, "INVALID_GRAPH"),
}


def failure(kind: type[Exception], message: str) -> Exception:
    """Returns an exception whose message begins as in ONNX Runtime, since some programs check that."""
    code, name = _CODES[kind]
    return kind(f"[ONNXRuntimeError] : {code} : {name} : {message}")
