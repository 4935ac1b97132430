"""Compiles and runs an ONNX file, as a user does."""

from __future__ import annotations

from small_calls import compile_and_call as run

__all__ = ["run"]
