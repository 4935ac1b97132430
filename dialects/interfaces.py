"""Op interfaces: implementations by other packages that are attached to op classes and looked up by class.

As with MLIR's OpInterfaces, a pass asks the interface instead of keeping its own table of ops:

    DEMAND = Interface("demand", "live prefix of each operand", rooms=("passes.kernel",))

    @DEMAND.attach(SoftmaxOp, LogSoftmaxOp)
    def norm(op, index, needed, table): ...

    rule = DEMAND.of(type(op))

An implementation may lie in any package. The modules of the interface's rooms are imported at the first lookup, those
of other packages when their plug-in is loaded.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from .core import Op

T = TypeVar("T")
_ROOT = __name__.split(".dialects.", 1)[0]

INTERFACES: dict[str, Interface] = {}
"""All interfaces by name."""


class Interface(Generic[T]):
    """One question about ops, with at most one answer per op class; a subclass inherits the answer of its base.

    Attributes:
        name: unique name of the interface.
        summary: what an implementation says about an op.
    """

    def __init__(self, name: str, summary: str, rooms: tuple[str, ...]) -> None:
        """Declares an interface.

        Args:
            name: unique name of the interface.
            summary: what an implementation says about an op.
            rooms: packages or modules of this project, as dotted names, whose modules attach implementations.
        """
        self.name, self.summary = name, summary
        self._rooms: tuple[str, ...] = rooms
        self._attached: dict[type[Op], T] = {}
        self._find = functools.cache(self._find_uncached)
        INTERFACES[name] = self

    def attach(self, *kinds: type[Op]) -> Callable[[T], T]:
        """Attaches the decorated implementation to op classes.

        Raises:
            ValueError: one of the classes has an implementation already.
        """

        def attached(implementation: T) -> T:
            for kind in kinds:
                other = self._attached.setdefault(kind, implementation)
                if other is not implementation:
                    places = " and ".join(getattr(item, "__module__", repr(item)) for item in (other, implementation))
                    raise ValueError(f"{kind.__name__} has two implementations of '{self.name}': {places}")
            self._find.cache_clear()
            return implementation

        return attached

    def of(self, kind: type[Op]) -> T | None:
        """Returns the implementation of a class or of its nearest base class that has one."""
        return self._find(kind)

    def _find_uncached(self, kind: type[Op]) -> T | None:
        self._import_rooms()
        return next((self._attached[base] for base in kind.__mro__ if base in self._attached), None)

    def _import_rooms(self) -> None:
        rooms, self._rooms = self._rooms, ()
        for room in rooms:
            module = importlib.import_module(f"{_ROOT}.{room}")
            for _, name, is_package in pkgutil.iter_modules(getattr(module, "__path__", ())):
                if not is_package:
                    importlib.import_module(f"{module.__name__}.{name}")
