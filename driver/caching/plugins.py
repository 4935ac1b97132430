"""Detects code of other packages that takes part in compiles: passes, patterns, lowerings, importers and ops.

A plug-in registers itself by a decorator, adds entries to a table, or replaces a function. Scanning the modules of the
compiler for foreign code finds all of these. `fingerprint` distinguishes sets of plug-ins and is part of every cache
key.

Needs no MLIR: nothing can be registered with a module of the compiler before it is imported.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...passes.infra.entry_points import load_entry_points

_PACKAGE = __name__.partition(".")[0]
_PARTS = tuple(
    f"{_PACKAGE}.{part}" for part in ("dialects", "driver.route", "frontend", "lowering", "passes", "targets")
)
# The compiler uses code of these packages, so finding it in a module does not indicate a plug-in.
_TRUSTED = frozenset(
    {
        _PACKAGE,
        "google",
        "ml_dtypes",
        "mlir",
        "nanobind",
        "numpy",
        "onnx",
        "rich",
        "sympy",
        "torch",
        "typing_extensions",
    }
)
_STANDARD_LIBRARY = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_DEPTH = 6
"""Maximum nesting of the compiler's tables."""
_MOST_VALUES, _MOST_NESTED = 20_000, 60
"""Maximum number of values, and their maximum nesting, that the digest of a plug-in describes."""
_THIS_PROCESS = os.urandom(8).hex()


def fingerprint() -> str:
    """The plug-ins that take part in compiles, each with a digest of its code; empty if there are none."""
    # The code of a plug-in may change without the compiler's tables, so digests are computed each time.
    return ", ".join(f"{name}:{_digest_of(name, items)}" for name, items in sorted(_scanned().found.items()))


def are_found() -> bool:
    """Returns whether any plug-in takes part in compiles."""
    return len(_scanned().found) > 0


def _scanned() -> _Scan:
    global _last_scan
    load_entry_points()
    if _last_scan is None or not _last_scan.holds():
        _last_scan = _Scan()
    return _last_scan


class _Scan:
    """The foreign code found in the modules of the compiler, and a copy of all tables at that time.

    Attributes:
        found: by module, each piece of foreign code with its location.
    """

    def __init__(self) -> None:
        seen: dict[int, Any] = {}
        self.found: dict[str, list[tuple[str, Any]]] = {}
        for where, item in registrations(seen):
            self.found.setdefault(_owner(item), []).append((where, item))
        self._modules = len(sys.modules)
        held = [*(module for _, module in _compiler_modules()), *seen.values()]
        self._tables = [table for item in held if (table := _table_of(item)) is not None]
        self._copies = [table.copy() for table in self._tables]

    def holds(self) -> bool:
        """Returns whether no table has changed. Compares in C, where identical objects are equal."""
        if len(sys.modules) != self._modules:
            return False
        try:
            return self._tables == self._copies
        except Exception:  # an object whose `==` has no truth value, such as an array, is not identical to the old one
            return False


_last_scan: _Scan | None = None


def _table_of(item: Any) -> Any:
    """Returns the table of an object's members; None if it has none."""
    return item if isinstance(item, dict | list | set) else getattr(item, "__dict__", None)


def _compiler_modules() -> Iterator[tuple[str, types.ModuleType]]:
    for name in sorted(sys.modules):
        module = sys.modules[name]
        if module is not None and name.startswith(_PARTS):
            yield name, module


def registrations(seen: dict[int, Any] | None = None) -> Iterator[tuple[str, Any]]:
    """Yields all foreign code in the modules of the compiler, each piece with the first location where it is found.

    Args:
        seen: receives every examined object, by its identity.
    """
    seen = {} if seen is None else seen
    for name, module in _compiler_modules():
        for attribute, value in list(vars(module).items()):
            if type(value) not in _PLAIN and not attribute.startswith("__"):
                if type(value) is types.FunctionType and value.__globals__.get("__name__") == name:
                    continue  # most functions
                for where, item in _foreign(value, name, seen, _DEPTH):
                    yield f"{name}.{attribute}{where}", item


def _foreign(value: Any, home: str, seen: dict[int, Any], depth: int) -> Iterator[tuple[str, Any]]:
    """Yields the foreign code in a value of one of the compiler's modules, with its location in the value."""
    kind = type(value)
    if kind in _PLAIN or depth == 0 or id(value) in seen:
        return
    if isinstance(value, type) and value.__module__ != home and _is_own(value.__module__):
        return  # examined where it is declared
    seen[id(value)] = value
    if kind is types.FunctionType:
        if not _is_own(value.__globals__.get("__name__", "")):
            yield "", value
    elif isinstance(value, type):
        if not _is_own(value.__module__):
            yield "", value
            return
        for name, member in list(vars(value).items()):
            function = getattr(member, "__func__", member)
            if type(function) is types.FunctionType and name != "__new__":  # that of a named tuple is generated
                for where, item in _foreign(function, home, seen, depth - 1):
                    yield f".{name}{where}", item
    elif kind is functools.partial:
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _foreign(part, home, seen, depth - 1)
    elif hasattr(value, "__wrapped__"):
        yield from _foreign(value.__wrapped__, home, seen, depth - 1)
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            for part in (key, item):
                for where, found in _foreign(part, home, seen, depth - 1):
                    yield f"[{_name_of(key)}]{where}", found
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            for where, found in _foreign(item, home, seen, depth - 1):
                yield f"[{place}]{where}", found
    elif isinstance(value, set | frozenset):
        for item in list(value):
            yield from _foreign(item, home, seen, depth - 1)
    elif not _is_own(kind.__module__):
        yield "", value
    elif kind.__module__.startswith(_PARTS):
        for name, item in list((getattr(value, "__dict__", None) or {}).items()):
            for where, found in _foreign(item, home, seen, depth - 1):
                yield f".{name}{where}", found


_PLAIN = frozenset({str, bytes, int, float, bool, type(None), type(...), types.ModuleType, types.BuiltinFunctionType})


@functools.cache
def _is_own(module: str) -> bool:
    name = module.partition(".")[0]
    return name in _TRUSTED or (name in sys.stdlib_module_names and _is_pythons(name))


def _is_pythons(name: str) -> bool:
    """Returns whether a module is Python's own: a plug-in may shadow one, or have the name of one that was removed."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:  # it is built in, or not loaded
        return True
    is_installed = not _INSTALLED.isdisjoint(Path(file).parts)
    return not is_installed and any(map(Path(file).is_relative_to, _STANDARD_LIBRARY))


def _name_of(key: Any) -> str:
    return getattr(key, "__qualname__", None) or repr(key)


def _owner(item: Any) -> str:
    """Returns the module that a piece of code comes from."""
    if isinstance(item, types.FunctionType):
        return str(item.__globals__.get("__name__", "?"))
    return item.__module__ if isinstance(item, type) else type(item).__module__


def _digest_of(module: str, items: Iterable[tuple[str, Any]]) -> str:
    digest = _Digest()
    digest.add_sources(module)
    for where, item in sorted(items, key=lambda entry: entry[0]):
        digest.add_text(where)
        digest.add(item)
    return digest.hex


class _Digest:
    """A digest of code: of the sources of its module, and of functions as they are in memory.

    The latter distinguishes code without source or with the same source: cells of notebooks, lambdas, closures. Code
    that refers to more data than the limits allow has a different digest in every process.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, Any] = {}
        self._depth = 0

    @property
    def hex(self) -> str:
        """The digest, shortened."""
        return self._hash.hexdigest()[:16]

    def add_text(self, text: str) -> None:
        """Adds text."""
        data = text.encode(errors="surrogatepass")
        self._hash.update(len(data).to_bytes(8, "little") + data)

    def add_sources(self, name: str) -> None:
        """Adds the source files of a module, and of its folder if that is a package."""
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name == "__main__" or file is None:
            return
        path = Path(file)
        is_inside = bool(getattr(module, "__package__", "")) and (path.parent / "__init__.py").is_file()
        for source in sorted(path.parent.rglob("*.py")) if is_inside else [path]:
            try:
                data = source.read_bytes()
            except OSError:  # deleted since it was imported
                continue
            self.add_text(str(source.relative_to(path.parent)))
            self._hash.update(hashlib.sha256(data).digest())

    def add(self, value: Any) -> None:
        """Adds a value: code by its instructions, data by its contents."""
        kind = type(value)
        self.add_text(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, str | bytes | int | float | complex | bool | type(None) | type(...) | range | slice):
            self.add_text(repr(value))
        elif isinstance(value, np.ndarray):
            self.add_text(f"{value.dtype} {value.shape}")
            self._hash.update(repr(value.tolist()).encode() if value.dtype == object else value.tobytes())
        elif id(value) in self._seen:
            self.add_text("again")
        elif self._depth == _MOST_NESTED or len(self._seen) == _MOST_VALUES:
            self.add_text(_THIS_PROCESS)
        else:
            self._seen[id(value)] = value  # a reference, so that its identity is not reused
            self._depth += 1
            self._add_once(value)
            self._depth -= 1

    def _add_once(self, value: Any) -> None:
        if isinstance(value, types.CodeType):
            self._add_code(value)
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, types.ModuleType):
            self.add_text(value.__name__)
            if not _is_own(value.__name__):
                self.add_sources(value.__name__)
        elif isinstance(value, dict):
            self._add_all(item for pair in value.items() for item in pair)
        elif isinstance(value, tuple | list):
            self._add_all(value)
        elif isinstance(value, set | frozenset):
            self._add_all(sorted(value, key=repr))
        elif isinstance(value, functools.partial):
            self._add_all((value.func, value.args, value.keywords))
        elif isinstance(value, staticmethod | classmethod | types.MethodType):
            self.add(value.__func__)
        elif isinstance(value, property):
            self._add_all((value.fget, value.fset))
        elif hasattr(value, "__wrapped__"):
            self.add(value.__wrapped__)
        elif not _is_own(type(value).__module__) or dataclasses.is_dataclass(value):
            self._add_all((type(value), getattr(value, "__dict__", {})))
        else:
            self.add_text(str(getattr(value, "__qualname__", "")))

    def _add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)
        self.add_text("end")

    def _add_code(self, code: types.CodeType) -> None:
        self._hash.update(code.co_code)
        self._add_all((code.co_consts, code.co_names, code.co_varnames, code.co_freevars))

    def _add_function(self, function: types.FunctionType) -> None:
        self.add_text(function.__qualname__)
        if _is_own(function.__globals__.get("__name__", "")):
            return  # the compiler's own, which its version identifies
        self._add_all((function.__code__, function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # a name that has no value yet
                continue
        for name in _names_in(function.__code__):
            if name in function.__globals__:
                self.add_text(name)
                self.add(function.__globals__[name])

    def _add_class(self, kind: type) -> None:
        self.add_text(kind.__qualname__)
        if _is_own(kind.__module__):
            return
        self._add_all(kind.__bases__)
        for name, member in sorted(vars(kind).items()):
            if name not in ("__dict__", "__weakref__", "__module__", "__doc__", "__annotations__"):
                self.add_text(name)
                self.add(member)


def _names_in(code: types.CodeType) -> list[str]:
    """Returns the names that code may look up among globals, including functions nested in it."""
    inner = [name for item in code.co_consts if isinstance(item, types.CodeType) for name in _names_in(item)]
    return list(dict.fromkeys([*code.co_names, *inner]))
