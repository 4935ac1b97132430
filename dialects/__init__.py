"""What the IR can say: the declarative op layer, the stepwell dialect and its reference semantics."""

from ..runtime.interrupts import held_interrupts

# Its extensions import Python modules while they are imported, and crash where one of these is interrupted.
with held_interrupts():
    import mlir.ir  # noqa: F401
