"""Distribution of rows to threads, by their sizes."""

import pytest
from mlir import ir
from stepwell.driver.context import compiler_context
from stepwell.targets.nvidia.emission.views import memories
from stepwell.targets.nvidia.kernels.rows.axes import merged_axes
from stepwell.targets.nvidia.kernels.rows.combiners import combiner
from stepwell.targets.nvidia.kernels.rows.schedule import choose
from stepwell.targets.nvidia.kernels.rows.space import row_space

SUM = """
  func.func private @k(%x: tensor<{x}xf32>, %out: tensor<{out}xf32>) -> tensor<{out}xf32> {{
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<{out}xf32>) -> tensor<{out}xf32>
    %r = linalg.generic {{indexing_maps = [affine_map<{read}>, affine_map<{write}>], iterator_types = [{kinds}]}}
        ins(%x : tensor<{x}xf32>) outs(%start : tensor<{out}xf32>) {{
    ^bb0(%a: f32, %o: f32):
      {combine}
      linalg.yield %c : f32
    }} -> tensor<{out}xf32>
    return %r : tensor<{out}xf32>
  }}"""
ADD = "%c = arith.addf %o, %a : f32"
ALONG = {"read": "(d0, d1) -> (d0, d1)", "write": "(d0, d1) -> (d0)", "kinds": '"parallel", "reduction"'}
ACROSS = {"read": "(d0, d1) -> (d0, d1)", "write": "(d0, d1) -> (d1)", "kinds": '"reduction", "parallel"'}


def schedule_of(x: str, out: str, how: dict[str, str], multiprocessors: int = 132):
    with compiler_context():
        module = ir.Module.parse(SUM.format(x=x, out=out, combine=ADD, **how))
        function = module.body.operations[0].operation
        space = row_space(function, memories(function))
        axes = merged_axes(space)
        return axes, choose(space, axes, multiprocessors)


@pytest.mark.parametrize(
    ("rows", "columns", "share", "held"),
    [
        (100_000, 64, 4, 4),
        (100_000, 256, 16, 4),
        (100_000, 1024, 32, 8),
        (100_000, 4096, 256, 4),
        (4096, 32768, 1024, 8),
    ],
)
def test_a_thread_holds_a_few_vectors_of_a_row(rows, columns, share, held):
    axes, schedule = schedule_of(f"{rows}x{columns}", str(rows), ALONG)
    assert axes.along_columns and axes.lanes == 4
    assert (schedule.share, schedule.held) == (share, held)


def test_few_rows_are_shared_by_more_threads():
    _, many = schedule_of("100000x1024", "100000", ALONG)
    _, few = schedule_of("8x1024", "8", ALONG)
    assert few.share > many.share and few.threads == few.share


def test_a_row_that_registers_cannot_hold_is_read_in_each_pass():
    _, schedule = schedule_of("64x100000", "64", ALONG)
    assert schedule.held == 0 and schedule.threads == 1024


def test_columns_are_read_by_neighbouring_threads():
    axes, schedule = schedule_of("512x65536", "65536", ACROSS)
    assert not axes.along_columns and axes.lanes == 4
    assert schedule.threads // schedule.share == 32


def test_threads_of_few_columns_still_read_whole_lines():
    _, schedule = schedule_of("5000x64", "64", ACROSS)
    assert schedule.threads // schedule.share == 8


def test_an_odd_row_is_read_one_by_one():
    axes, _ = schedule_of("64x1001", "64", ALONG)
    assert axes.lanes == 1


@pytest.mark.parametrize(
    ("combine", "neutral"),
    [
        (ADD, 0.0),
        ("%c = arith.mulf %o, %a : f32", 1.0),
        ("%c = arith.maximumf %a, %o : f32", float("-inf")),
        ("%g = arith.cmpf ogt, %a, %o : f32 %c = arith.select %g, %a, %o : f32", float("-inf")),
        ("%g = arith.cmpf ogt, %a, %o : f32 %c = arith.select %g, %o, %a : f32", float("inf")),
        ("%g = arith.cmpf olt, %o, %a : f32 %c = arith.select %g, %a, %o : f32", float("-inf")),
        ("%m = arith.mulf %a, %a : f32 %c = arith.addf %m, %o : f32", 0.0),
        ("%c = arith.subf %o, %a : f32", None),
        ("%m = arith.mulf %o, %a : f32 %c = arith.addf %m, %o : f32", None),
    ],
)
def test_neutral_elements_of_reductions(combine, neutral):
    with compiler_context():
        module = ir.Module.parse(SUM.format(x="4x4", out="4", combine=combine, **ALONG))
        *_, reduction, _ = module.body.operations[0].operation.regions[0].blocks[0].operations
        found = combiner(reduction.operation)
        assert (None if found is None else found.neutral) == neutral
