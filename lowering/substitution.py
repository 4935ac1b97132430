"""One kernel by itself: taken out of a module in some phase, edited by hand, and put back in another compile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlir import ir

from ..passes.base import PassError
from ..passes.diagnostics import MLIRError
from ..passes.kernel.form_kernels import model_ops
from ..runtime.large_file import contents_of
from . import phases

_PHASE = "stepwell.phase"


@dataclass(frozen=True)
class Substitute:
    """A kernel that takes the place of another.

    Attributes:
        kernel: which kernel it replaces, as `find_kernel` takes it.
        path: an MLIR file as `isolate` makes it: one function of that name, what else it needs, and the phase it is in.
    """

    kernel: str
    path: Path

    def phase(self, context: ir.Context) -> str:
        """The phase that the file says it is in.

        Raises:
            PassError: the file cannot be read, or says nothing of the kind.
        """
        with context, ir.Location.unknown():
            attributes = self._parse().operation.attributes
            phase = ir.StringAttr(attributes[_PHASE]).value if _PHASE in attributes else ""
        possible = phases.NAMES[phases.NAMES.index("kernels") :]
        if phase not in possible:
            raise PassError(f"{self.path}: its '{_PHASE}' must be one of {', '.join(possible)}, but is '{phase}'")
        return phase

    def apply(self, module: ir.Module, phase: str) -> None:
        """Puts the kernel into a module that has reached `phase`.

        Raises:
            PassError: there is no such kernel, it takes and gives something else, or the module is not valid with it.
        """
        with module.context, ir.Location.unknown():
            mine = self._parse()
            old = find_kernel(module, self.kernel)
            name = ir.StringAttr(old.attributes["sym_name"]).value
            new = self._function(mine)
            if new.attributes["function_type"] != old.attributes["function_type"]:
                wanted, found = old.attributes["function_type"], new.attributes["function_type"]
                raise PassError(f"{self.path}: kernel @{name} has the type {wanted}, and this one {found}")
            there = _symbols(module)
            for op in mine.body.operations:
                if op.operation != new and _symbol(op.operation) not in there:
                    op.operation.clone(ip=ir.InsertionPoint(module.body))
            copy = new.clone(ip=ir.InsertionPoint(old))
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            for key in ("stepwell.kernel", "sym_visibility"):
                if key in old.attributes:
                    copy.attributes[key] = old.attributes[key]
            old.erase()
            try:
                module.operation.verify()
            except MLIRError as error:
                raise PassError(f"{self.path}: not valid in phase '{phase}': {_told(error)}") from error

    def _parse(self) -> ir.Module:
        try:
            return ir.Module.parse(contents_of(self.path))
        except OSError as error:
            raise PassError(f"{self.path}: {error.strerror}") from error
        except MLIRError as error:
            raise PassError(f"{self.path}: not MLIR: {_told(error)}") from error

    def _function(self, module: ir.Module) -> ir.Operation:
        functions = [op.operation for op in module.body.operations if "stepwell.kernel" in op.attributes]
        if len(functions) != 1:
            raise PassError(
                f"{self.path}: holds {len(functions)} functions with a 'stepwell.kernel', and must hold one"
            )
        return functions[0]


def find_kernel(module: ir.Module, name: str) -> ir.Operation:
    """The kernel of a name, of which the first characters are enough, or the one that computes a node of the model.

    Raises:
        PassError: there is none, or there are several.
    """
    kernels = {
        _symbol(op.operation): op.operation for op in module.body.operations if "stepwell.kernel" in op.attributes
    }
    if name in kernels:
        return kernels[name]
    found = [symbol for symbol in kernels if symbol.startswith(name)]
    found = found or [symbol for symbol, kernel in kernels.items() if name in model_ops(kernel.location)]
    if len(found) == 1:
        return kernels[found[0]]
    problem = f"{len(found)} kernels are called or compute '{name}'" if found else f"there is no kernel '{name}'"
    raise PassError(f"{problem}; the kernels are {', '.join(found or kernels) or 'none'}")


def isolate(module: ir.Module, name: str, phase: str) -> str:
    """The text of one kernel and of what it refers to, as a module that `Substitute` takes.

    Raises:
        PassError: there is no such kernel.
    """
    with module.context, ir.Location.unknown():
        kernel = find_kernel(module, name)
        alone = ir.Module.create()
        alone.operation.attributes[_PHASE] = ir.StringAttr.get(phase)
        needed, texts = {_symbol(kernel)}, [str(kernel)]
        while texts:
            text = texts.pop()
            for op in module.body.operations:
                symbol = _symbol(op.operation)
                if symbol and symbol not in needed and f"@{symbol}" in text and "stepwell.kernel" not in op.attributes:
                    needed.add(symbol)
                    texts.append(str(op))
        for op in module.body.operations:
            if _symbol(op.operation) in needed:
                op.operation.clone(ip=ir.InsertionPoint(alone.body))
        return str(alone.operation.get_asm(enable_debug_info=True))


def _symbols(module: ir.Module) -> set[str]:
    return {_symbol(op.operation) for op in module.body.operations}


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def _told(error: Exception) -> str:
    return "; ".join(str(item) for item in getattr(error, "error_diagnostics", [])) or str(error)
