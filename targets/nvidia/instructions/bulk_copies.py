"""PTX instructions for Hopper's copy engine (TMA) and for the shared-memory barriers that signal its completion.

A barrier (`mbarrier`) has phases. A phase ends when the number of threads given at initialization have arrived and all
announced bytes have been copied. A waiting thread names the parity of the phase: 0 for the first, 1 for the second,
then 0 again.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import scf

from .inline_ptx import assembly
from .integers import Int

BARRIER_BYTES = 8
"""Size and alignment of a barrier (PTX ISA, "Size and alignment of mbarrier object")."""


def make_barrier(barrier: Int, arrivals: int) -> None:
    """Initializes a barrier whose phases end after `arrivals` arrivals."""
    assembly(f"mbarrier.init.shared::cta.b64 [$0], {arrivals};", [barrier.ir], ["r"])


def publish_barriers() -> None:
    """Makes new barriers visible to the copy engine; the caller must synchronize the block afterwards."""
    assembly("fence.mbarrier_init.release.cluster;", [], [])


def arrive(barrier: Int) -> None:
    """Arrives at a barrier."""
    assembly("mbarrier.arrive.shared::cta.b64 _, [$0];", [barrier.ir], ["r"])


def arrive_expecting(barrier: Int, size: int) -> None:
    """Arrives at a barrier and adds `size` bytes to those that its current phase waits for."""
    assembly(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {size};", [barrier.ir], ["r"])


def wait_for(barrier: Int, parity: Int) -> None:
    """Waits until the phase with the given parity has ended."""
    i1 = ir.IntegerType.get_signless(1)
    loop = scf.WhileOp([], [])
    before, after = (region.blocks.append() for region in loop.regions)
    with ir.InsertionPoint(before):
        text = "mbarrier.try_wait.parity.shared::cta.b64 $0, [$1], $2;"
        (is_over,) = assembly(text, [barrier.ir, parity.ir], ["=b", "r", "r"], [i1])
        true = ir.Operation.create("arith.constant", [i1], [], {"value": ir.IntegerAttr.get(i1, 1)}).result
        is_open = ir.Operation.create("arith.xori", [i1], [is_over, true]).result
        scf.condition(is_open, [])
    with ir.InsertionPoint(after):
        scf.yield_([])


def copy_box(shared: Int, tensor_map: ir.Value, corner: Sequence[Int], barrier: Int) -> None:
    """Starts copying a box of a tensor to shared memory; the barrier counts the bytes that arrive.

    Args:
        shared: destination address, aligned as the map's swizzle requires.
        tensor_map: generic pointer to the tensor's map.
        corner: the box's first element in each dimension, innermost first; elements outside the tensor are zero.
        barrier: barrier of the same block.
    """
    places = ", ".join(f"${place + 3}" for place in range(len(corner)))
    text = (
        f"cp.async.bulk.tensor.{len(corner)}d.shared::cluster.global.mbarrier::complete_tx::bytes"
        f" [$0], [$1, {{{places}}}], [$2];"
    )
    operands = [shared.ir, tensor_map, barrier.ir, *(part.ir for part in corner)]
    assembly(text, operands, ["r", "l", "r", *["r"] * len(corner)])


def prefetch_map(tensor_map: ir.Value) -> None:
    """Prefetches a tensor map before its first use."""
    assembly("prefetch.tensormap [$0];", [tensor_map], ["l"])
