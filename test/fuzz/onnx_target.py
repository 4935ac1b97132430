"""What a user does with an ONNX file: compiles it and runs it."""

from __future__ import annotations

from small_calls import compile_and_call as run

__all__ = ["run"]
