"""Models of other formats as MLIR, which is reduced instead of their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlir import ir

from ...dialects.stepwell.constant import ConstantOp, ParameterOp
from ...driver.sources.reading import read_source
from ...passes.ir.named_ops import ops_named
from ...support.formats import known_suffixes
from .case import ReduceError


def imported_text(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    """Imports a model by the frontend of its format; returns the text of the module, with its parameters as constants.

    Raises:
        ReduceError: no frontend imports files of this suffix.
        ModelError: the model cannot be imported.
    """
    source = read_source(path)
    if path.suffix not in known_suffixes():
        known = ", ".join(known_suffixes())
        raise ReduceError(f"{path}: no installed package imports '{path.suffix}' files, only {known}")
    context = ir.Context()
    with context:
        imported = source.import_into(context, shapes, {})
        for op in ops_named(imported.module.operation, ParameterOp.OPERATION_NAME):
            array = imported.parameters.get(ParameterOp(op).name)
            if array is not None:
                with op.location, ir.InsertionPoint(op):
                    op.results[0].replace_all_uses_with(ConstantOp(value=array).result)
                op.erase()
        return str(imported.module.operation.get_asm(enable_debug_info=True)).encode()
