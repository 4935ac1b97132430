"""Row kernels on the simulator: softmax, norms and sums of rows of any length, of columns, of everything."""

import re

import numpy as np
import pytest

ALL, ROW, COLUMN = "affine_map<(d0, d1) -> (d0, d1)>", "affine_map<(d0, d1) -> (d0)>", "affine_map<(d0, d1) -> (d1)>"


def module(rows: int, columns: int, body: str, inputs: str = "", element: str = "f32", result: str | None = None):
    """A module of the kernel `k`, which takes %x, optionally `inputs`, and %out."""
    kind = f"tensor<{rows}x{columns}x{element}>"
    result = result or kind
    return f"""
      #all = {ALL}
      #row = {ROW}
      #column = {COLUMN}
      #one = affine_map<(d0) -> (d0)>
      module attributes {{stepwell.library}} {{
        func.func private @k(%x: {kind}, {inputs}%out: {result}) -> {result}
            attributes {{stepwell.kernel = {{bytes = 8 : i64, class = "reduction", flops = 8 : i64}}}} {{
          %zero = arith.constant 0.0 : f32
          %one = arith.constant 1.0 : f32
          %least = arith.constant 0xFF800000 : f32
          %scratch = tensor.empty() : tensor<{rows}x{columns}xf32>
          %of_rows = tensor.empty() : tensor<{rows}xf32>
          {body}
          return %r : {result}
        }}
      }}"""


def reduced(name: str, value: str, start: str, rows: int, columns: int, combine: str, element: str = "f32") -> str:
    """IR text that reduces the rows of `value` to `name`."""
    return f"""
      {name}_start = linalg.fill ins({start} : f32) outs(%of_rows : tensor<{rows}xf32>) -> tensor<{rows}xf32>
      {name} = linalg.generic {{indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}}
          ins({value} : tensor<{rows}x{columns}x{element}>) outs({name}_start : tensor<{rows}xf32>) {{
      ^bb0(%a: {element}, %o: f32):
        {combine}
        linalg.yield %c : f32
      }} -> tensor<{rows}xf32>"""


def softmax_of(rows: int, columns: int, element: str = "f32") -> str:
    """The kernel as the compiler makes it, computed in f32."""
    wide = f"%w = arith.extf %a : {element} to f32" if element != "f32" else ""
    item = "%w" if wide else "%a"
    narrow = f"%n = arith.truncf %m : f32 to {element}" if wide else ""
    greater = f"{wide}\n%g = arith.cmpf ogt, {item}, %o : f32\n%c = arith.select %g, {item}, %o : f32"
    shape = f"{rows}x{columns}"
    return module(
        rows,
        columns,
        f"""
        {reduced("%most", "%x", "%least", rows, columns, greater, element)}
        %powers = linalg.generic {{indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}}
            ins(%x, %most : tensor<{shape}x{element}>, tensor<{rows}xf32>) outs(%scratch : tensor<{shape}xf32>) {{
        ^bb0(%a: {element}, %b: f32, %o: f32):
          {wide}
          %d = arith.subf {item}, %b : f32
          %e = math.exp %d fastmath<afn> : f32
          linalg.yield %e : f32
        }} -> tensor<{shape}xf32>
        {reduced("%sum", "%powers", "%zero", rows, columns, "%c = arith.addf %o, %a : f32")}
        %r = linalg.generic {{indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}}
            ins(%powers, %sum : tensor<{shape}xf32>, tensor<{rows}xf32>) outs(%out : tensor<{shape}x{element}>) {{
        ^bb0(%a: f32, %b: f32, %o: {element}):
          %i = arith.divf %one, %b : f32
          %m = arith.mulf %a, %i : f32
          {narrow}
          linalg.yield {"%n" if wide else "%m"} : {element}
        }} -> tensor<{shape}x{element}>""",
        element=element,
    )


def softmax(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(3, 1), (5, 7), (300, 64), (70, 36), (6, 1000), (3, 1023), (2, 4096), (1, 50001), (1, 100_000)],
)
def test_softmax_of_rows_of_any_length(simulated, rows, columns):
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    made = simulated(softmax_of(rows, columns), x)
    assert made.schedules == ["rows"]
    np.testing.assert_allclose(made.result, softmax(x), rtol=1e-5, atol=1e-9)
    assert not made.conflicts.total()


def test_softmax_of_half_precision(simulated, spills):
    x = np.random.default_rng(0).standard_normal((9, 768)).astype(np.float16)
    made = simulated(softmax_of(9, 768, "f16"), x, target="cuda:sm_90a")
    np.testing.assert_allclose(made.result, softmax(x), rtol=2e-3)
    assert spills(made.ptx) == 0


def test_minus_infinity_and_nan(simulated):
    x = np.random.default_rng(0).standard_normal((4, 96)).astype(np.float32)
    x[0, 10:], x[1], x[2, 5] = -np.inf, -np.inf, np.nan
    result = simulated(softmax_of(4, 96), x).result
    np.testing.assert_allclose(result[0, :10], softmax(x[0, :10]), rtol=1e-5)
    assert not result[0, 10:].any()
    assert np.isnan(result[1]).all() and np.isnan(result[2]).all()
    np.testing.assert_allclose(result[3], softmax(x[3]), rtol=1e-5)


def test_a_row_is_read_once_by_16_bytes_and_shared_by_shuffles(simulated, spills):
    x = np.zeros((20000, 512), np.float32)[:600]
    ptx = simulated(softmax_of(600, 512), x).ptx
    assert len(re.findall(r"ld\.global\S*\.v4", ptx)) == ptx.count("st.global.v4") > 0
    assert not re.search(r"ld\.global\S*\.b32 ", ptx.replace(".v4.b32", "")) and "shfl.sync.bfly" in ptx
    assert spills(ptx) == 0


def test_a_norm_with_weights_of_columns(simulated):
    rows, columns = 33, 200
    squares = "%q = arith.mulf %a, %a : f32 %c = arith.addf %o, %q : f32"
    shape = f"tensor<{rows}x{columns}xf32>"
    text = module(
        rows,
        columns,
        f"""
        {reduced("%sum", "%x", "%zero", rows, columns, squares)}
        %r = linalg.generic {{indexing_maps = [#all, #row, #column, #all], iterator_types = ["parallel", "parallel"]}}
            ins(%x, %sum, %weights : {shape}, tensor<{rows}xf32>, tensor<{columns}xf32>) outs(%out : {shape}) {{
        ^bb0(%a: f32, %b: f32, %w: f32, %o: f32):
          %s = math.sqrt %b : f32
          %i = arith.divf %a, %s : f32
          %m = arith.mulf %i, %w : f32
          linalg.yield %m : f32
        }} -> {shape}""",
        inputs=f"%weights: tensor<{columns}xf32>, ",
    )
    generator = np.random.default_rng(0)
    x, weights = (generator.standard_normal(size).astype(np.float32) for size in ((rows, columns), columns))
    made = simulated(text, x, weights)
    np.testing.assert_allclose(made.result, x / np.sqrt((x * x).sum(-1, keepdims=True)) * weights, rtol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (100, 96), (3000, 16), (37, 130), (5, 3)])
def test_sums_of_columns_are_read_along_rows(simulated, rows, columns):
    text = module(
        rows,
        columns,
        f"""
        %start = linalg.fill ins(%zero : f32) outs(%out : tensor<{columns}xf32>) -> tensor<{columns}xf32>
        %r = linalg.generic {{indexing_maps = [#all, #column], iterator_types = ["reduction", "parallel"]}}
            ins(%x : tensor<{rows}x{columns}xf32>) outs(%start : tensor<{columns}xf32>) {{
        ^bb0(%a: f32, %o: f32):
          %c = arith.addf %o, %a : f32
          linalg.yield %c : f32
        }} -> tensor<{columns}xf32>""",
        result=f"tensor<{columns}xf32>",
    )
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    made = simulated(text, x)
    assert made.schedules == ["rows"]
    np.testing.assert_allclose(made.result, x.astype(np.float64).sum(0), rtol=1e-4, atol=1e-4)
    assert not made.conflicts.total()
    if columns % 4 == 0:
        assert re.search(r"ld\.global\S*\.v4", made.ptx)


def test_negative_rows_and_columns_reduced_in_one_kernel(simulated):
    text = module(
        64,
        64,
        f"""
        {reduced("%sum", "%x", "%zero", 64, 64, "%c = arith.addf %o, %a : f32")}
        %start = linalg.fill ins(%zero : f32) outs(%of_rows : tensor<64xf32>) -> tensor<64xf32>
        %other = linalg.generic {{indexing_maps = [#all, #column], iterator_types = ["reduction", "parallel"]}}
            ins(%x : tensor<64x64xf32>) outs(%start : tensor<64xf32>) {{
        ^bb0(%a: f32, %o: f32):
          %c = arith.addf %o, %a : f32
          linalg.yield %c : f32
        }} -> tensor<64xf32>
        %r = linalg.generic {{indexing_maps = [#all, #row, #column, #all], iterator_types = ["parallel", "parallel"]}}
            ins(%x, %sum, %other : tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) outs(%out : tensor<64x64xf32>) {{
        ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
          %m = arith.addf %b, %c : f32
          %n = arith.addf %a, %m : f32
          linalg.yield %n : f32
        }} -> tensor<64x64xf32>""",
    )
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    made = simulated(text, x)
    assert made.schedules == ["rows", "elements"]
    np.testing.assert_allclose(made.result, x + x.sum(1)[:, None] + x.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(1, 270_336), (2, 98_304)])
def test_few_long_rows_are_summed_in_parts(simulated, rows, columns):
    add = "%c = arith.addf %o, %a : f32"
    text = module(rows, columns, reduced("%r", "%x", "%zero", rows, columns, add), result=f"tensor<{rows}xf32>")
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    made = simulated(text, x)
    assert made.schedules == ["rows"] and made.launches == 2
    np.testing.assert_allclose(made.result, x.astype(np.float64).sum(1), rtol=1e-4, atol=1e-2)


def test_long_columns_are_summed_in_parts(simulated):
    text = module(
        40_000,
        16,
        """
        %start = linalg.fill ins(%zero : f32) outs(%out : tensor<16xf32>) -> tensor<16xf32>
        %r = linalg.generic {indexing_maps = [#all, #column], iterator_types = ["reduction", "parallel"]}
            ins(%x : tensor<40000x16xf32>) outs(%start : tensor<16xf32>) {
        ^bb0(%a: f32, %o: f32):
          %c = arith.maximumf %o, %a : f32
          linalg.yield %c : f32
        } -> tensor<16xf32>""",
        result="tensor<16xf32>",
    )
    x = np.random.default_rng(0).standard_normal((40_000, 16)).astype(np.float32) - 9
    made = simulated(text, x)
    assert made.launches == 2
    np.testing.assert_array_equal(made.result, np.maximum(x.max(0), 0))


def test_negative_a_row_of_no_parts_stays_whole(simulated):
    text = module(
        1, 100_003, reduced("%r", "%x", "%zero", 1, 100_003, "%c = arith.addf %o, %a : f32"), result="tensor<1xf32>"
    )
    x = np.ones((1, 100_003), np.float32)
    made = simulated(text, x)
    assert made.launches == 1 and made.result == [100_003]
