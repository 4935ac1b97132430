"""Validation of launch plans: every step must be possible on a device and stay inside the program's own buffers.

Artefacts are untrusted: a kernel never gets an address outside the buffers of its own program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...machines.gpus import BLOCK_THREADS, CAPABILITIES
from ...support.wording import quantity
from ..launch_plan import (
    ARENA,
    ELEMENT_BYTES,
    INPUT,
    OUTPUT,
    PARAMETER,
    SCALAR_BYTES,
    BufferSlice,
    DeviceCopy,
    DeviceStep,
    Fill,
    Launch,
    LaunchArgument,
    LaunchPlan,
    TensorMap,
    argument_bytes,
)

# From the CUDA C++ Programming Guide: its technical specifications, and clusters, which have more than 8 blocks only on
# some GPUs. Drivers before CUDA 12.1 take this many bytes of arguments, later ones 32,764.
MOST_SHARED_BYTES = max(capability.shared_bytes for capability in CAPABILITIES.values())
MOST_ARGUMENT_BYTES = 4096
MOST_BLOCKS_OF_A_CLUSTER = 16
_MOST_GRID = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
_IDENTIFIER = re.compile(r"[A-Za-z_$%][A-Za-z0-9_$]*")


@dataclass(frozen=True)
class BufferSizes:
    """Sizes in bytes of a program's buffers."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parameters: tuple[int, ...]
    arena: int

    def of(self, space: str, index: int) -> int:
        """Returns the size of a buffer, or -1 if there is no such buffer."""
        if space == ARENA:
            return self.arena if index == 0 else -1
        sizes = {INPUT: self.inputs, OUTPUT: self.outputs, PARAMETER: self.parameters}.get(space, ())
        return sizes[index] if 0 <= index < len(sizes) else -1


def check_plan(plan: LaunchPlan, inputs: Iterable[int], outputs: Iterable[int], parameters: Iterable[int]) -> None:
    """Checks every step of a plan, given the sizes in bytes of the program's buffers, in order.

    Raises:
        ValueError: a step is not possible, leaves its buffer, or writes an input or a parameter.
    """
    sizes = BufferSizes(tuple(inputs), tuple(outputs), tuple(parameters), plan.arena_bytes)
    for place, step in enumerate(plan.steps):
        try:
            check_step(step, sizes)
        except ValueError as error:
            raise ValueError(f"step {place} of the launch plan: {error}") from None


def check_step(step: DeviceStep, sizes: BufferSizes) -> None:
    """Checks that a device can execute a step, and that the step stays inside the program's buffers.

    Raises:
        ValueError: a check fails.
    """
    if isinstance(step, Launch):
        _check_launch(step)
        for argument in step.arguments:
            _check_argument(argument, sizes)
        return
    if isinstance(step, DeviceCopy):
        _check_buffer(step.source, sizes)
    target = step.target if isinstance(step, DeviceCopy) else step.buffer
    _check_buffer(target, sizes)
    if target.space not in (OUTPUT, ARENA):
        raise ValueError(f"{target} is read-only: expected an output or the arena")
    if isinstance(step, Fill):
        _require(0 <= step.value < 256, f"fill value {step.value} is not a byte")
        return
    if step.source.bytes != step.target.bytes:
        raise ValueError(f"{step.source} and {step.target} differ in size")
    if (step.source.space, step.source.index) == (target.space, target.index):
        apart = abs(step.source.offset - target.offset) >= target.bytes
        _require(apart, f"{step.source} and {step.target} overlap")


def _check_launch(launch: Launch) -> None:
    name = f"launch of {launch.entry!r}"
    _require(bool(_IDENTIFIER.fullmatch(launch.entry)), f"{launch.entry!r} is not a valid name of a PTX entry")
    _require(bool(launch.module), f"{name}: it names no module")
    for what, dims, most in (
        ("grid", launch.grid, _MOST_GRID),
        ("block", launch.block, _MOST_BLOCK),
        ("cluster", launch.cluster, _MOST_GRID),
    ):
        fits = len(dims) == 3 and all(1 <= dim <= limit for dim, limit in zip(dims, most, strict=True))
        _require(fits, f"{name}: invalid {what} {dims}")
    _require(math.prod(launch.block) <= BLOCK_THREADS, f"{name}: the block {launch.block} has too many threads")
    _require(
        math.prod(launch.cluster) <= MOST_BLOCKS_OF_A_CLUSTER,
        f"{name}: the cluster {launch.cluster} has too many blocks",
    )
    whole = all(grid % cluster == 0 for grid, cluster in zip(launch.grid, launch.cluster, strict=True))
    _require(whole, f"{name}: the grid {launch.grid} is not a multiple of the cluster")
    _require(
        0 <= launch.shared_bytes <= MOST_SHARED_BYTES,
        f"{name}: {launch.shared_bytes} bytes of shared memory are more than a block can have ({MOST_SHARED_BYTES})",
    )
    total = sum(map(argument_bytes, launch.arguments))
    _require(total <= MOST_ARGUMENT_BYTES, f"{name}: its arguments take too many bytes ({total})")


def _check_argument(argument: LaunchArgument, sizes: BufferSizes) -> None:
    if isinstance(argument, BufferSlice):
        _check_buffer(argument, sizes)
    elif isinstance(argument, TensorMap):
        _check_buffer(argument.buffer, sizes)
        _check_map(argument)
    elif argument.type.startswith("int"):
        bits = 8 * SCALAR_BYTES[argument.type]
        fits = isinstance(argument.value, int) and -(2 ** (bits - 1)) <= argument.value < 2 ** (bits - 1)
        _require(fits, f"{argument.value!r} is not a valid {argument.type}")


def _check_buffer(buffer: BufferSlice, sizes: BufferSizes) -> None:
    held = sizes.of(buffer.space, buffer.index)
    _require(held >= 0, f"there is no {buffer.space} {buffer.index}")
    inside = buffer.offset >= 0 and buffer.bytes >= 0 and buffer.offset + buffer.bytes <= held
    _require(inside, f"{buffer} is not inside its {held} bytes")


def _check_map(tensor: TensorMap) -> None:
    """Checks the rules of `cuTensorMapEncodeTiled` without interleaving."""
    _require(tensor.element in ELEMENT_BYTES, f"{tensor.element!r} is not an element type of a tensor map")
    rank, width = len(tensor.sizes), ELEMENT_BYTES[tensor.element]
    _require(1 <= rank <= 5, f"invalid rank {rank} of a tensor map: expected 1 to 5")
    listed = len(tensor.strides) == rank - 1 and len(tensor.box) == rank and len(tensor.steps) in (0, rank)
    _require(listed, f"the tensor map lacks strides, box or steps of its {quantity(rank, 'dimension')}")
    _require(all(1 <= size <= 2**32 for size in tensor.sizes), f"invalid sizes {tensor.sizes}: expected 1 to 2**32")
    _require(
        all(stride % 16 == 0 and 0 <= stride < 2**40 for stride in tensor.strides),
        f"strides {tensor.strides} are not multiples of 16 bytes below 2**40",
    )
    _require(all(1 <= extent <= 256 for extent in tensor.box), f"invalid box {tensor.box}: expected 1 to 256")
    _require(all(1 <= step <= 8 for step in tensor.steps), f"invalid steps {tensor.steps}: expected 1 to 8")
    inner = tensor.box[0] * width
    _require(inner % 16 == 0, f"the box's rows have {inner} bytes, which is not a multiple of 16")
    _require(tensor.swizzle in (0, 32, 64, 128), f"invalid swizzle {tensor.swizzle}: expected 0, 32, 64 or 128 bytes")
    _require(not tensor.swizzle or inner <= tensor.swizzle, f"rows of {inner} bytes exceed swizzle {tensor.swizzle}")
    _require(tensor.fill in ("zero", "nan"), f"invalid fill {tensor.fill!r}: expected 'zero' or 'nan'")
    _require(tensor.fill == "zero" or "float" in tensor.element, f"{tensor.element} has no NaN to fill with")
    _require(tensor.promotion in (0, 64, 128, 256), f"invalid promotion {tensor.promotion}: expected 0, 64, 128 or 256")
    _require(tensor.buffer.offset % 16 == 0, f"{tensor.buffer} is not aligned to 16 bytes")
    _require(tensor.extent <= tensor.buffer.bytes, f"a tensor map of {tensor.extent} bytes exceeds {tensor.buffer}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
