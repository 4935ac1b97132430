"""The pass `stepwell-specialize-shapes`: binds input shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects import dims
from ....dialects.core import OpError, check_extents
from ....dialects.dims import Dim, Symbolic
from ....dialects.types import TensorSpec
from ....support.wording import quantity
from ...infra.base import Pass, PassError, register
from ...infra.state import CompileState
from ...ir.functions import main_function
from .inference import infer_function, input_specs, is_settled

KEEP = "_"


@register
@dataclass(frozen=True)
class SpecializeShapesPass(Pass):
    """Bind the inputs of @main to static shapes, and infer everything that follows from them.

    A symbol that names several dimensions has one value everywhere. Without the option nothing is bound.

    ```mlir
    // stepwell-specialize-shapes{shapes=2x8}
    func.func @main(%x: tensor<?x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<?x8xf32>
    // -->
    func.func @main(%x: tensor<2x8xf32> {stepwell.dims = ["n", 8]}) -> tensor<2x8xf32>
    ```

    Attributes:
        shapes: one entry per input, such as 1x3x224x224; `_` leaves an input unchanged (also a scalar).
    """

    name = "stepwell-specialize-shapes"
    shapes: tuple[str, ...] = ()

    @classmethod
    def of(cls, shapes: Sequence[Sequence[int]]) -> SpecializeShapesPass:
        """The pass that binds the inputs to `shapes`."""
        return cls(tuple("x".join(map(str, shape)) or KEEP for shape in shapes))

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Binds the inputs, then infers @main."""
        if not self.shapes:
            return
        main = main_function(op)
        specs = [_tensor(spec, index) for index, spec in enumerate(input_specs(main))]
        if len(self.shapes) != len(specs):
            raise PassError(
                f"{quantity(len(self.shapes), 'shape')} given for {quantity(len(specs), 'input')}", main.location
            )
        bound = [_parse(text, spec, index) for index, (text, spec) in enumerate(zip(self.shapes, specs, strict=True))]
        values: dict[str, int] = {}
        for index, (spec, shape) in enumerate(zip(specs, bound, strict=True)):
            for dim, size in zip(spec.shape, shape, strict=True):
                _bind(values, dim, size, index)
        known = [spec.with_shape(tuple(dims.bind(dim, values) for dim in spec.shape)) for spec in specs]
        try:
            check_extents(*(spec.shape for spec in known))
        except OpError as error:
            raise PassError(f"an input: {error}") from error
        if known != specs or not is_settled(main):
            infer_function(main, known)


def _tensor(spec: TensorSpec | None, index: int) -> TensorSpec:
    if spec is None:
        raise PassError(f"input {index} is not a tensor")
    return spec


def _parse(text: str, spec: TensorSpec, index: int) -> tuple[Dim, ...]:
    if text == KEEP:
        return spec.shape
    sizes = text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise PassError(f"shape '{text}' of input {index} must be spelt like 1x3x224x224, or {KEEP}")
    if len(sizes) != spec.rank:
        raise PassError(f"input {index} has {spec.rank} dimensions, but shape {text} has {len(sizes)}")
    return tuple(map(int, sizes))


def _bind(values: dict[str, int], dim: Dim, size: Dim, index: int) -> None:
    if isinstance(dim, int) and dim != size:
        raise PassError(f"input {index} has a dimension of {dim} elements, which cannot be {size}")
    if isinstance(dim, int) or isinstance(size, Symbolic):
        return
    if values.setdefault(str(dim), size) != size:
        raise PassError(
            f"dimension '{dim}' is {values[str(dim)]}, but input {index} has {quantity(size, 'element')} there"
        )
