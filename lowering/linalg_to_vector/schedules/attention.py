"""Schedules of attention: parallel blocks of queries of one head, each with two loops of register tiles.

scores = linalg.generic {(b, h, k, q) reduces d}     scf.forall (b, h, block of q)
softmax of it along k                          -->     scf.for (keys) scores on [keys, q]
result = linalg.generic {(b, h, q, v) reduces k}       softmax on [k, q], which stays in the cache
                                                       scf.for (q, v) result on [q, v]
"""

from __future__ import annotations

import itertools

from mlir import ir

from ....dialects import discardable
from ....machines.machine import Machine
from ....machines.tiles import step_cycles
from ....passes.ir.rewriting import walk
from ...target import Target
from ..tile_reads import Indexing
from .base import Schedule
from .sorting import in_order
from .steps import CLEANUP, FOLD_EMPTY, loop_parameters, script
from .typical import typical_sizes

# The scores of a block of queries are on the stack of a thread.
_SCORE_BYTES = 64 * 1024
_MOST_ROWS = 16
"""Maximum number of rows of a tile of the result, and half that of a tile of scores: a choice that limits the code."""

# Number of keys in a tile of scores if the number of keys may be small.
_FEW_KEYS = 8

REGISTER_TILES = (("scores start", "scores", "masked"), ("sum start", "sum", "result"))
"""Roles of the ops of each register tile, in order."""


def attention(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of an attention kernel.

    Its parameters are `queries`, the number of queries in a block; `keys`, the rows of a register tile of scores;
    and `rows` and `columns` of a register tile of the result.
    """
    roles = {role: op for op in walk(kernel) if (role := role_of(op)) is not None}
    if "result" not in roles:  # few queries are in loops already
        return in_order(kernel, target)
    loops = discardable.LOOPS.required(roles["result"])
    sizes = _sizes(roles["scores"]) | _sizes(roles["sum"])
    lanes = target.lanes(4)
    result = _sizes(roles["result"])
    typical = [found[loops.index("q")] for found in typical_sizes(kernel, [result[name] for name in loops])]
    queries = _queries(sizes["q"], sizes["k"], lanes, min(typical, default=sizes["q"]))
    rows, columns = _tile(min(queries, sizes["q"]), sizes["v"], lanes, target.machine)
    varies = discardable.KEYS.is_on(kernel)
    most = _FEW_KEYS if varies and min(typical, default=sizes["q"]) <= lanes else sizes["k"]
    # Loops over keys end at the varying number of keys, so there must be a loop: at least two tiles.
    most = min(most, sizes["k"] // 2) if varies else most
    keys = _rows(sizes["k"], -(-min(queries, sizes["q"]) // lanes), target.machine, most)
    chosen = {"queries": queries, "keys": keys, "rows": rows, "columns": columns}
    parameters = loop_parameters(kernel, target, **chosen)
    block = [{"v": 0, "q": parameters["queries"]}.get(name, 1) for name in loops]
    masked = roles.get("masked", roles["scores"])
    lines = [
        *(line for role in ("key", "value") if role in roles for line in _gathered(role)),
        _match("%root", "result"),
        f"%block, %blocks = transform.structured.fuse %root tile_sizes {block} {{use_forall}}"
        " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)",
        *FOLD_EMPTY,
        *CLEANUP,
        *_tiled(role_of(masked), discardable.LOOPS.required(masked), {"k": parameters["keys"]}),
        *_tiled("result", loops, {"q": parameters["rows"], "v": parameters["columns"]}),
        *FOLD_EMPTY,
        *CLEANUP,
    ]
    return script("attention", parameters, lines)


def role_of(op: ir.Operation) -> str | None:
    """Returns the role of an op of an attention kernel, as recorded by its lowering."""
    return discardable.ROLE.read(op)


def _gathered(role: str) -> list[str]:
    """Returns the script lines that copy a key or value head by head, before everything else."""
    return [
        _match(f"%{role}", role),
        f"%{role}_head, %{role}_heads = transform.structured.tile_using_forall %{role} tile_sizes [1, 1, 0, 0]"
        " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)",
    ]


def _tiled(role: str | None, loops: str, tile: dict[str, int]) -> list[str]:
    """Returns the script lines that tile an op and fuse the earlier ops of its register tile into the same loops."""
    sizes = [tile.get(name, 0) for name in loops]
    count = sum(size > 0 for size in sizes)
    kinds = ", ".join(["!transform.any_op"] * (count + 1))
    # The loop itself carries the start value of a tile's first op; the vectoriser moves it inside.
    (roles,) = (roles for roles in REGISTER_TILES if role in roles)
    before = roles[: roles.index(role)] if roles.index(role) > 1 else ()
    lines = [
        _match(f"%{role}", role),
        f"%{role}_tile, %{role}_loops:{count} = transform.structured.tile_using_for %{role} tile_sizes {sizes}"
        f" : (!transform.any_op) -> ({kinds})",
    ]
    container = f"%{role}_loops#{count - 1}"
    for number, producer in enumerate(reversed(before)):
        whole = f"%{role}_source{number}"
        lines += [
            _match(whole, producer),
            f"{whole}_tile, {whole}_container = transform.structured.fuse_into_containing_op {whole} into {container}"
            " : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)",
        ]
        container = f"{whole}_container"
    return lines


def _queries(length: int, keys: int, lanes: int, fewest: int) -> int:
    """Returns the number of queries in a block: two registers of them, or one register if the scores are too large.

    One register is also used if there may be so few queries, because whole registers are computed.
    """
    wide = 2 * lanes * keys * 4 <= _SCORE_BYTES and fewest > lanes
    return min(length, 2 * lanes if wide else lanes)


def _tile(rows: int, columns: int, lanes: int, machine: Machine) -> tuple[int, int]:
    """Returns the fastest register tile of the result; overhanging tiles cost as much as whole ones."""

    def cycles(shape: tuple[int, int]) -> float:
        vectors = -(-shape[1] // lanes)
        return -(-rows // shape[0]) * -(-columns // shape[1]) * step_cycles(machine, shape[0], vectors, is_near=True)

    widths = {min(columns, count * lanes) for count in (1, 2, 3, 4)}
    shapes = [
        (height, width)
        for height, width in itertools.product(range(1, min(rows, _MOST_ROWS) + 1), sorted(widths))
        if (height + 1) * -(-width // lanes) < machine.vector_registers
    ]
    return min(shapes, key=cycles)


def _rows(rows: int, vectors: int, machine: Machine, most: int) -> int:
    """Returns the number of rows of the fastest register tile of scores, at most `most`."""
    limit = min(rows, most, 2 * _MOST_ROWS, (machine.vector_registers - 1) // vectors - 1)
    return min(
        range(1, limit + 1), key=lambda height: -(-rows // height) * step_cycles(machine, height, vectors, is_near=True)
    )


def _sizes(op: ir.Operation) -> dict[str, int]:
    return dict(zip(discardable.LOOPS.required(op), Indexing(op).sizes, strict=True))


def _match(handle: str, role: str | None) -> str:
    return (
        f'{handle} = transform.structured.match attributes {{{discardable.ROLE.name} = "{role}"}} in %kernel'
        " : (!transform.any_op) -> !transform.any_op"
    )
