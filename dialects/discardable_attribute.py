"""Descriptors of discardable attributes: attributes with a dialect's prefix that passes leave on any op.

MLIR distinguishes inherent attributes, which the definition of an op declares, from discardable ones, whose names begin
with the namespace of the dialect that owns them. A discardable attribute is declared once:

    ALIGNMENT = DiscardableAttribute("stepwell.alignment", forms.I64, "alignment in bytes", places=(ARGUMENT,), ...)

    ALIGNMENT.read(attributes)    # int, or None if it is absent
    ALIGNMENT.write(op, 4)
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, overload

from mlir import ir

from .attributes import OpError
from .forms import AttributeForm

T = TypeVar("T")
D = TypeVar("D")

ARGUMENT, RESULT, OF_MODEL = "an argument", "a result", "an op of the model"
"""Places that are not names of ops: the dictionaries of a function's arguments and results, and any op of our dialect.
"""


class _WithAttributes(Protocol):
    @property
    def attributes(self) -> ir.OpAttributeMap: ...


Holder = ir.DictAttr | _WithAttributes
"""An op, or the dictionary of the attributes of an argument or a result."""

DISCARDABLE: dict[str, DiscardableAttribute[Any]] = {}
"""All declared discardable attributes by name."""


class DiscardableAttribute(Generic[T]):
    """One discardable attribute, seen from Python as a value of type `T`."""

    def __init__(
        self, name: str, form: AttributeForm[T], doc: str, *, places: tuple[str, ...], phases: tuple[str, ...]
    ) -> None:
        """Declares a discardable attribute.

        Args:
            name: its name, with the prefix of its dialect.
            form: the form of the attribute and of its Python value.
            doc: its meaning, in one line.
            places: names of the ops that may have it, `ARGUMENT`, `RESULT`.
            phases: the phases at whose end a module may have it.

        Raises:
            ValueError: another attribute has the name.
        """
        if name in DISCARDABLE:
            raise ValueError(f"two discardable attributes are called '{name}'")
        self.name, self.form, self.doc, self.places, self.phases = name, form, doc, places, phases
        DISCARDABLE[name] = self

    def is_on(self, holder: Holder) -> bool:
        """Returns whether an op, an argument or a result has the attribute."""
        return self.name in _attributes(holder)

    @overload
    def read(self, holder: Holder) -> T | None: ...
    @overload
    def read(self, holder: Holder, default: D) -> T | D: ...
    def read(self, holder: Holder, default: Any = None) -> Any:
        """Returns the attribute's value, or a default if it is absent.

        Raises:
            OpError: it has another form.
        """
        attributes = _attributes(holder)
        return self._value(attributes) if self.name in attributes else default

    def required(self, holder: Holder) -> T:
        """Returns the value of an attribute that must be present.

        Raises:
            OpError: it is absent or has another form.
        """
        attributes = _attributes(holder)
        if self.name not in attributes:
            raise OpError(f"has no attribute '{self.name}'")
        return self._value(attributes)

    def write(self, op: _WithAttributes, value: T) -> None:
        """Sets the attribute of an op, in the current context."""
        op.attributes[self.name] = self.form.write(value)

    def remove(self, op: _WithAttributes) -> None:
        """Removes the attribute from an op, if it is there."""
        if self.name in op.attributes:
            del op.attributes[self.name]

    def copy(self, source: _WithAttributes, target: _WithAttributes) -> None:
        """Copies the attribute from one op to another, if the former has it."""
        if self.name in source.attributes:
            target.attributes[self.name] = source.attributes[self.name]

    def entry(self, value: T) -> dict[str, ir.Attribute]:
        """Returns the attribute with its name, as an entry of a dictionary that describes an argument or a new op."""
        return {self.name: self.form.write(value)}

    def check(self, attr: ir.Attribute, *places: str) -> None:
        """Checks an attribute of this name and the place where it was found.

        Raises:
            OpError: it has another form, or belongs elsewhere.
        """
        if not set(places) & set(self.places):
            raise OpError(f"attribute '{self.name}' belongs on {' or '.join(self.places)}, but is on {places[0]}")
        if self.form.read(attr) is None:
            raise OpError(f"attribute '{self.name}' must be {self.form.text}, but is {attr}")

    def _value(self, attributes: ir.DictAttr | ir.OpAttributeMap) -> T:
        attr = attributes[self.name]
        value = self.form.read(attr)
        if value is None:
            raise OpError(f"attribute '{self.name}' must be {self.form.text}, but is {attr}")
        return value


def _attributes(holder: Holder) -> ir.DictAttr | ir.OpAttributeMap:
    return holder if isinstance(holder, ir.DictAttr) else holder.attributes
