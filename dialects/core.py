"""The declarative op layer: an op is a class, and everything else about the op comes from that class.

    class SoftmaxOp(Op):
        \"\"\"Softmax along `axis`.\"\"\"

        OPERATION_NAME = "stepwell.softmax"
        input = operand()
        axis = attribute(int, default=-1)
        result = result()

        @staticmethod
        def infer(input: TensorSpec, *, axis: int) -> TensorSpec: ...

        @staticmethod
        def reference(input: np.ndarray, *, axis: int) -> np.ndarray: ...

The fields give the IRDL definition, the accessors and the builder `SoftmaxOp(x, axis=1)`, which infers its result
types. `infer` gives verification and shape inference; `reference` gives constant folding and the interpreter.
`infer` and `reference` take operands by position (an absent optional one as None) and attributes by keyword. `infer`
raises OpError if the op is invalid. Fields are declared in the order in which MLIR stores them.

The number of operands of an op is fixed: IRDL requires all values of a variadic group to have the same type, which the
operands of a concat do not have.
"""

from __future__ import annotations

import functools
import inspect
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from mlir import ir
from mlir._mlir_libs import _mlir
from mlir.dialects import irdl

from ..support.wording import quantity
from .attributes import AttributeField, OpError, attribute
from .dims import MAX_RANK, Shape
from .types import TensorSpec, array_of, spec_of_type, tensor_type

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

__all__ = [
    "AttributeField",
    "Dialect",
    "KernelTraits",
    "Op",
    "OpError",
    "OperandField",
    "ResultField",
    "Rounding",
    "attribute",
    "operand",
    "optional_operand",
    "result",
    "spec_of",
]


class OperandField:
    """One operand of an op."""

    def __init__(self, is_optional: bool, doc: str) -> None:
        self.is_optional, self.doc, self.name = is_optional, doc, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, op: Op | None, owner: type) -> Any:
        if op is None:
            return self
        values = op.operand_values() if owner.has_optional_operands else op.operation.operands
        return values[owner.places[self.name]]


class ResultField:
    """One result of an op."""

    def __init__(self, doc: str) -> None:
        self.doc, self.name = doc, ""

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        return self if op is None else op.operation.results[owner.places[self.name]]


def operand(doc: str = "") -> Any:
    """Declares a required operand."""
    return OperandField(False, doc)


def optional_operand(doc: str = "") -> Any:
    """Declares an operand that may be absent (None)."""
    return OperandField(True, doc)


def result(doc: str = "") -> Any:
    """Declares a result."""
    return ResultField(doc)


class Rounding(Enum):
    """Possible differences between floating-point results of an op and its reference."""

    EXACT = "exact"
    """Moves, selects or compares values: no difference."""
    ROUNDED = "rounded"
    """A function with a stated error bound."""
    SUM = "sum"
    """Adds terms in an unspecified order: no error bound is stated."""


@dataclass(frozen=True)
class KernelTraits:
    """Traits of the kernel that an op becomes, alone or as the heaviest op of a kernel.

    Attributes:
        kind: class of the kernel, which decides what fuses with it, how it is lowered and its schedule.
        works_on_views: whether the kernel reads parts of larger tensors, and writes into one, as fast as whole tensors.
    """

    kind: str
    works_on_views: bool = False


class Op(ir.OpView):
    """Base of every op that is declared in Python. All of them are pure.

    Attributes:
        KERNEL: traits of the kernel that the op becomes; None for an op that is no work or is decomposed before.
        ROUNDING: how floating-point results may differ from the reference.
        places: index of each operand among the operands and of each result among the results, by name.
        has_optional_operands: whether some operand may be absent.
    """

    OPERATION_NAME: ClassVar[str]
    KERNEL: ClassVar[KernelTraits | None] = None
    ROUNDING: ClassVar[Rounding] = Rounding.EXACT
    # Fields of these names replace OpView's properties.
    result: Any  # pyright: ignore[reportIncompatibleMethodOverride]
    name: Any  # pyright: ignore[reportIncompatibleMethodOverride]
    infer: ClassVar[Callable[..., Any]]
    reference: ClassVar[Callable[..., Any]]
    places: ClassVar[dict[str, int]]
    has_optional_operands: ClassVar[bool]

    def __init_subclass__(cls, **options: Any) -> None:
        """Caches the properties that every field access needs."""
        super().__init_subclass__(**options)
        kinds = (cls.operand_fields(), cls.result_fields())
        cls.places = {field.name: place for kind in kinds for place, field in enumerate(kind)}
        cls.has_optional_operands = any(field.is_optional for field in cls.operand_fields())

    def __init__(
        self, *operands: Any, loc: ir.Location | None = None, ip: ir.InsertionPoint | None = None, **attributes: Any
    ):
        """Builds the op at the insertion point with inferred result types, or views an existing operation of this kind.

        An operand is a value, or an op with one result. A single operand that is an op of this same kind is viewed.

        Raises:
            OpError: the operands or attributes are not valid for the op.
        """
        if len(operands) == 1 and not attributes and self._is_mine(operands[0]):
            super().__init__(operands[0].operation)
            return
        super().__init__(type(self)._create(operands, attributes, loc, ip))

    @classmethod
    def of(cls, operation: ir.Operation) -> Self:
        """Views an operation that is known to be of this kind."""
        view = cls.__new__(cls)
        ir.OpView.__init__(view, operation)
        return view

    @classmethod
    def _is_mine(cls, item: Any) -> bool:
        return isinstance(item, ir.Operation | ir.OpView) and item.operation.name == cls.OPERATION_NAME

    @classmethod
    def _create(cls, operands: Sequence[Any], attributes: dict[str, Any], loc: Any, ip: Any) -> ir.Operation:
        fields = cls.operand_fields()
        if len(operands) > len(fields):
            raise OpError(f"takes {quantity(len(fields), 'operand')}, but {len(operands)} were given")
        values = [item if item is None or isinstance(item, ir.Value) else item.result for item in operands]
        values += [None] * (len(fields) - len(values))
        for field, value in zip(fields, values, strict=True):
            if value is None and not field.is_optional:
                raise OpError(f"operand '{field.name}' is missing")
        keywords = cls._complete(attributes)
        specs = _as_tuple(cls.infer(*[None if value is None else spec_of(value) for value in values], **keywords))
        check_extents(*(spec.shape for spec in specs))
        encoded = {
            field.name: field.write(keywords[field.name])
            for field in (cls.attribute_fields() if attributes else ())
            if field.name in attributes
        }
        if cls.has_segments():
            encoded["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([int(value is not None) for value in values])
        return ir.Operation.create(
            cls.OPERATION_NAME,
            results=[tensor_type(spec) for spec in specs],
            operands=[value for value in values if value is not None],
            attributes=encoded,
            loc=loc,
            ip=ip,
        )

    @classmethod
    def _complete(cls, attributes: dict[str, Any]) -> dict[str, Any]:
        """Checks the given attributes and adds the defaults of the others."""
        complete = cls._defaults().copy()
        fields = {field.name: field for field in cls.attribute_fields()} if attributes else {}
        for name, value in attributes.items():
            if name not in fields:
                raise OpError(f"has no attribute '{name}'")
            complete[name] = fields[name].normalize(value)
        missing = [field.name for field in cls.attribute_fields() if field.is_required and field.name not in attributes]
        if missing:
            raise OpError(f"requires attribute '{missing[0]}'")
        return complete

    @classmethod
    @functools.cache
    def operand_fields(cls) -> list[OperandField]:
        """The declared operands, in order."""
        return list(_fields(cls, OperandField))

    @classmethod
    @functools.cache
    def result_fields(cls) -> list[ResultField]:
        """The declared results, in order."""
        return list(_fields(cls, ResultField))

    @classmethod
    @functools.cache
    def attribute_fields(cls) -> list[AttributeField]:
        """The declared attributes, in order."""
        return list(_fields(cls, AttributeField))

    @classmethod
    @functools.cache
    def _defaults(cls) -> dict[str, Any]:
        return {field.name: field.default for field in cls.attribute_fields()}

    @classmethod
    @functools.cache
    def has_segments(cls) -> bool:
        """Returns whether `operandSegmentSizes` is needed to tell the operands apart."""
        return sum(field.is_optional for field in cls.operand_fields()) > 1

    def operand_values(self) -> list[ir.Value | None]:
        """One entry per declared operand: its value, or None if an optional operand is absent."""
        if not self.has_optional_operands:
            return list(self.operation.operands)
        fields, operands = self.operand_fields(), iter(self.operation.operands)
        if self.has_segments():
            present = list(ir.DenseI32ArrayAttr(self.operation.attributes["operandSegmentSizes"]))
        else:
            present = [not field.is_optional or len(self.operation.operands) == len(fields) for field in fields]
        return [next(operands) if here else None for here in present]

    def attribute_values(self) -> dict[str, Any]:
        """The attributes by name, defaults included."""
        fields = self.attribute_fields()
        if not fields:
            return {}
        attributes = self.operation.attributes
        return {
            field.name: field.read(attributes[field.name]) if field.name in attributes else field.default
            for field in fields
        }

    def infer_specs(self, spec: Callable[[ir.Value], TensorSpec]) -> tuple[TensorSpec, ...]:
        """The specs of the results, inferred from the operands' specs that `spec` returns.

        Raises:
            OpError: the op breaks its rules.
        """
        specs = (None if value is None else spec(value) for value in self.operand_values())
        inferred = _as_tuple(type(self).infer(*specs, **self.attribute_values()))
        check_extents(*(item.shape for item in inferred))
        return inferred

    def evaluate(self, array: Callable[[ir.Value], np.ndarray]) -> tuple[np.ndarray, ...]:
        """Evaluates the op by its reference semantics and returns the contents of the results."""
        arrays = (None if value is None else array(value) for value in self.operand_values())
        # Infinities and NaN are ordinary results and do not deserve a warning.
        with np.errstate(all="ignore"):
            return tuple(map(np.asarray, _as_tuple(type(self).reference(*arrays, **self.attribute_values()))))


def check_extents(*shapes: Shape) -> None:
    """Checks that tensors of these shapes could exist: MLIR's types hold 64-bit extents and do not report overflow.

    Raises:
        OpError: an extent is negative, a tensor has more elements than any memory could hold (not counting unknown and
            empty dimensions), or it has more dimensions than a numpy array can have.
    """
    for shape in shapes:
        if len(shape) > MAX_RANK:
            raise OpError(f"a tensor would have {len(shape)} dimensions, more than {MAX_RANK}")
        numbers = [dim for dim in shape if isinstance(dim, int) and dim]
        if numbers and (min(numbers) < 0 or math.prod(numbers) > _MAX_ELEMENTS):
            raise OpError(f"a tensor would have the impossible shape {'x'.join(map(str, shape))}")


_MAX_ELEMENTS = 2**48


def spec_of(value: ir.Value) -> TensorSpec:
    """The spec that the IR alone gives for a value: its type and, if a constant op defines it, its contents."""
    owner = value.owner
    if isinstance(owner, ir.Block) or len(owner.operands) or "value" not in owner.attributes:
        return spec_of_type(value.type)
    attr = owner.attributes["value"]
    if not isinstance(attr, ir.DenseElementsAttr) or attr.type != value.type:
        return spec_of_type(value.type)
    array = array_of(attr)
    return TensorSpec(array.shape, array.dtype, array)


DIALECTS: dict[str, Dialect] = {}
"""The declared dialects by namespace."""

OPS: dict[str, type[Op]] = {}
"""The declared ops of all dialects by name."""


class Dialect:
    """A set of op classes under one namespace, loadable into any number of contexts."""

    def __init__(self, namespace: str, ops: Sequence[type[Op]]) -> None:
        """Declares a dialect; again, if the module that declared it is run again, as notebooks do.

        Raises:
            ValueError: another module has declared a dialect of this name.
        """
        places = {op.__module__ for op in ops}
        other = DIALECTS.get(namespace)
        if other is not None and not places & {op.__module__ for op in other.ops.values()}:
            both = " and ".join(sorted(places)[:1] + sorted(op.__module__ for op in other.ops.values())[:1])
            raise ValueError(f"two dialects are called '{namespace}': those of {both}")
        self.namespace = namespace
        self.ops: dict[str, type[Op]] = {op.OPERATION_NAME: op for op in ops}
        DIALECTS[namespace] = self
        OPS.update(self.ops)

    def load(self, context: ir.Context) -> None:
        """Registers the dialect in `context`. A second call does nothing (MLIR itself would abort)."""
        marker = f"{self.namespace}.{next(iter(self.ops)).split('.', 1)[1]}"
        if context.is_registered_operation(marker):
            return
        with context, ir.Location.unknown():
            irdl.load_dialects(ir.Module.parse(self._bytecode))  # pyright: ignore[reportAttributeAccessIssue]

    @functools.cached_property
    def _bytecode(self) -> bytes:
        """The definition as bytecode for any context: reading it takes a fifth of the time of building it."""
        buffer = io.BytesIO()
        self.irdl_module().operation.write_bytecode(buffer)
        return buffer.getvalue()

    def irdl_module(self) -> ir.Module:
        """The dialect's definition in IRDL, in the current context."""
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            definition = irdl.dialect(self.namespace)
        with ir.InsertionPoint(definition.body):
            for op in self.ops.values():
                _define(op)
        return module


def _define(op: type[Op]) -> None:
    definition = irdl.operation_(op.OPERATION_NAME.split(".", 1)[1])
    with ir.InsertionPoint(definition.body):
        operands = op.operand_fields()
        if operands:
            kinds = [irdl.Variadicity.optional if field.is_optional else irdl.Variadicity.single for field in operands]
            irdl.operands_([irdl.any() for _ in operands], [field.name for field in operands], kinds)
        required = [field.name for field in op.attribute_fields() if field.is_required]
        if required:
            irdl.attributes_([irdl.any() for _ in required], required)
        results = op.result_fields()
        kinds = [irdl.Variadicity.single] * len(results)
        irdl.results_([irdl.any() for _ in results], [field.name for field in results], kinds)


def _fields(cls: type, kind: type[T]) -> Iterator[T]:
    for base in reversed(inspect.getmro(cls)):
        yield from (value for value in vars(base).values() if isinstance(value, kind))


def _as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


# MLIR looks for a Python module of a dialect's name whenever it creates a view of one of its ops. Without this prefix
# it finds none for our dialects, does not remember that, and searches the file system for every operation in a walk.
_mlir.globals.append_dialect_search_prefix(__name__.rpartition(".")[0])
