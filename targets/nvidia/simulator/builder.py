"""Translation of an instruction into a Python function that executes it on a frame.

The modules of `instructions/` register a builder for each opcode. A builder inspects modifiers and operands once, when
the kernel is prepared, and returns a step: a closure that only computes. Unsupported opcodes, modifiers and types are
errors at that time, so that no part of a kernel is ever skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ....runtime.cuda.errors import PtxError
from .frame import SPECIAL_REGISTERS, THREAD, Frame
from .graph import effects
from .kinds import NUMBERS, STORAGE, Array, decode, encode
from .memory import MemoryAccess
from .parser import immediate_bits
from .syntax import WIDTHS, Address, Immediate, Instruction, PtxEntry, PtxOperand, Register, Symbol, Vector

SimulatedStep = Callable[[Frame], None]
OperandReader = Callable[[Frame], Array]
Writer = Callable[[Frame, Array], None]


@dataclass(frozen=True)
class Sync:
    """A step at which threads may have to wait.

    Attributes:
        run: returns None if all threads proceed, else a mask of those that do; arranges the later release of the
            others.
        again: whether released threads execute the instruction again, or continue after it.
    """

    run: Callable[[Frame], Array | None]
    again: bool


Built = SimulatedStep | Sync
_Build = Callable[["Builder"], Built]
_BUILDERS: dict[str, _Build] = {}


def builds(*opcodes: str) -> Callable[[_Build], _Build]:
    """Registers the builder function of some opcodes."""

    def register(build: _Build) -> _Build:
        for opcode in opcodes:
            if opcode in _BUILDERS:
                raise ValueError(f"duplicate builder for {opcode}")
            _BUILDERS[opcode] = build
        return build

    return register


@dataclass(frozen=True)
class Environment:
    """Names that the instructions of an entry may refer to.

    Attributes:
        function: the entry.
        addresses: addresses of variables and parameters by name, in their own state space, as `mov` returns them.
        spaces: state space of each of them.
    """

    function: PtxEntry
    addresses: Mapping[str, int]
    spaces: Mapping[str, str]


class Builder:
    """Builds the step of one instruction.

    Attributes:
        instruction: the instruction.
        environment: the names that it may refer to.
    """

    def __init__(self, instruction: Instruction, environment: Environment) -> None:
        self.instruction = instruction
        self.environment = environment

    def build(self) -> Built:
        """Returns the step, guarded by the instruction's predicate.

        Raises:
            PtxError: the instruction is malformed or not supported by the simulator.
        """
        build = _BUILDERS.get(self.instruction.opcode)
        if build is None:
            raise self.error("is not an instruction that the simulator supports")
        try:
            built = build(self)
        except (IndexError, KeyError, ValueError) as error:
            raise self.error(f"is malformed ({error!r})") from error
        guard = self.instruction.predicate
        if guard is None:
            return built
        writes = self.writes
        if isinstance(built, Sync):
            return Sync(_guarded_sync(built.run, guard, writes), built.again)
        return _guarded(built, guard, writes)

    def error(self, message: str) -> PtxError:
        """Returns an error at this instruction."""
        return PtxError(f"{self.instruction.name} {message}", self.instruction.line)

    @property
    def line(self) -> int:
        """The line of the instruction."""
        return self.instruction.line

    @property
    def operands(self) -> tuple[PtxOperand, ...]:
        """The operands of the instruction."""
        return self.instruction.operands

    @property
    def writes(self) -> tuple[str, ...]:
        """The registers that the instruction may write."""
        return tuple(effects(self.instruction).writes)

    @property
    def kind(self) -> str:
        """The type of the instruction: the last of its modifiers that is a type."""
        return self.kinds[-1]

    @property
    def kinds(self) -> list[str]:
        """All modifiers that are types, in order."""
        return [modifier for modifier in self.instruction.modifiers if modifier in WIDTHS]

    def known(self, *modifiers: str) -> None:
        """Checks that the instruction has no modifiers except types and these.

        Raises:
            PtxError: it has another modifier.
        """
        unknown = [item for item in self.instruction.modifiers if item not in WIDTHS and item not in modifiers]
        if unknown:
            raise self.error(f"has a modifier that the simulator does not support: .{unknown[0]}")

    def has(self, *modifiers: str) -> bool:
        """Returns whether the instruction has all of the modifiers."""
        return self.instruction.has(*modifiers)

    def one_of(self, *modifiers: str, default: str = "") -> str:
        """Returns the first of the instruction's modifiers that is among the given ones."""
        return next((item for item in self.instruction.modifiers if item in modifiers), default)

    def register(self, operand: PtxOperand) -> str:
        """Returns the name of a register operand.

        Raises:
            PtxError: the operand is not a register.
        """
        if not isinstance(operand, Register):
            raise self.error(f"takes a register, not {operand}")
        return operand.name

    def items(self, operand: PtxOperand) -> tuple[PtxOperand, ...]:
        """Returns the elements of a vector operand, or a tuple of the operand itself."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def read(self, operand: PtxOperand, kind: str) -> OperandReader:
        """Returns a function that reads an operand's values in the numpy type of `kind`."""
        if isinstance(operand, Symbol | Immediate):
            return self._constant(operand, kind)
        name = self.register(operand)
        if kind == "pred":
            negated = isinstance(operand, Register) and operand.negated
            return (lambda frame: ~frame[name]) if negated else (lambda frame: frame[name])
        storage = self.storage(name)
        own = STORAGE[WIDTHS[kind]]
        if storage.itemsize < own.itemsize:
            raise self.error(f"takes {kind}, but {name} is narrower")
        if storage != own:
            return lambda frame: decode(frame[name].astype(own), kind)
        number = NUMBERS.get(kind)
        if number == storage:
            return lambda frame: frame[name]
        if number is not None:
            return lambda frame: frame[name].view(number)
        return lambda frame: decode(frame[name], kind)

    def _constant(self, operand: Symbol | Immediate, kind: str) -> OperandReader:
        if kind == "pred":
            value = np.bool_(isinstance(operand, Immediate) and operand.value != 0)
            return lambda frame: np.full(frame.count, value)
        own = STORAGE[WIDTHS[kind]]
        if isinstance(operand, Symbol):
            bits = np.array(self.address(operand), np.uint64).astype(own)
        else:
            bits = np.array(immediate_bits(operand, kind), own)
        if kind.endswith("x2"):
            return lambda frame: decode(np.full(frame.count, bits), kind)
        constant = decode(bits.reshape(1), kind)[0]
        return lambda frame: constant

    def write(self, operand: PtxOperand, kind: str) -> Writer:
        """Returns a function that writes values of `kind` to a register; narrow integers are extended to its width."""
        name = self.register(operand)
        if name == "_":
            return lambda frame, values: None
        if kind == "pred":
            return lambda frame, values: frame.__setitem__(name, _spread(values, frame.count))
        storage = self.storage(name)
        if storage.itemsize < WIDTHS[kind]:
            raise self.error(f"gives {kind}, but {name} is narrower")
        number = NUMBERS.get(kind)
        if storage.itemsize > WIDTHS[kind]:
            wide = np.dtype(f"int{8 * storage.itemsize}") if kind.startswith("s") else storage
            own = number if number is not None and number.kind in "iu" else STORAGE[WIDTHS[kind]]

            def extend(frame: Frame, values: Array) -> None:
                bits = _spread(encode(values, kind, STORAGE[WIDTHS[kind]]), frame.count)
                frame[name] = bits.view(own).astype(wide).view(storage)

            return extend

        def put(frame: Frame, values: Array) -> None:
            if values.ndim == 0:
                values = np.full(frame.count, values)
            frame[name] = values.view(storage) if values.dtype == number else encode(values, kind, storage)

        return put

    def storage(self, name: str) -> np.dtype:
        """Returns the type of a register's array.

        Raises:
            PtxError: no such register is declared.
        """
        return storage_of(name, self.environment.function, self)

    def address(self, symbol: Symbol) -> int:
        """Returns the address of a variable.

        Raises:
            PtxError: there is no variable of that name.
        """
        if symbol.name not in self.environment.addresses:
            raise self.error(f"refers to {symbol.name}, which is not declared")
        return self.environment.addresses[symbol.name] + symbol.offset

    def addresses(self, operand: PtxOperand) -> OperandReader:
        """Returns a function that computes the address of each thread, as int64.

        Raises:
            PtxError: the operand is not an address.
        """
        if not isinstance(operand, Address):
            raise self.error(f"takes an address, not {operand}")
        base, offset = operand.base, np.int64(operand.offset)
        if isinstance(base, Immediate | Symbol):
            start = int(base.value) if isinstance(base, Immediate) else self.address(base)
            return lambda frame: np.full(frame.count, start + offset, np.int64)
        name = base.name
        if self.storage(name).itemsize == 8:
            return lambda frame: frame[name].view(np.int64) + offset
        return lambda frame: frame[name].astype(np.int64) + offset

    def access(self, frame: Frame, what: str = "") -> MemoryAccess:
        """Returns the description of an access to memory by this instruction."""
        return MemoryAccess(self.instruction.line, what or self.instruction.name, frame[THREAD], frame.batch.describe)


def storage_of(name: str, function: PtxEntry, builder: Builder) -> np.dtype:
    """Returns the type of the array of a declared or special register."""
    if name in function.registers:
        kind = function.registers[name]
        return np.dtype(bool) if kind == "pred" else STORAGE[WIDTHS[kind]]
    if name in SPECIAL_REGISTERS:
        return STORAGE[SPECIAL_REGISTERS[name]]
    raise builder.error(f"takes {name}, which is not declared")


def _spread(values: Array, count: int) -> Array:
    return values if values.ndim else np.full(count, values)


def _guarded(step: SimulatedStep, guard: Register, writes: tuple[str, ...]) -> SimulatedStep:
    name, negated = guard.name, guard.negated

    def run(frame: Frame) -> None:
        chosen = ~frame[name] if negated else frame[name]
        if chosen.all():
            step(frame)
        elif chosen.any():
            inner = frame.narrowed(np.flatnonzero(chosen))
            step(inner)
            frame.absorb(inner, writes)

    return run


def _guarded_sync(
    step: Callable[[Frame], Array | None], guard: Register, writes: tuple[str, ...]
) -> Callable[[Frame], Array | None]:
    name, negated = guard.name, guard.negated

    def run(frame: Frame) -> Array | None:
        chosen = ~frame[name] if negated else frame[name]
        if chosen.all():
            return step(frame)
        if not chosen.any():
            return None
        inner = frame.narrowed(np.flatnonzero(chosen))
        passing = step(inner)
        frame.absorb(inner, writes)
        if passing is None:
            return None
        going = ~chosen
        going[inner.selection] = passing
        return going

    return run
