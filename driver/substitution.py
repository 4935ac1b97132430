"""Substitution of kernels: extracts one kernel from a module in some phase, and inserts an edited one in a compile."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from mlir import ir

from ..dialects import discardable
from ..dialects.symbols import symbol_of
from ..passes.infra.base import PassError
from ..passes.infra.diagnostics import MLIRError
from ..passes.ir.locations import dominant, names_in
from ..runtime.program import SHORT_NAME
from ..support.large_file import contents_of
from ..support.wording import quantity
from . import route

_FEWEST_CHARACTERS = 4
"""Minimum length of the start of a kernel's name: a choice, as fewer digits of its digest match others by chance."""


@dataclass(frozen=True)
class Substitute:
    """A kernel that replaces another.

    Attributes:
        kernel: the kernel that it replaces, as `find_kernel` takes it.
        path: an MLIR file as `isolate` writes it: one function of that name, the symbols it needs, and its phase.
    """

    kernel: str
    path: Path

    def phase(self, context: ir.Context, target: str) -> str:
        """Returns the phase of a target that the file declares.

        Raises:
            PassError: the file cannot be read, or declares no valid phase.
        """
        with context, ir.Location.unknown():
            phase = discardable.PHASE.read(self._parse().operation, "")
        names = route.names(target)
        possible = names[names.index("kernels") :]
        if phase not in possible:
            raise PassError(
                f"{self.path}: its '{discardable.PHASE.name}' must be one of {', '.join(possible)}, but is '{phase}'"
            )
        return phase

    def apply(self, module: ir.Module, phase: str) -> None:
        """Inserts the kernel into a module that has reached `phase`.

        Raises:
            PassError: there is no such kernel, its type differs, or the module is not valid with it.
        """
        with module.context, ir.Location.unknown():
            mine = self._parse()
            old = find_kernel(module, self.kernel)
            name = ir.StringAttr(old.attributes["sym_name"]).value
            new = self._function(mine)
            if new.attributes["function_type"] != old.attributes["function_type"]:
                wanted, found = old.attributes["function_type"], new.attributes["function_type"]
                raise PassError(f"{self.path}: kernel @{name} has the type {wanted}, but the substitute has {found}")
            for op in _missing(mine, new, module):
                op.clone(ip=ir.InsertionPoint(module.body))
            _take_attributes(mine, module)
            copy = new.clone(ip=ir.InsertionPoint(old))
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            for key in (discardable.KERNEL.name, "sym_visibility"):
                if key in old.attributes:
                    copy.attributes[key] = old.attributes[key]
            old.erase()
            try:
                module.operation.verify()
            except MLIRError as error:
                raise PassError(f"{self.path}: not valid in phase '{phase}': {_message_of(error)}") from error

    def _parse(self) -> ir.Module:
        try:
            return ir.Module.parse(contents_of(self.path))
        except OSError as error:
            raise PassError(f"{self.path}: {error.strerror}") from error
        except MLIRError as error:
            raise PassError(f"{self.path}: not MLIR: {_message_of(error)}") from error

    def _function(self, module: ir.Module) -> ir.Operation:
        functions = [op.operation for op in module.body.operations if discardable.KERNEL.is_on(op)]
        if len(functions) != 1:
            raise PassError(
                f"{self.path}: holds {quantity(len(functions), 'function')} with a '{discardable.KERNEL.name}', "
                "but must hold one"
            )
        return functions[0]


def find_kernel(module: ir.Module, name: str) -> ir.Operation:
    """Returns the kernel of a name, or the one that computes a node of the model.

    The first characters of a kernel's name suffice, as tools print them, also without `kernel_`. If several kernels
    compute a node, the result is the kernel with most of the node's work: the only one that is named for the node and
    has flops.

    Raises:
        PassError: there is none, or there are several.
    """
    kernels = {symbol_of(op.operation): op.operation for op in module.body.operations if discardable.KERNEL.is_on(op)}
    if name in kernels:
        return kernels[name]
    found = [symbol for symbol, kernel in kernels.items() if name in names_in(kernel.location)]
    if len(found) > 1:
        main = [symbol for symbol in found if dominant(kernels[symbol].location) == name]
        computing = [symbol for symbol in main if _flops(kernels[symbol])]
        found = computing or main or found
    if not found and len(name) >= _FEWEST_CHARACTERS:
        found = [symbol for symbol in kernels if symbol.startswith((name, f"kernel_{name}"))]
    if len(found) == 1:
        return kernels[found[0]]
    problem = f"{len(found)} kernels are called or compute '{name}'" if found else f"there is no kernel '{name}'"
    listed = ", ".join(_described(kernels[symbol]) for symbol in found or kernels)
    raise PassError(f"{problem}; the kernels are {listed or 'none'}")


def _flops(kernel: ir.Operation) -> int:
    return discardable.KERNEL.required(kernel).flops or 0


def _described(kernel: ir.Operation) -> str:
    """Returns a kernel's name and the node that does most of its work."""
    node = dominant(kernel.location)
    return f"{symbol_of(kernel)[:SHORT_NAME]} ({node})" if node else symbol_of(kernel)[:SHORT_NAME]


def isolate(module: ir.Module, name: str, phase: str) -> str:
    """Prints one kernel and the symbols it refers to, as a module that `Substitute` takes.

    Raises:
        PassError: there is no such kernel.
    """
    with module.context, ir.Location.unknown():
        kernel = find_kernel(module, name)
        alone = ir.Module.create()
        _take_attributes(module, alone)
        discardable.PHASE.write(alone.operation, phase)
        needed, texts = {symbol_of(kernel)}, [str(kernel)]
        while texts:
            text = texts.pop()
            for op in module.body.operations:
                symbol = symbol_of(op.operation)
                is_known = not symbol or symbol in needed or discardable.KERNEL.is_on(op)
                if not is_known and re.search(rf"@{re.escape(symbol)}(?![\w.$-])", text):
                    needed.add(symbol)
                    texts.append(str(op))
        for op in module.body.operations:
            if symbol_of(op.operation) in needed:
                op.operation.clone(ip=ir.InsertionPoint(alone.body))
        return str(alone.operation.get_asm(enable_debug_info=True))


def _missing(mine: ir.Module, kernel: ir.Operation, module: ir.Module) -> list[ir.Operation]:
    """Copies the symbols of a kernel's file that the module lacks, renamed if their names are taken."""
    there = {symbol_of(op.operation): op.operation for op in module.body.operations}
    taken = {*there, *(symbol_of(op.operation) for op in mine.body.operations)}
    found = []
    for op in [item.operation for item in mine.body.operations if item.operation != kernel]:
        symbol = symbol_of(op)
        if symbol in there and str(op) == str(there[symbol]):
            continue
        if symbol in there:
            name = next(name for number in itertools.count() if (name := f"{symbol}_{number}") not in taken)
            taken.add(name)
            ir.SymbolTable.replace_all_symbol_uses(symbol, name, mine.operation)
            op.attributes["sym_name"] = ir.StringAttr.get(name)
        found.append(op)
    return found


def _take_attributes(mine: ir.Module, module: ir.Module) -> None:
    """Copies the attributes of a file that its ops rely on, such as `transform.with_named_sequence`, to a module."""
    attributes = module.operation.attributes
    for name in mine.operation.attributes:
        if not name.startswith("stepwell.") and name != "sym_name" and name not in attributes:
            attributes[name] = mine.operation.attributes[name]


def _message_of(error: Exception) -> str:
    return "; ".join(str(item) for item in getattr(error, "error_diagnostics", [])) or str(error)
