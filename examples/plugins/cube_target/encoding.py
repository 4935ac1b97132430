"""The binary form of an instruction stream: a header with the views, then 28 bytes for each instruction."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .isa import ELEMENTS, Box, Counter, CubeProgram, Engine, Instruction, Load, MemoryView, Multiply, Store

MAGIC = b"CUBE\x01"
_HEADER, _SIZE = struct.Struct("<5s8sBBI"), struct.Struct("<Q")
_VIEW, _LOOP = struct.Struct("<BBqBB"), struct.Struct("<Iq")
# Engine, engines to wait for and to signal; then a view, its box and an address, or what a product needs.
_MOVE, _MULTIPLY = struct.Struct("<BBBB5I4x"), struct.Struct("<BBB?3I3HBB4x")
_NAMES = tuple(ELEMENTS)


class EncodingError(ValueError):
    """Bytes are not an instruction stream."""


def encode(program: CubeProgram) -> bytes:
    """Returns the binary form of a stream."""
    counts = len(program.sizes), len(program.views), len(program.instructions)
    parts = [_HEADER.pack(MAGIC, program.machine.encode(), *counts), *map(_SIZE.pack, program.sizes)]
    for view in program.views:
        rows, columns = view.rows.loops, view.columns.loops
        head = view.argument, _NAMES.index(view.element), view.start, len(rows), len(columns)
        parts += [_VIEW.pack(*head), *(_LOOP.pack(*loop) for loop in (*rows, *columns))]
    return b"".join([*parts, *map(_encoded, program.instructions)])


def _encoded(item: Instruction) -> bytes:
    head = item.engine, _mask(item.wait), _mask(item.signal)
    if isinstance(item, Multiply):
        elements = map(_NAMES.index, item.elements)
        return _MULTIPLY.pack(*head, item.starts, item.left, item.right, item.sums, *item.shape, *elements)
    box = item.box
    return _MOVE.pack(*head, box.view, box.row, box.rows, box.column, box.columns, item.address)


def decode(data: bytes) -> CubeProgram:
    """Returns the stream that `encode` wrote.

    Raises:
        EncodingError: the bytes are not a stream.
    """
    try:
        return _decoded(memoryview(data))
    except (struct.error, ValueError, IndexError) as error:
        raise EncodingError(f"not an instruction stream of the cube unit: {error}") from error


def _decoded(data: memoryview) -> CubeProgram:
    magic, machine, sizes, views, count = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("it starts with other bytes")
    place = _HEADER.size

    def read(form: struct.Struct) -> tuple:
        nonlocal place
        place += form.size
        return form.unpack_from(data, place - form.size)

    arguments = tuple(read(_SIZE)[0] for _ in range(sizes))
    found = []
    for _ in range(views):
        argument, element, start, rows, columns = read(_VIEW)
        loops = [read(_LOOP) for _ in range(rows + columns)]
        counters = Counter(tuple(loops[:rows])), Counter(tuple(loops[rows:]))
        found.append(MemoryView(argument, _NAMES[element], start, *counters))
    if len(data) != place + count * _MOVE.size:
        raise ValueError("it is cut off, or too long")
    stream = tuple(_instructions(data[place:]))
    return CubeProgram(machine.rstrip(b"\0").decode(), arguments, tuple(found), stream)


def _instructions(data: memoryview) -> Iterator[Instruction]:
    for place in range(0, len(data), _MOVE.size):
        code, wait, signal, view, *box, address = _MOVE.unpack_from(data, place)
        tokens = _engines(wait), _engines(signal)
        engine = Engine(code)
        if engine == Engine.COMPUTE:
            *_, starts, left, right, sums, m, k, n, first, second = _MULTIPLY.unpack_from(data, place)
            elements = _NAMES[first], _NAMES[second]
            yield Multiply(left, right, sums, (m, k, n), elements, starts, *tokens)
        else:
            yield (Load if engine == Engine.LOAD else Store)(Box(view, *box), address, *tokens)


def _mask(engines: tuple[Engine, ...]) -> int:
    return sum(1 << engine for engine in engines)


def _engines(mask: int) -> tuple[Engine, ...]:
    return tuple(engine for engine in Engine if mask >> engine & 1)
