"""The IR: the declarative op layer, the stepwell dialect and its reference semantics."""

from ..support.interrupts import held_interrupts

# MLIR's extension modules import Python modules while they load, and crash if such an import is interrupted.
with held_interrupts():
    try:
        import mlir.ir  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("mlir", "mlir.ir"):
            raise
        raise ModuleNotFoundError(
            "the compiler needs MLIR's bindings, which are not installed (stepwell-runtime runs compiled models only): "
            "run `pip install .` in a checkout of Stepwell",
            name="mlir",
        ) from None
