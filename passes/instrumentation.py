"""What can watch a pipeline run: hooks before and after every pass on every op."""

from __future__ import annotations

from mlir import ir

from .base import Pass
from .pipeline import Upstream

Step = Pass | Upstream


class Instrumentation:
    """Base of what watches a pipeline; override the hooks that matter."""

    def before_pass(self, step: Step, op: ir.Operation) -> None:
        """`step` is about to run on `op`."""

    def after_pass(self, step: Step, op: ir.Operation) -> None:
        """`step` has run on `op`, and the IR is valid."""

    def after_pass_failed(self, step: Step, op: ir.Operation) -> None:
        """`step` has failed on `op`; the IR may be anything."""
