"""`stepwell.export_onnx`: a model of any frontend as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..support.errors import OptionError
from .sources.reading import read_source
from .sources.torch import TorchSource

if TYPE_CHECKING:
    import onnx

    from ..runtime.program import Shape, TensorInfo

_UNLIMITED = 1 << 30
"""Upper bound of a size without a limit: above all real sizes, and far below the ends of slices "to the end"."""


def export_onnx(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    shapes: Mapping[str, Shape] | None = None,
) -> onnx.ModelProto:
    """Writes a model as ONNX, so that other runtimes run it too.

    The model is what `stepwell.compile` takes: a module or program of torch, a `.pt2`, `.mlir` or GGUF file. Dimensions
    that vary keep their names. Weights that are packed in few bits stay packed (`MatMulNBits`).

    Args:
        model: the model.
        args: example arguments with which a module of torch is exported.
        kwargs: example keyword arguments of it.
        dynamic_shapes: the dimensions of these arguments that may vary, as `torch.export.export` takes them.
        shapes: shapes of inputs by name, instead of those that the model declares.

    Raises:
        SourceError, ModelError: the argument is not a model, or cannot be imported.
        OptionError: an input does not exist or has another rank, or example arguments are given without a module.
        NoOnnxFormError: an op has no form in ONNX; names the node of the model.
    """
    from mlir import ir

    from ..dialects import discardable
    from ..dialects.dims import limits_of, named
    from ..dialects.types import TensorSpec, tensor_type
    from ..frontend.onnx.writing.pipelines import writable_pipeline
    from ..frontend.onnx.writing.write import write_model
    from ..passes.ir.functions import body_of, main_function, update_type
    from ..sizes.assumptions import assuming
    from .context import compiler_context
    from .state import state_for

    source = replace(read_source(model, args, kwargs, dynamic_shapes), keeps_weights=True)
    program = source.program if isinstance(source, TorchSource) else None
    inputs, _ = source.interface()
    known = _shapes(inputs, shapes or {})
    ranges = {} if program is None else program.interface.ranges
    names = {dim: named(dim) for shape in known.values() for dim in shape if isinstance(dim, str)}
    limits = {name: (max(low, 1), _UNLIMITED if high is None else high, 1) for name, (low, high) in ranges.items()}
    limits = {name: limits.get(name, (1, _UNLIMITED, 1)) for name in names}
    with compiler_context() as context, ir.Location.unknown(), assuming(limits_of(limits)):
        symbolic: dict[str, tuple[Any, ...]] = {
            name: tuple(names[dim] if isinstance(dim, str) else dim for dim in shape) for name, shape in known.items()
        }
        imported = source.import_into(context, symbolic, {})
        main = main_function(imported.module.operation)
        for argument, info in zip(body_of(main).arguments, inputs, strict=True):
            argument.set_type(tensor_type(TensorSpec(symbolic[info.name], info.dtype)))
        update_type(main)
        discardable.RANGES.write(imported.module.operation, limits)
        state = state_for("cpu", parameters=dict(imported.parameters))
        writable_pipeline().run(imported.module, state=state)
        return write_model(main, state.parameters or {}, imported.info)


def _shapes(inputs: Sequence[TensorInfo], given: Mapping[str, Shape]) -> dict[str, tuple[int | str, ...]]:
    """The shapes of all inputs: those given, else those that the model declares."""
    declared = {info.name: tuple(info.shape) for info in inputs}
    for name, shape in given.items():
        if name not in declared:
            raise OptionError(f"shapes: there is no input '{name}'; the inputs are {', '.join(declared)}")
        if len(shape) != len(declared[name]):
            raise OptionError(f"shapes: input '{name}' has rank {len(declared[name])}, not {len(shape)}")
        declared[name] = tuple(shape)
    return declared
