"""Transposes on the simulator: any permutation, sizes and type, without bank conflicts."""

import re

import numpy as np
import pytest

TYPES = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i64": np.int64}


def transposed(shape: tuple[int, ...], order: tuple[int, ...], element: str, body: str = "", extra: int = 0) -> str:
    """A kernel that permutes the dimensions of %x, and optionally adds a vector %b along the last one of the result."""
    loops = ", ".join(f"d{axis}" for axis in range(len(shape)))
    places = [f"d{order.index(axis)}" for axis in range(len(shape))]
    out = "x".join(str(shape[axis]) for axis in order)
    kind = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    result = f"tensor<{out}x{element}>"
    vector = f"%b: tensor<{extra}x{element}>, " if extra else ""
    maps = [f"affine_map<({loops}) -> ({', '.join(places)})>"]
    maps += [f"affine_map<({loops}) -> (d{len(shape) - 1})>"] if extra else []
    maps += [f"affine_map<({loops}) -> ({loops})>"]
    inputs = f"%x, %b : {kind}, tensor<{extra}x{element}>" if extra else f"%x : {kind}"
    arguments = f"%a: {element}, %c: {element}, %o: {element}" if extra else f"%a: {element}, %o: {element}"
    return f"""
      module attributes {{stepwell.library}} {{
        func.func private @k(%x: {kind}, {vector}%out: {result}) -> {result}
            attributes {{stepwell.kernel = {{bytes = 8 : i64, class = "movement", flops = 0 : i64}}}} {{
          %r = linalg.generic {{indexing_maps = [{", ".join(maps)}],
              iterator_types = [{", ".join(['"parallel"'] * len(shape))}]}}
              ins({inputs}) outs(%out : {result}) {{
          ^bb0({arguments}):
            {body}
            linalg.yield {"%y" if body else "%a"} : {element}
          }} -> {result}
          return %r : {result}
        }}
      }}"""


def values(shape: tuple[int, ...], element: str) -> np.ndarray:
    return np.random.default_rng(0).integers(-100, 100, shape).astype(TYPES[element])


SHAPES = [
    ((67, 35), (1, 0)),
    ((130, 72), (1, 0)),
    ((2, 16, 8, 12), (0, 2, 3, 1)),
    ((3, 10, 4, 32), (0, 3, 1, 2)),
    ((9, 2, 12, 20), (3, 1, 0, 2)),
]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("element", "shape", "order"),
    [("f32", *case) for case in SHAPES] + [(element, *case) for element in ("f16", "i8", "i64") for case in SHAPES[:3]],
)
def test_any_permutation(simulated, element, shape, order):
    x = values(shape, element)
    made = simulated(transposed(shape, order, element), x)
    assert made.schedules == ["transpose"]
    np.testing.assert_array_equal(made.result, x.transpose(order))
    assert not made.conflicts.total()


@pytest.mark.parametrize(("element", "width"), [("f32", 4), ("f16", 4), ("i8", 4), ("i64", 2)])
def test_global_memory_is_read_and_written_by_16_bytes(simulated, element, width):
    ptx = simulated(transposed((128, 128), (1, 0), element), values((128, 128), element)).ptx
    assert re.search(rf"ld\.global\S*\.v{width}", ptx) and re.search(rf"st\.global\.v{width}", ptx)


def test_an_elementwise_op_is_fused_into_a_transpose(simulated):
    x, b = values((48, 80), "f32"), values((48,), "f32")
    made = simulated(transposed((48, 80), (1, 0), "f32", "%y = arith.addf %a, %c : f32", 48), x, b)
    assert made.schedules == ["transpose"]
    np.testing.assert_array_equal(made.result, x.T + b)


def test_negative_rows_that_move_as_a_whole(simulated):
    x = values((2, 6, 5, 16), "f32")
    made = simulated(transposed((2, 6, 5, 16), (0, 2, 1, 3), "f32"), x)
    assert made.schedules == ["elements"]
    np.testing.assert_array_equal(made.result, x.transpose(0, 2, 1, 3))
