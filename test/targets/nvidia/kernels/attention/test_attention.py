"""Attention kernels on the simulator: in float32 and on tensor cores; masks, bands, shared heads, any size."""

import ml_dtypes
import numpy as np
import pytest
from stepwell.dialects.stepwell.attention import UNBOUNDED

RNG = np.random.default_rng(0)
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
TOLERANCE = {"f32": 1e-5, "f16": 3e-3, "bf16": 2e-2}


def attention(shapes: list[tuple[int, ...]], element: str, mask: str | None = None, **attributes: object) -> str:
    """A model of one attention with query, key and value of these shapes."""
    kinds = [f"tensor<{'x'.join(map(str, shape))}x{element}>" for shape in shapes]
    kinds += [mask] if mask else []
    result = f"tensor<{'x'.join(map(str, (*shapes[0][:3], shapes[2][3])))}x{element}>"
    numbers = {"before": UNBOUNDED, "after": UNBOUNDED, **attributes}
    empty = str(numbers.pop("zero_empty", False)).lower()
    listed = ", ".join(f"{name} = {number} : i64" for name, number in numbers.items())
    names = "%q, %k, %v" + (", %m" if mask else "")
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names.split(", "), kinds, strict=True))
    return f"""
      module attributes {{stepwell.phase = "graph",
                          stepwell.interface = {{guards = [], inputs = [], outputs = []}}}} {{
        func.func @main({arguments}) -> {result} {{
          %0 = "stepwell.attention"({names})
              {{scale = 0.125 : f64, masked = 0xFFF0000000000000 : f64, zero_empty = {empty}, {listed}}}
              : ({", ".join(kinds)}) -> {result}
          return %0 : {result}
        }}
      }}"""


def expected(arrays: list[np.ndarray], mask: np.ndarray | None = None) -> np.ndarray:
    query, key, value = (array.astype(np.float64) for array in arrays)
    shared = query.shape[1] // key.shape[1]
    scores = query @ np.repeat(key, shared, 1).swapaxes(-1, -2) * 0.125
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.int8 else scores + mask
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ np.repeat(value, shared, 1)


def near(queries: int, keys: int, before: int, after: int) -> np.ndarray:
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    return ((ahead <= after) & (-ahead <= before)).astype(np.int8)


def drawn(shapes: list[tuple[int, ...]], element: str) -> list[np.ndarray]:
    return [RNG.standard_normal(shape).astype(TYPES[element]) for shape in shapes]


def check(made, element: str, wanted: np.ndarray) -> None:
    assert made.schedules == ["attention"]
    np.testing.assert_allclose(made.result, wanted, atol=TOLERANCE[element])
    assert not made.conflicts.total()


SHAPES = [
    [(1, 2, 70, 64), (1, 1, 90, 64), (1, 1, 90, 64)],
    [(2, 4, 3, 64), (2, 2, 33, 64), (2, 2, 33, 64)],
    [(1, 1, 20, 40), (1, 1, 130, 40), (1, 1, 130, 72)],
    [(1, 1, 130, 128), (1, 1, 64, 128), (1, 1, 64, 128)],
]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("element", "shapes"),
    [("f32", SHAPES[1]), ("f32", SHAPES[2]), ("f16", SHAPES[0]), ("f16", SHAPES[2]), ("f16", SHAPES[3])],
)
def test_sizes_and_shared_heads(simulated, spills, element, shapes):
    arrays = drawn(shapes, element)
    made = simulated(attention(shapes, element), *arrays, start="graph")
    check(made, element, expected(arrays))
    assert spills(made.ptx) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("element", "before", "after"), [("f32", UNBOUNDED, 0), ("f16", UNBOUNDED, 30), ("f16", 20, 10), ("f16", 0, 0)]
)
def test_bands_hide_distant_keys(simulated, element, before, after):
    shapes = [(1, 1, 80, 32), (1, 1, 140, 32), (1, 1, 140, 32)]
    arrays = drawn(shapes, element)
    made = simulated(attention(shapes, element, before=before, after=after), *arrays, start="graph")
    check(made, element, expected(arrays, near(80, 140, before, after)))


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_a_band_wider_than_the_number_of_keys(simulated, element):
    """For the last queries, all keys are outside the band."""
    shapes = [(1, 1, 150, 32), (1, 1, 40, 32), (1, 1, 40, 32)]
    arrays = drawn(shapes, element)
    text = attention(shapes, element, before=60, after=0, zero_empty=True)
    check(simulated(text, *arrays, start="graph"), element, np.nan_to_num(expected(arrays, near(150, 40, 60, 0))))


def test_causal_heads_that_share_keys_in_whole_blocks(simulated):
    shapes = [(1, 2, 256, 64), (1, 1, 256, 64), (1, 1, 256, 64)]
    arrays = drawn(shapes, "f16")
    made = simulated(attention(shapes, "f16", after=0), *arrays, start="graph")
    check(made, "f16", expected(arrays, near(256, 256, 256, 0)))


def test_a_causal_kernel_skips_the_keys_that_a_block_does_not_see(simulated):
    """A NaN in a skipped key would show in the result."""
    shapes = [(1, 1, 128, 64), (1, 1, 256, 64), (1, 1, 256, 64)]
    query, key, value = drawn(shapes, "f16")
    key[:, :, 128:] = np.nan
    value[:, :, 128:] = np.nan
    made = simulated(attention(shapes, "f16", after=0), query, key, value, start="graph")
    check(made, "f16", expected([query, key[:, :, :128], value[:, :, :128]], near(128, 128, 128, 0)))


def test_a_mask_of_bits(simulated):
    shapes, element = SHAPES[0], "f16"
    arrays, mask = drawn(shapes, element), (RNG.random((1, 1, 70, 90)) < 0.5).astype(np.int8)
    mask[0, 0, :, 3], mask[0, 0, 7] = 1, 0
    made = simulated(attention(shapes, element, "tensor<1x1x70x90xi1>"), *arrays, mask, start="graph")
    assert np.isnan(made.result[:, :, 7]).all()
    wanted = expected(arrays, mask)
    made.result[:, :, 7] = wanted[:, :, 7] = 0
    check(made, element, wanted)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("mask", "load"),
    [
        ("1x1x70x90xi1", "ld.global.nc.b16"),
        ("1x2x70x90xf16", "ld.global.nc.v2.b16"),
        ("1x1x70x90xf32", "ld.global.nc.v2.b32"),
    ],
)
def test_masks_of_neighbouring_keys_are_read_at_once(simulated, mask, load):
    shape = [int(size) for size in mask.split("x")[:-1]]
    arrays, is_bits = drawn(SHAPES[0], "f16"), mask.endswith("i1")
    drawn_mask = RNG.random(shape) < 0.7 if is_bits else RNG.standard_normal(shape)
    given = drawn_mask.astype(np.int8 if is_bits else TYPES[mask.rpartition("x")[2]])
    made = simulated(attention(SHAPES[0], "f16", f"tensor<{mask}>"), *arrays, given, start="graph")
    check(made, "f16", expected(arrays, given))
    assert load in made.ptx


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_numbers_added_and_queries_that_attend_to_nothing(simulated, element):
    shapes = SHAPES[1]
    arrays, mask = drawn(shapes, element), RNG.standard_normal((2, 1, 3, 33)).astype(TYPES[element])
    mask[1, 0, 2] = -np.inf
    text = attention(shapes, element, f"tensor<2x1x3x33x{element}>", zero_empty=True)
    made = simulated(text, *arrays, mask, start="graph")
    check(made, element, np.nan_to_num(expected(arrays, mask)))
