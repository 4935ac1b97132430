"""The order of ops after a backward pass, such as those of an optimiser."""

from __future__ import annotations

from mlir import ir

from .reverse import values_read


def move_up(block: ir.Block, start: int) -> None:
    """Moves ops at the end of a block to right after the values before that they depend on.

    A kernel that computes the gradient of a parameter and its step runs where its last op is. At the end of the block,
    what all of these kernels read would be kept until then.

        d1 = f(x), d0 = g(y), s = h(w1, d1), t = h(w0, d0) --> d1 = f(x), s = h(w1, d1), d0 = g(y), t = h(w0, d0)

    An op that depends on no op before `start` goes to its first reader.

    Args:
        block: the block.
        start: the place of the first op that may be moved.
    """
    ops = [view.operation for view in block.operations][:-1]
    places = {value: place for place, op in enumerate(ops) for value in op.results}
    # The places that ops go after; -1 for those that depend on arguments of the block only.
    after = list(range(len(ops)))
    for place in range(start, len(ops)):
        after[place] = max((after[places[value]] for value in values_read(ops[place]) if value in places), default=-1)
    first = dict.fromkeys(range(start, len(ops)), len(ops))
    for place in range(len(ops) - 1, start - 1, -1):
        if after[place] < 0 and first[place] < len(ops):
            after[place] = first[place]
        for value in values_read(ops[place]):
            maker = places.get(value, -1)
            if maker >= start and after[place] >= 0:
                first[maker] = min(first[maker], after[place])
    last = {place: ops[place] for place in set(after) if 0 <= place < start}
    for place in range(start, len(ops)):
        anchor = last.get(after[place])
        if anchor is not None:
            ops[place].move_after(anchor)
            last[after[place]] = ops[place]
