"""Convolutions by wgmma on the simulator: tiles are boxes of the image, and padding is outside of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Convolution:
    """A convolution of an image [n, *image, channels] with `columns` kernels."""

    image: tuple[int, ...]
    channels: int
    columns: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    images: int = 1

    @property
    def result(self) -> tuple[int, ...]:
        rank, places = len(self.image), []
        for axis, size in enumerate(self.image):
            padded = size + self.pads[axis] + self.pads[axis + rank]
            span = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            places.append((padded - span) // self.strides[axis] + 1)
        return tuple(places)

    def text(self) -> str:
        """A model of one convolution, with its weight packed in one panel."""
        source = f"tensor<{'x'.join(map(str, (self.images, *self.image, self.channels)))}xf16>"
        weight = f"tensor<{int(np.prod(self.kernel)) * self.channels * self.columns}xf16>"
        result = f"tensor<{'x'.join(map(str, (self.images, *self.result, self.columns)))}xf16>"
        lists = {name: list(getattr(self, name)) for name in ("kernel", "strides", "dilations", "pads")}
        listed = ", ".join(f"{name} = array<i64: {', '.join(map(str, item))}>" for name, item in lists.items())
        return f"""
          module attributes {{stepwell.phase = "graph",
                              stepwell.interface = {{guards = [], inputs = [], outputs = []}}}} {{
            func.func @main(%x: {source}, %w: {weight}) -> {result} {{
              %0 = "stepwell.packed_conv"(%x, %w)
                  {{columns = {self.columns} : i64, panel = {self.columns} : i64, {listed}}}
                  : ({source}, {weight}) -> {result}
              %1 = "stepwell.relu"(%0) : ({result}) -> {result}
              return %1 : {result}
            }}
          }}"""

    def expected(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        rank = len(self.image)
        around = [(self.pads[axis], self.pads[axis + rank]) for axis in range(rank)]
        padded = np.pad(x.astype(np.float64), [(0, 0), *around, (0, 0)])
        total = np.zeros((self.images, *self.result, self.columns))
        for tap in np.ndindex(*self.kernel):
            steps = zip(tap, self.dilations, self.strides, self.result, strict=True)
            part = [slice(t * d, t * d + (count - 1) * s + 1, s) for t, d, s, count in steps]
            total += padded[(slice(None), *part)] @ weight[tap].astype(np.float64)
        return np.maximum(total, 0)


CASES = {
    "3x3": Convolution((9, 13), 64, 64, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), images=2),
    "of every second": Convolution((11, 14), 64, 72, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    "dilated, padded on one side": Convolution((10, 9), 128, 64, (3, 2), (1, 1), (2, 1), (0, 1, 4, 0)),
    "pixels of every second": Convolution((12, 10), 64, 64, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    "unpadded": Convolution((9, 12), 64, 64, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), images=2),
    "unpadded, of every second, dilated": Convolution((15, 13), 64, 64, (2, 3), (2, 1), (1, 2), (0, 0, 0, 0)),
    "of sequences": Convolution((70,), 64, 64, (5,), (1,), (1,), (2, 2)),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("name", CASES)
def test_windows(simulated, name, rows):
    case = CASES[name]
    x = RNG.standard_normal((case.images, *case.image, case.channels)).astype(np.float16)
    weight = (RNG.standard_normal((*case.kernel, case.channels, case.columns)) / 16).astype(np.float16)
    numbers = {"method": "wgmma", "rows": rows, "columns": 64, "depth": 64, "warp_rows": 64, "warp_columns": 64}
    made = simulated(
        case.text(), x, weight.reshape(-1), start="graph", target="cuda:sm_90a", numbers={**numbers, "stages": 3}
    )
    assert "wgmma.mma_async" in made.ptx
    np.testing.assert_allclose(made.result, case.expected(x, weight), atol=1e-2)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["3x3", "unpadded"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_bytes(simulated, target, name):
    """The columns of weights are contiguous along the summed dimension, in panels of one column."""
    case = replace(CASES[name], channels=128)
    x = RNG.integers(0, 255, (case.images, *case.image, case.channels)).astype(np.uint8)
    weight = RNG.integers(-127, 127, (*case.kernel, case.channels, case.columns)).astype(np.int8)
    text = case.text().replace(f"panel = {case.columns}", "panel = 1")
    source, *rest = text.split("xf16>")
    # The operands are 8-bit integers, their sums 32-bit integers.
    kinds = iter(["xui8>", "xi8>", "xi32>", "xui8>", "xi8>", *["xi32>"] * 4])
    text = source + "".join(next(kinds) + part for part in rest)
    lines = np.moveaxis(weight, -1, 0).reshape(-1)
    numbers = {"method": "wgmma", "rows": 64, "columns": 64, "depth": 128, "warp_rows": 64, "warp_columns": 64}
    changes = {**numbers, "stages": 3} if target == "sm_90a" else {}
    given = x.view(np.int8), lines
    made = simulated(text, *given, start="graph", target=f"cuda:{target}", numbers=changes)
    words = ["wgmma.mma_async", ".s32.u8.s8"] if changes else ["mma.sync", "cp.async.cg.shared.global"]
    assert all(word in made.ptx for word in words)
    np.testing.assert_array_equal(made.result, case.expected(x, weight))


@pytest.mark.parametrize(("images", "method"), [(64, "wgmma"), (1, "mma")])
def test_warp_groups_take_many_rows(images, method):
    case = Convolution((28, 28), 128, 128, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), images)
    with compiler_context() as context:
        load_dialects(context)
        module = ir.Module.parse(case.text())
        route.run(module, state_for("cuda:sm_90a"), "graph", "tiled")
        assert f'method = "{method}", name = "contraction"' in str(module)
