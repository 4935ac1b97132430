"""The IR: the declarative op layer, the stepwell dialect and its reference semantics."""

from ..support.interrupts import held_interrupts
from ..support.packages import require_compiler

require_compiler()
# MLIR's extension modules import Python modules while they load, and crash if such an import is interrupted.
with held_interrupts():
    import mlir.ir  # noqa: F401
