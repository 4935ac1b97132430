"""Parser of PTX text.

The supported subset is what compilers emit: entries, variables, registers, labels, jump tables, instructions, and the
scopes in braces that inline assembly creates. Device functions are not supported: Stepwell inlines everything.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Iterator

from ....runtime.cuda.errors import PtxError
from .syntax import (
    WIDTHS,
    Address,
    Immediate,
    Instruction,
    PtxEntry,
    PtxModule,
    PtxOperand,
    Register,
    Symbol,
    Variable,
    Vector,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_NAME = re.compile(r"[A-Za-z_$%][\w$.]*")
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\((.*)\))?", re.DOTALL)
_DIRECTIVE = re.compile(r"\.(\w+)\s+([\d,\s]+)")
_STATEMENT = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w]*)((?:(?:\.|::)\w+)*)\s*(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\.(param|shared|global|const|local)\s*(?:\.align\s+(\d+)\s*)?(?:\.attribute\([^)]*\)\s*)?"
    r"((?:\.\w+\s+)+)(?:\.align\s+(\d+)\s+)?(?:\.(b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64)\s+)?"
    r"([A-Za-z_$%][\w$]*)((?:\s*\[\d*\])*)\s*(?:=\s*(.*))?",
    re.DOTALL,
)
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_IGNORED = (".loc", ".file", ".pragma", ".alias", ".minnctapersm", ".callprototype")
_LINKAGE = (".visible", ".extern", ".weak", ".common")


def parse(text: str) -> PtxModule:
    """Parses a module.

    Raises:
        PtxError: the text is malformed, or not supported by the simulator.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        # Comments become blanks, so that positions in the text do not change.
        self.text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.place = 0

    def line(self, place: int | None = None) -> int:
        return bisect.bisect_right(self._starts, self.place if place is None else place)

    def error(self, message: str, place: int | None = None) -> PtxError:
        return PtxError(message, self.line(place))

    def skip(self) -> str:
        """Advances to the next non-blank character and returns it; "" at the end."""
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1
        return self.text[self.place : self.place + 1]

    def until(self, ends: str) -> str:
        """Returns the text up to the first of some characters, and advances past that character."""
        found = [at for at in (self.text.find(end, self.place) for end in ends) if at >= 0]
        if not found:
            raise self.error(f"unexpected end of text: expected one of {ends!r}")
        piece = self.text[self.place : min(found)]
        self.place = min(found) + 1
        return piece.strip()

    def module(self) -> PtxModule:
        module = PtxModule()
        while self.skip():
            start = self.place
            word = self.text[start:].split(None, 1)[0]
            if word == ".version":
                major, minor = self._line_of_words()[1].split(".")
                module.version = (int(major), int(minor))
            elif word == ".target":
                module.target = self._line_of_words()[1].rstrip(",")
            elif word in (".address_size", *_IGNORED):
                self._line_of_words()
            elif word == ".section":
                self.until("{")
                self.until("}")
            else:
                self._declaration(module)
        return module

    def _line_of_words(self) -> list[str]:
        end = self.text.find("\n", self.place)
        piece = self.text[self.place : end if end >= 0 else len(self.text)]
        self.place += len(piece)
        return piece.rstrip("; ").split()

    def _declaration(self, module: PtxModule) -> None:
        start = self.place
        head = self.until("{;=")
        ended = self.text[self.place - 1]
        if ".entry" in head:
            if ended == "{":
                function = self._function(head, start)
                module.entries[function.name] = function
            return
        if ".func" in head:
            if ended == "{":
                raise self.error("device functions are not supported: inline them", start)
            return
        if ended == "{":
            raise self.error(f"expected an entry before a block, got {head!r}", start)
        if ended == "=":
            head = f"{head} = {self.until(';')}"
        module.variables.append(self.variable(head, start))

    def variable(self, text: str, start: int) -> Variable:
        for word in _LINKAGE:
            text = text.removeprefix(word).strip()
        match = _VARIABLE.fullmatch(text)
        if not match:
            raise self.error(f"malformed declaration of a variable: {text!r}", start)
        space, align, kinds, later, _, name, dims, data = match.groups()
        types = [kind for kind in kinds.replace(".", " ").split() if kind in WIDTHS]
        if not types:
            raise self.error(f"{name} has an unsupported type: {kinds!r}", start)
        vector = 4 if ".v4" in kinds else 2 if ".v2" in kinds else 1
        width, count = WIDTHS[types[-1]], vector
        for dim in re.findall(r"\[(\d*)\]", dims):
            count *= int(dim or 0)
        contents = None if data is None else self._data(data, types[-1], width * count, start)
        return Variable(name, space, int(align or later or width * vector), width * count, contents)

    def _data(self, text: str, kind: str, size: int, start: int) -> bytes:
        if not re.fullmatch(r"[\s{},\w.+-]*", text):
            raise self.error("initial data other than numbers are not supported", start)
        items = [item for item in re.split(r"[\s{},]+", text) if item]
        values = [self.operand(item, start) for item in items]
        width = WIDTHS[kind]
        packed = bytearray()
        for value in values:
            if not isinstance(value, Immediate):
                raise self.error("initial data other than numbers are not supported", start)
            packed += immediate_bits(value, kind).to_bytes(width, "little")
        return bytes(packed.ljust(size, b"\0"))

    def _function(self, head: str, start: int) -> PtxEntry:
        match = _ENTRY.search(head)
        if not match:
            raise self.error(f"malformed head of an entry: {head!r}", start)
        name, parameters = match.group(1), match.group(2) or ""
        function = PtxEntry(name)
        tail = head[match.end() :]
        if match.group(2) is not None and ")" in match.group(2):
            # The greedy match may have included directives with parentheses.
            raise self.error("the head of the entry is not supported", start)
        for piece in filter(None, (piece.strip() for piece in parameters.split(","))):
            function.parameters.append(self._parameter(piece, start))
        for directive, numbers in _DIRECTIVE.findall(tail):
            function.directives[directive] = tuple(int(number) for number in numbers.replace(",", " ").split())
        _Body(self, function).read()
        return function

    def _parameter(self, text: str, start: int) -> Variable:
        # The pointer attributes of `.param .u64 .ptr .global .align 16 name` are irrelevant here.
        plain = re.sub(r"\.ptr(\s*\.(global|shared|const|local))?(\s*\.align\s+\d+)?", "", text)
        return self.variable(plain, start)

    def operand(self, text: str, start: int) -> PtxOperand:
        text = text.strip()
        if text.startswith("{"):
            return Vector(tuple(self.operand(item, start) for item in _split(text[1:-1])))
        if text.startswith("["):
            return self._address(text, start)
        if text.startswith("!"):
            return Register(text[1:].strip(), negated=True)
        if "|" in text:
            return Vector(tuple(self.operand(item, start) for item in text.split("|")))
        number = _number(text)
        if number is not None:
            return number
        if _NAME.fullmatch(text):
            return Register(text)
        name, plus, offset = text.partition("+")
        if plus and _NAME.fullmatch(name.strip()):
            return Symbol(name.strip(), int(offset, 0))
        raise self.error(f"malformed operand: {text!r}", start)

    def _address(self, text: str, start: int) -> Address:
        if not text.endswith("]"):
            raise self.error(f"malformed address: {text!r}", start)
        base, *rest = _split(text[1:-1])
        coordinates = self.operand(rest[0], start) if rest else None
        match = re.fullmatch(r"(.+?)\s*([+-])\s*(-?\w+)", base.strip())
        offset = 0
        if match and not _INTEGER.fullmatch(base.strip()):
            offset = int(match.group(3), 0) * (-1 if match.group(2) == "-" else 1)
            base = match.group(1)
        inner = self.operand(base, start)
        if isinstance(inner, Vector | Address) or not isinstance(coordinates, Vector | None):
            raise self.error(f"malformed address: {text!r}", start)
        return Address(inner, offset, coordinates)


class _Body:
    """Parser of the body of an entry."""

    def __init__(self, parser: _Parser, function: PtxEntry) -> None:
        self.parser, self.function = parser, function
        self.scopes: list[dict[str, str]] = [{}]
        self.scope_count = 0

    def read(self) -> None:
        parser = self.parser
        while True:
            character = parser.skip()
            if not character:
                raise parser.error(f"the body of {self.function.name} has no closing brace")
            if character == "{":
                parser.place += 1
                self._enter()
            elif character == "}":
                parser.place += 1
                self.scopes.pop()
                if not self.scopes:
                    break
            elif match := _LABEL.match(parser.text, parser.place):
                parser.place = match.end()
                self._label(match.group(1))
            else:
                start = parser.place
                self._statement(parser.until(";"), start)
        self.function.body = [self._resolved(instruction) for instruction in self.function.body]

    def _enter(self) -> None:
        """Opens a scope, in which declared names, including labels, are renamed to be unique."""
        parser, depth, place = self.parser, 1, self.parser.place
        while depth:
            match = re.compile(r"[{}]").search(parser.text, place)
            if not match:
                raise parser.error("a scope has no closing brace")
            depth += 1 if match.group() == "{" else -1
            place = match.end()
        self.scope_count += 1
        inside = parser.text[parser.place : place]
        labels = {match.group(1) for match in _LABEL.finditer(inside)}
        self.scopes.append({label: f"{label}@{self.scope_count}" for label in labels})

    def _label(self, label: str) -> None:
        name = self._renamed(label)
        if name in self.function.labels:
            raise self.parser.error(f"duplicate label {label}")
        self.function.labels[name] = len(self.function.body)
        rest = self.parser.skip()
        if rest == "." and self.parser.text.startswith(".branchtargets", self.parser.place):
            self.parser.place += len(".branchtargets")
            targets = self.parser.until(";").split(",")
            self.function.targets[name] = tuple(self._renamed(target.strip()) for target in targets)

    def _renamed(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _statement(self, text: str, start: int) -> None:
        if not text or text.split(None, 1)[0] in _IGNORED:
            return
        if text.startswith(".reg"):
            self._registers(text, start)
        elif text.startswith("."):
            self.function.variables.append(self.parser.variable(text, start))
        else:
            self.function.body.append(self._instruction(text, start))

    def _registers(self, text: str, start: int) -> None:
        match = re.fullmatch(r"\.reg\s+(?:\.(v2|v4)\s+)?\.(\w+)\s+(.*)", text, re.DOTALL)
        if not match or match.group(1) or match.group(2) not in WIDTHS:
            raise self.parser.error(f"unsupported declaration of registers: {text!r}", start)
        for item in match.group(3).split(","):
            name, _, count = item.strip().rstrip(">").partition("<")
            for declared in [name] if not count else [f"{name}{number}" for number in range(int(count))]:
                if len(self.scopes) > 1:
                    self.scopes[-1][declared] = f"{declared}@{self.scope_count}"
                self.function.registers[self._renamed(declared)] = match.group(2)

    def _instruction(self, text: str, start: int) -> Instruction:
        match = _STATEMENT.fullmatch(text)
        if not match:
            raise self.parser.error(f"malformed instruction: {text!r}", start)
        negated, guard, opcode, modifiers, rest = match.groups()
        operands = tuple(self._scoped(self.parser.operand(item, start)) for item in _split(rest))
        predicate = Register(self._renamed(guard), bool(negated)) if guard else None
        place = start + len(text) - len(text.lstrip())
        parts = tuple(modifiers.removeprefix(".").split(".")) if modifiers else ()
        return Instruction(opcode, parts, operands, predicate, self.parser.line(place))

    def _scoped(self, operand: PtxOperand) -> PtxOperand:
        if len(self.scopes) == 1:
            return operand
        if isinstance(operand, Register):
            return Register(self._renamed(operand.name), operand.negated)
        if isinstance(operand, Vector):
            return Vector(tuple(map(self._scoped, operand.items)))
        if isinstance(operand, Address):
            coordinates = None if operand.coordinates is None else self._scoped(operand.coordinates)
            return Address(self._scoped(operand.base), operand.offset, coordinates)  # type: ignore[arg-type]
        return operand

    def _resolved(self, instruction: Instruction) -> Instruction:
        """Returns the instruction with names of variables and labels as symbols instead of registers."""
        operands = tuple(map(self._named, instruction.operands))
        return Instruction(instruction.opcode, instruction.modifiers, operands, instruction.predicate, instruction.line)

    def _named(self, operand: PtxOperand) -> PtxOperand:
        if isinstance(operand, Register) and not operand.name.startswith("%") and operand.name != "_":
            return operand if operand.name in self.function.registers else Symbol(operand.name)
        if isinstance(operand, Address) and isinstance(operand.base, Register):
            return Address(self._named(operand.base), operand.offset, operand.coordinates)  # type: ignore[arg-type]
        if isinstance(operand, Vector):
            return Vector(tuple(map(self._named, operand.items)))
        return operand


def immediate_bits(immediate: Immediate, kind: str) -> int:
    """Returns the bits of a number as an operand of a type."""
    width, value = WIDTHS[kind], immediate.value
    if immediate.bits:
        return int(value)
    if kind in ("f32", "f64"):
        return int.from_bytes(struct.pack("<f" if kind == "f32" else "<d", value), "little")
    return int(value) & ((1 << (8 * width)) - 1)


def _number(text: str) -> Immediate | None:
    if _INTEGER.fullmatch(text):
        digits = text.rstrip("U")
        octal = re.fullmatch(r"-?0[0-7]+", digits)
        return Immediate(int(digits, 8 if octal else 0))
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return Immediate(int(text[2:], 16), 32)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return Immediate(int(text[2:], 16), 64)
    if re.fullmatch(r"-?\d*\.\d*(?:[eE][+-]?\d+)?|-?\d+[eE][+-]?\d+", text) and any(map(str.isdigit, text)):
        return Immediate(float(text))
    return Immediate(32) if text == "WARP_SZ" else None


def _split(text: str) -> list[str]:
    """Splits at commas that are not in brackets, and drops empty parts."""
    return [part for part in _parts(text) if part]


def _parts(text: str) -> Iterator[str]:
    if "{" not in text and "[" not in text and "(" not in text:
        yield from (part.strip() for part in text.split(","))
        return
    depth = start = 0
    for place, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()
