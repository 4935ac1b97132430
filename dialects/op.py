"""The base class of ops declared in Python."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from mlir import ir

from ..support.wording import quantity
from .attributes import AttributeField, OpError
from .fields import OperandField, ResultField
from .specs import check_extents, spec_of
from .traits import KernelTraits, Rounding
from .types import TensorSpec, tensor_type

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class Op(ir.OpView):
    """Base of every op that is declared in Python. All of them are pure.

    Attributes:
        KERNEL: traits of the kernel that the op becomes; None for an op that does no work or is decomposed before.
        ROUNDING: how floating-point results may differ from the reference.
        field_places: index of each operand among the operands and of each result among the results, by name.
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
    field_places: ClassVar[dict[str, int]]
    has_optional_operands: ClassVar[bool]

    def __init_subclass__(cls, **options: Any) -> None:
        """Caches the properties that every field access needs.

        Raises:
            TypeError: a field has the name of a member of all ops.
        """
        super().__init_subclass__(**options)
        kinds = (cls.operand_fields(), cls.result_fields())
        for field in (*itertools.chain(*kinds), *cls.attribute_fields()):
            if field.name in _MEMBERS:
                raise TypeError(f"{cls.__name__}: a field cannot be called '{field.name}', as a member of all ops is")
        cls.field_places = {field.name: place for kind in kinds for place, field in enumerate(kind)}
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

    @classmethod
    def is_linear(cls) -> bool:
        """Returns whether operands of another magnitude take the same path through the op's code, as for sums."""
        return cls.ROUNDING is Rounding.SUM

    def flops(self) -> int:
        """The floating-point operations of an op with static shapes, two per multiply-add; 0 if it only moves data."""
        return 0

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
        # Infinities and NaN are ordinary results, so numpy must not warn of them.
        with np.errstate(all="ignore"):
            return tuple(map(np.asarray, _as_tuple(type(self).reference(*arrays, **self.attribute_values()))))


def _fields(cls: type, kind: type[T]) -> Iterator[T]:
    for base in reversed(inspect.getmro(cls)):
        yield from (value for value in vars(base).values() if isinstance(value, kind))


def _as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


_MEMBERS = (set(vars(Op)) | set(Op.__annotations__)) - {"result", "name"}
"""Names that no field may have: the accessor of the field would hide the member, or the other way around."""
