"""Ranges whose largest sizes do not fit into memory: refused before that memory is requested."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import stepwell
from stepwell.passes.ranges.errors import RangesError
from stepwell.passes.ranges.extents import MOST_PLACES, numbered

CHILD = """
import re, resource, sys, warnings
import numpy as np, stepwell
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
warnings.simplefilter("ignore")
op, high = sys.argv[1], int(sys.argv[2])
model = f'''
func.func @main(%x: tensor<4x?xf32> {{stepwell.dims = [4, "n"]}}) -> tensor<4x?xf32> {{
  %0 = "stepwell.{op}"(%x) {sys.argv[3]} : (tensor<4x?xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}}'''
options = stepwell.Options(dims={"n": (1, high)}, cache=False)
executable = stepwell.compile(model.encode(), threads=1, options=options)
assert executable(np.zeros((4, 3), np.float32)).shape == (4, 3)
print(executable.unranged)
"""


def _why_not(op: str, high: int, attributes: str = "") -> str:
    """Returns why a model has no program for a range; runs in a child process, which a fault would end."""
    command = [sys.executable, "-c", CHILD, op, str(high), attributes]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("op", "attributes"), [("relu", ""), ("softmax", "{axis = 1 : i64}")])
def test_sizes_that_no_memory_holds(op: str, attributes: str) -> None:
    reason = r"takes [0-9.]+ GiB at the greatest sizes.*; let the range end lower$"
    assert re.search(reason, _why_not(op, 1 << 40, attributes))


@pytest.mark.sweep
def test_masks_that_are_too_large() -> None:
    """A softmax needs a mask of its elements: such a table took eight bytes per element."""
    assert "'stepwell.softmax' op: it masks 268435456 elements" in _why_not("softmax", 1 << 28, "{axis = 1 : i64}")


def test_the_limit_of_places() -> None:
    assert len(numbered(MOST_PLACES)) == MOST_PLACES
    with pytest.raises(RangesError, match="let the range end lower"):
        numbered(MOST_PLACES + 1)


def test_a_call_takes_memory_for_its_own_size_alone() -> None:
    """Inputs are allocated for the largest sizes, but only pages that are written take memory."""
    # Not ru_maxrss, which starts at the peak of the parent process.
    code = CHILD + "print(re.search(r'VmHWM:\\s+([0-9]+) kB', open('/proc/self/status').read())[1])"
    environment = {name: value for name, value in os.environ.items() if name != "STEPWELL_POISON"}  # which writes all
    command = [sys.executable, "-c", code, "relu", str(1 << 26), ""]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 700_000  # the input alone takes 1 GiB at the largest size


@pytest.mark.parametrize("shape", ["9223372036854775807x4", "4611686018427387904x4", "1073741824x1073741824"])
@pytest.mark.parametrize("op", ["relu", "exp"])
def test_shapes_whose_size_in_bytes_overflows(shape: str, op: str) -> None:
    """MLIR aborted when their size in bytes overflowed."""
    kind = f"tensor<{shape}xf32>"
    text = (
        f'func.func @main(%x: {kind}) -> {kind} {{ %0 = "stepwell.{op}"(%x) : ({kind}) -> {kind} return %0 : {kind} }}'
    )
    with pytest.raises(stepwell.ModelError, match=f"impossible shape {shape}"):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))


def test_more_operations_than_64_bits_count() -> None:
    """Each tensor is possible in theory, but the number of multiplications overflows 64 bits."""
    kinds = [f"tensor<{1 << rows}x{1 << columns}xf32>" for rows, columns in ((15, 33), (33, 15), (15, 15))]
    left, right, made = kinds
    text = f"""func.func @main(%x: {left}, %y: {right}) -> {made} {{
      %0 = "stepwell.matmul"(%x, %y) : ({left}, {right}) -> {made} return %0 : {made} }}"""
    executable = stepwell.compile(text.encode(), threads=1, options=stepwell.Options(cache=False))
    with pytest.raises(stepwell.InputError, match="must have 32768 in dimension 0"):
        executable(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32))
