"""Checks programs of the stepwell dialect: MLIR's own verification first, then the rules that IRDL cannot express.

For each op of a dialect: the attributes are declared, have the declared kind and are one of the choices; the op's shape
function accepts the operands and agrees with the declared result types. A `?` in a type agrees with every number.

For every op: each discardable attribute `stepwell.*` is known, has its form, and is in one of its places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mlir import ir

from ..support.errors import StepwellError
from .core import DIALECTS, OPS, Op, OpError, check_extents, spec_of
from .discardable import PREFIX
from .discardable_attribute import ARGUMENT, DISCARDABLE, OF_MODEL, RESULT
from .registry import view_of
from .stepwell.shapes import may_equal
from .types import ElementTypeError, TensorSpec

_SEGMENTS = "operandSegmentSizes"
_FUNCTIONS = ("func.func", "llvm.func", "gpu.func")
_ARGUMENTS = (("arg_attrs", ARGUMENT), ("res_attrs", RESULT))


@dataclass(frozen=True)
class Violation:
    """One violation of the rules by an op.

    Attributes:
        location: location of the op.
        message: the error in MLIR's wording: `'stepwell.softmax' op axis 5 is out of range for rank 2`.
    """

    location: ir.Location
    message: str


class VerificationError(StepwellError):
    """A program breaks the rules; `violations` lists all violations that were found."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("\n".join(f"{violation.location}: error: {violation.message}" for violation in violations))
        self.violations = violations


def verify(root: ir.Module | ir.Operation | ir.OpView) -> None:
    """Checks everything inside `root`.

    Raises:
        VerificationError: a rule is broken. If MLIR itself finds an error, the dialect's own rules are not checked.
    """
    try:
        root.operation.verify()
    except ir.MLIRError as error:  # pyright: ignore[reportAttributeAccessIssue]
        found = [Violation(diagnostic.location, diagnostic.message) for diagnostic in error.error_diagnostics]
        # If the context sends diagnostics to a handler, the exception holds none.
        raise VerificationError(found or [Violation(root.operation.location, "is not valid")]) from error
    found = list(violations(root))
    if found:
        raise VerificationError(found)


def violations(root: ir.Module | ir.Operation | ir.OpView) -> Iterator[Violation]:
    """Yields the violations of the dialect's rules inside `root`, which MLIR has verified, in program order."""
    yield from _check_discardable(root.operation)
    yield from _check_inside(root.operation, {})


def _check_inside(operation: ir.Operation, specs: dict[ir.Value, TensorSpec]) -> Iterator[Violation]:
    for region in operation.regions:
        for block in region:
            yield from _impossible(block.arguments, operation)
            for view in block.operations:
                yield from _check(view.operation, specs)
                yield from _check_inside(view.operation, specs)


def _check(operation: ir.Operation, specs: dict[ir.Value, TensorSpec]) -> Iterator[Violation]:
    yield from _check_discardable(operation)
    if operation.name.split(".", 1)[0] not in DIALECTS:
        yield from _impossible(operation.results, operation)
        return
    op = view_of(operation)
    if op is None:
        return

    def spec(value: ir.Value) -> TensorSpec:
        if value not in specs:
            specs[value] = spec_of(value)
        return specs[value]

    try:
        check_op(op, spec)
    except (OpError, ElementTypeError) as error:
        yield Violation(operation.location, f"'{operation.name}' op {error}")


def _check_discardable(operation: ir.Operation) -> Iterator[Violation]:
    """Yields a violation for each unknown, ill-formed or misplaced discardable attribute `stepwell.*` of an op."""
    name, attributes = operation.name, operation.attributes
    for key in attributes:
        if key.startswith(PREFIX):
            places = (name, OF_MODEL) if name in OPS else (name,)
            yield from _misused(operation, key, lambda key=key: attributes[key], *places)
    for kind, place in _ARGUMENTS if name in _FUNCTIONS else ():
        for entry in ir.ArrayAttr(attributes[kind]) if kind in attributes else ():
            for item in ir.DictAttr(entry):
                if item.name.startswith(PREFIX):
                    yield from _misused(operation, item.name, lambda item=item: item.attr, place)


def _misused(operation: ir.Operation, name: str, read: Callable[[], ir.Attribute], *places: str) -> Iterator[Violation]:
    try:
        if name not in DISCARDABLE:
            raise OpError(f"unknown attribute '{name}'")
        DISCARDABLE[name].check(read(), *places)
    except TypeError as error:  # an attribute of a kind that MLIR's bindings cannot read
        yield Violation(operation.location, f"'{operation.name}' op attribute '{name}' cannot be read: {error}")
    except (OpError, ElementTypeError) as error:
        yield Violation(operation.location, f"'{operation.name}' op {error}")


def _impossible(values: Iterable[ir.Value], operation: ir.Operation) -> Iterator[Violation]:
    """Yields a violation for each value too large for any memory; LLVM would abort when its size overflows."""
    for value in values:
        if not isinstance(value.type, ir.RankedTensorType | ir.MemRefType):
            continue
        try:
            check_extents(tuple(max(size, 0) for size in value.type.shape))
        except OpError as error:
            yield Violation(operation.location, f"'{operation.name}' op {error}")


def check_op(op: Op, spec: Callable[[ir.Value], TensorSpec] = spec_of) -> None:
    """Checks one op by the rules of its class.

    Args:
        op: the op.
        spec: returns the spec of a value; by default the one that the IR alone gives.

    Raises:
        OpError: the op breaks them.
        ElementTypeError: a tensor has an element type that the dialect does not support.
    """
    _check_names(op)
    for value in (*op.operation.operands, *op.operation.results):
        if not isinstance(value.type, ir.RankedTensorType):
            raise OpError(f"takes and returns ranked tensors, but one is {value.type}")
    try:
        specs = op.infer_specs(spec)
    except ElementTypeError:
        raise
    except TypeError as error:  # an attribute of a kind that MLIR's bindings cannot read
        raise OpError(f"has an attribute that cannot be read: {error}") from error
    for result, inferred in zip(op.operation.results, specs, strict=True):
        _check_result(spec(result), inferred)


def _check_names(op: Op) -> None:
    known = {field.name for field in op.attribute_fields()}
    for name in op.operation.attributes:
        if name not in known and not name.startswith(PREFIX) and not (name == _SEGMENTS and op.has_segments()):
            raise OpError(f"has no attribute '{name}'")


def _check_result(declared: TensorSpec, inferred: TensorSpec) -> None:
    agrees = (
        declared.dtype == inferred.dtype
        and declared.rank == inferred.rank
        and all(map(may_equal, declared.shape, inferred.shape))
    )
    if not agrees:
        raise OpError(f"inferred type {inferred} differs from the declared {declared}")
