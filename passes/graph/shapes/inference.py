"""Shape inference over a program: derives the shape of every value from the shapes of the inputs.

One walk in program order. Small contents are propagated too, so that a shape which the model computes (shape_of,
gather, concat, reshape) becomes static where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from ....dialects import dims, discardable
from ....dialects.core import Op, OpError, spec_of
from ....dialects.dims import Dim
from ....dialects.registry import view_of
from ....dialects.types import TensorSpec, shape_of_type, spec_of_type, tensor_type
from ....sizes.algebra import UndecidedError
from ...infra.base import PassError
from ...ir.functions import dictionaries, update_type
from ...ir.rewriting import find_op
from ..control_flow import drop_casts, inline_branch
from .symbolic_contents import symbolic_contents

MAX_ELEMENTS = 1024
"""Maximum number of elements of contents that are propagated."""


class Inference:
    """The shapes and contents known for the values of a function; `run` infers them and refines the types in the IR."""

    def __init__(self) -> None:
        self.specs: dict[ir.Value, TensorSpec] = {}
        self.scalars: dict[ir.Value, int | float | bool] = {}
        self.decided: list[tuple[ir.Operation, bool]] = []

    def run(self, block: ir.Block) -> None:
        """Infers everything inside a block whose arguments are known.

        Raises:
            PassError: an op violates its invariants for the refined operands.
        """
        for operation in block.operations:
            op = operation.operation
            view = view_of(op)
            if view is not None:
                self._infer_op(op, view)
            elif op.name in _OTHERS:
                _OTHERS[op.name](self, op)
            elif op.regions:
                for region in op.regions:
                    for inner in region:
                        self.run(inner)

    def spec(self, value: ir.Value) -> TensorSpec:
        """The known shape and contents of a value."""
        known = self.specs.get(value)
        if known is None:
            known = self.specs[value] = spec_of(value)
        return known

    def refine(self, value: ir.Value, spec: TensorSpec) -> None:
        """Stores the shape and contents of a value, and updates its type."""
        self.specs[value] = spec
        kind = tensor_type(spec)
        if value.type != kind:
            value.set_type(kind)

    def _infer_op(self, op: ir.Operation, view: Op) -> None:
        try:
            specs = view.infer_specs(self.spec)
            if any(spec.value is None for spec in specs):
                specs = self._with_contents(view, specs)
            if len(specs) == 1 and specs[0].contents is None and _is_small(specs[0]):
                specs = (self._with_symbols(view, specs[0]),)
        except OpError as error:
            raise PassError(f"'{op.name}' {error}", op.location) from error
        except UndecidedError as error:
            vars(error)["location"] = op.location
            raise
        for result, spec in zip(op.results, specs, strict=True):
            self.refine(result, _prefer(spec, result))

    def _with_contents(self, view: Op, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        operands = list(view.operation.operands)
        if not operands or not all(map(_is_small, specs)):
            return specs
        contents = {value: array for value in operands if (array := self.spec(value).value) is not None}
        if any(value not in contents for value in operands):
            return specs
        if any(array.dtype == object or array.size > 4 * MAX_ELEMENTS for array in contents.values()):
            return specs
        arrays = view.evaluate(contents.__getitem__)
        return tuple(TensorSpec(spec.shape, spec.dtype, array) for spec, array in zip(specs, arrays, strict=True))

    def _with_symbols(self, view: Op, result: TensorSpec) -> TensorSpec:
        operands = [None if value is None else self.spec(value) for value in view.operand_values()]
        return symbolic_contents(view, operands, result)

    def _infer_extract(self, op: ir.Operation) -> None:
        contents = self.spec(op.operands[0]).value
        indices = [self.scalars.get(index) for index in list(op.operands)[1:]]
        if contents is not None and contents.dtype != object and None not in indices:
            self.scalars[op.results[0]] = contents[tuple(int(index or 0) for index in indices)].item()

    def _infer_scalar(self, op: ir.Operation) -> None:
        attr = op.attributes["value"]
        if isinstance(attr, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
            self.scalars[op.results[0]] = attr.value

    def _infer_cast(self, op: ir.Operation) -> None:
        if not isinstance(op.results[0].type, ir.RankedTensorType):
            return
        spec = self.spec(op.operands[0]) if isinstance(op.operands[0].type, ir.RankedTensorType) else None
        if spec is not None and spec.is_static and spec.rank == ir.RankedTensorType(op.results[0].type).rank:
            self.refine(op.results[0], spec)

    def _infer_if(self, op: ir.Operation) -> None:
        condition = self.scalars.get(op.operands[0])
        if condition is not None:
            self._infer_taken(op, bool(condition))
            return
        branches = [region.blocks[0] for region in op.regions if len(region.blocks)]
        for branch in branches:
            self.run(branch)
        yields = [list(_terminator(branch).operands) for branch in branches]
        for index, result in enumerate(op.results):
            if isinstance(result.type, ir.RankedTensorType):
                self._join(result, [values[index] for values in yields])

    def _infer_taken(self, op: ir.Operation, condition: bool) -> None:
        self.decided.append((op, condition))
        region = op.regions[0 if condition else 1]
        if not len(region.blocks):
            return
        self.run(region.blocks[0])
        for result, value in zip(op.results, _terminator(region.blocks[0]).operands, strict=True):
            if isinstance(result.type, ir.RankedTensorType):
                self.specs[result] = self.spec(value)
            elif value in self.scalars:
                self.scalars[result] = self.scalars[value]

    def _join(self, result: ir.Value, values: Sequence[ir.Value]) -> None:
        specs = [self.spec(value) for value in values]
        if all(spec.shape == specs[0].shape and all(map(dims.is_known, spec.shape)) for spec in specs):
            self.refine(result, specs[0].with_shape(specs[0].shape))
            return
        for value in values:
            if value.type != result.type:
                value.set_type(result.type)

    def _infer_for(self, op: ir.Operation) -> None:
        body = op.regions[0].blocks[0]
        self._infer_loop(op, [body], list(body.arguments)[1:], list(op.operands)[3:])

    def _infer_while(self, op: ir.Operation) -> None:
        before, after = (region.blocks[0] for region in op.regions)
        inits = list(op.operands)
        forwarded = list(_terminator(before).operands)[1:]
        if forwarded != list(before.arguments):
            raise PassError("'scf.while' op passes values to its body other than those it carries", op.location)
        self._infer_loop(op, [before, after], [*before.arguments, *after.arguments], inits)

    def _infer_loop(
        self, op: ir.Operation, blocks: Sequence[ir.Block], carried: Sequence[ir.Value], inits: Sequence[ir.Value]
    ) -> None:
        """Infers a loop whose blocks take `carried` as arguments; per block, these start as `inits`."""
        for index, argument in enumerate(carried):
            self._continue(argument, inits[index % len(inits)])
        for block in blocks:
            self.run(block)
        for init, value, result in zip(inits, _terminator(blocks[-1]).operands, op.results, strict=True):
            if value.type != init.type:
                message = f"a value that the loop carries changes its shape, from {init.type} to {value.type}"
                raise PassError(message, op.location)
            self._continue(result, init)

    def _continue(self, value: ir.Value, init: ir.Value) -> None:
        """Gives a value of a loop the shape of its initial value."""
        if isinstance(value.type, ir.RankedTensorType):
            self.refine(value, self.spec(init).with_shape(self.spec(init).shape))


def infer_function(function: ir.Operation, inputs: Sequence[TensorSpec | None]) -> Inference:
    """Infers all of a function, refines its type, and inlines branches whose condition is known.

    Args:
        function: a `func.func` with a body.
        inputs: the known shape and contents of each argument, None for one that is not a tensor.

    Raises:
        PassError: an op violates its invariants for the refined operands.
    """
    inference = Inference()
    block = function.regions[0].blocks[0]
    for argument, spec in zip(block.arguments, inputs, strict=True):
        if spec is not None:
            inference.refine(argument, spec)
    inference.run(block)
    # Inner branches come after the outer ones that contain them, so they are inlined first.
    for op, condition in reversed(inference.decided):
        inline_branch(op, condition)
    drop_casts(function)
    update_type(function)
    return inference


def is_settled(function: ir.Operation) -> bool:
    """Returns whether inference would find nothing new: all shapes are static, and there are no branches."""
    arguments = function.regions[0].blocks[0].arguments
    return not any(_is_dynamic(value.type) for value in arguments) and find_op(function, _is_open) is None


def _is_open(op: ir.Operation) -> bool:
    if op.name in _OPEN:
        return True
    return any(_is_dynamic(value.type) for value in op.results)


def _is_dynamic(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape


def input_specs(function: ir.Operation) -> list[TensorSpec | None]:
    """The shapes from a function's argument types, with the symbols in `stepwell.dims`; None if not a tensor."""
    arguments = function.regions[0].blocks[0].arguments
    return [
        _named(argument.type, attributes) if isinstance(argument.type, ir.RankedTensorType) else None
        for argument, attributes in zip(arguments, dictionaries(function, "arg_attrs"), strict=True)
    ]


def _named(kind: ir.Type, attributes: ir.DictAttr) -> TensorSpec:
    spec = spec_of_type(kind)
    names = discardable.DIMS.read(attributes)
    if names is None:
        return spec
    shape: list[Dim] = []
    for dim, name in zip(spec.shape, names, strict=True):
        shape.append(dims.named(name) if isinstance(name, str) and not dims.is_known(dim) else dim)
    return spec.with_shape(tuple(shape))


def _is_small(spec: TensorSpec) -> bool:
    count = dims.product(spec.shape)
    return isinstance(count, int) and count <= MAX_ELEMENTS


def _prefer(spec: TensorSpec, value: ir.Value) -> TensorSpec:
    """`spec`, with dimensions from the existing type where inference knows less."""
    kind = ir.RankedTensorType(value.type)
    if spec.is_static or kind.rank != spec.rank:
        return spec
    pairs = zip(spec.shape, shape_of_type(kind), strict=True)
    shape = tuple(
        old if not isinstance(dim, int) and (isinstance(old, int) or not dims.is_known(dim)) else dim
        for dim, old in pairs
    )
    return spec if shape == spec.shape else TensorSpec(shape, spec.dtype, spec.value, spec.symbols)


def _terminator(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


_OTHERS: dict[str, Callable[[Inference, ir.Operation], None]] = {
    "tensor.extract": Inference._infer_extract,
    "arith.constant": Inference._infer_scalar,
    "tensor.cast": Inference._infer_cast,
    "scf.if": Inference._infer_if,
    "scf.for": Inference._infer_for,
    "scf.while": Inference._infer_while,
}
_OPEN = frozenset({"scf.if", "scf.for", "scf.while", "tensor.cast"})
