"""The textual form of an instruction stream, one line for each view and instruction.

machine v1, arguments of 8192, 2048, 4096 bytes
%0 = f16 argument 0 + 0, rows 128:32, columns 32:1
load %0[0:128, 0:32] -> 0x0 | signal compute
multiply 0x0 * 0x2000 -> 0x0, 8x2x1 f16*f16, start | wait load | signal store
store 0x0 -> %2[0:128, 0:16] | wait compute
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .isa import ELEMENTS, Box, Counter, CubeProgram, Engine, Instruction, Load, MemoryView, Multiply, Store

_BOX = r"%(\d+)\[(\d+):(\d+), (\d+):(\d+)\]"
_ADDRESS = r"0x([0-9a-f]+)"
_HEADER = re.compile(r"machine (\S+), arguments of (.*) bytes")
_VIEW = re.compile(r"%\d+ = (\w+) argument (\d+) \+ (\d+), rows (\S+), columns (\S+)")
_LOAD = re.compile(rf"load {_BOX} -> {_ADDRESS}")
_STORE = re.compile(rf"store {_ADDRESS} -> {_BOX}")
_MULTIPLY = re.compile(rf"multiply {_ADDRESS} \* {_ADDRESS} -> {_ADDRESS}, (\d+)x(\d+)x(\d+) (\w+)\*(\w+)(, start)?")
_ENGINES = r"(?:load|compute|store)(?:\+(?:load|compute|store))*"
_TOKENS = re.compile(rf"(?: \| wait (?P<wait>{_ENGINES}))?(?: \| signal (?P<signal>{_ENGINES}))?")


class AssemblyError(ValueError):
    """A line is not an instruction."""


def disassemble(program: CubeProgram) -> list[str]:
    """Returns the lines of a stream."""
    sizes = ", ".join(map(str, program.sizes))
    head = [f"machine {program.machine}, arguments of {sizes} bytes"]
    views = [f"%{number} = {_view_text(view)}" for number, view in enumerate(program.views)]
    return [*head, *views, *map(instruction_text, program.instructions)]


def instruction_text(item: Instruction) -> str:
    """Returns one instruction as text."""
    if isinstance(item, Load):
        text = f"load {_box_text(item.box)} -> {item.address:#x}"
    elif isinstance(item, Store):
        text = f"store {item.address:#x} -> {_box_text(item.box)}"
    else:
        shape, kinds = "x".join(map(str, item.shape)), "*".join(item.elements)
        text = f"multiply {item.left:#x} * {item.right:#x} -> {item.sums:#x}, {shape} {kinds}"
        text += ", start" if item.starts else ""
    for word, engines in (("wait", item.wait), ("signal", item.signal)):
        if engines:
            text += f" | {word} {'+'.join(engine.name.lower() for engine in engines)}"
    return text


def _view_text(view: MemoryView) -> str:
    rows, columns = (
        ",".join(f"{extent}:{stride}" for extent, stride in item.loops) for item in (view.rows, view.columns)
    )
    return f"{view.element} argument {view.argument} + {view.start}, rows {rows}, columns {columns}"


def _box_text(box: Box) -> str:
    return f"%{box.view}[{box.row}:{box.row + box.rows}, {box.column}:{box.column + box.columns}]"


def assemble(lines: Sequence[str]) -> CubeProgram:
    """Returns the stream that `disassemble` wrote.

    Raises:
        AssemblyError: a line is not an instruction.
    """
    machine, sizes = _matched(_HEADER, lines[0]).groups()
    count = sum(line.startswith("%") for line in lines)
    views = tuple(map(_view, lines[1 : 1 + count]))
    return CubeProgram(machine, tuple(map(int, sizes.split(", "))), views, tuple(map(_instruction, lines[1 + count :])))


def _view(line: str) -> MemoryView:
    element, argument, start, rows, columns = _matched(_VIEW, line).groups()
    if element not in ELEMENTS:
        raise AssemblyError(f"'{line}': there is no element type '{element}'")
    return MemoryView(int(argument), element, int(start), _counter(rows), _counter(columns))


def _counter(text: str) -> Counter:
    pairs = (loop.split(":") for loop in text.split(","))
    return Counter(tuple((int(extent), int(stride)) for extent, stride in pairs))


def _instruction(line: str) -> Instruction:
    name, (body, *tokens) = line.split(" ", 1)[0], line.split(" |", 1)
    form, make = _FORMS.get(name, (None, None))
    if form is None or make is None:
        raise AssemblyError(f"'{line}': there is no instruction '{name}'")
    words = _TOKENS.fullmatch("".join(f" |{text}" for text in tokens))
    if words is None:
        raise AssemblyError(f"'{line}': tokens are written '| wait ENGINE+ENGINE | signal ENGINE+ENGINE'")
    return make(_matched(form, body).groups(), (_engines(words["wait"]), _engines(words["signal"])))


def _load(fields: Sequence[str], tokens: tuple[tuple[Engine, ...], tuple[Engine, ...]]) -> Load:
    return Load(_box(fields[:5]), int(fields[5], 16), *tokens)


def _store(fields: Sequence[str], tokens: tuple[tuple[Engine, ...], tuple[Engine, ...]]) -> Store:
    return Store(_box(fields[1:]), int(fields[0], 16), *tokens)


def _multiply(fields: Sequence[str], tokens: tuple[tuple[Engine, ...], tuple[Engine, ...]]) -> Multiply:
    left, right, sums = (int(field, 16) for field in fields[:3])
    m, k, n = map(int, fields[3:6])
    return Multiply(left, right, sums, (m, k, n), (fields[6], fields[7]), fields[8] is not None, *tokens)


_FORMS: dict[str, tuple[re.Pattern[str], Callable[..., Instruction]]] = {
    "load": (_LOAD, _load),
    "store": (_STORE, _store),
    "multiply": (_MULTIPLY, _multiply),
}


def _box(fields: Sequence[str]) -> Box:
    view, row, row_end, column, column_end = map(int, fields)
    return Box(view, row, row_end - row, column, column_end - column)


def _engines(text: str | None) -> tuple[Engine, ...]:
    return tuple(Engine[name.upper()] for name in text.split("+")) if text else ()


def _matched(form: re.Pattern[str], line: str) -> re.Match[str]:
    found = form.fullmatch(line)
    if found is None:
        raise AssemblyError(f"'{line}' does not have the form of the examples in the module's documentation")
    return found
