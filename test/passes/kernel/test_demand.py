"""Live extents of modules whose table of extents is full or nearly so."""

import pytest
from mlir import ir
from stepwell.dialects import discardable
from stepwell.dialects.registry import load_dialects
from stepwell.passes.infra.base import PassError
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.functions import main_function
from stepwell.passes.kernel.demand import MOST_ENTRIES, Demand, read_table
from stepwell.passes.kernel.form_kernels import FormKernelsPass

# The reshape makes n rows of 8 numbers n / 4 rows of 32, which needs another entry.
_MAIN = """
func.func @main(%x: tensor<9x32xf32>, %table: tensor<256xi64>)
    -> (tensor<36x8xf32> {stepwell.extents = array<i64: 0, -1>}) {
  %0 = "stepwell.exp"(%x) : (tensor<9x32xf32>) -> tensor<9x32xf32>
  %1 = "stepwell.reshape"(%0) {shape = array<i64: 36, 8>} : (tensor<9x32xf32>) -> tensor<36x8xf32>
  %2 = "stepwell.neg"(%1) : (tensor<36x8xf32>) -> tensor<36x8xf32>
  return %2 : tensor<36x8xf32>
}
"""


def _module(entries: int) -> ir.Module:
    module = ir.Module.parse(_MAIN)
    discardable.TABLE.write(module.operation, ["n", *(["+", "n", number] for number in range(1, entries))])
    return module


@pytest.mark.parametrize("entries", [MOST_ENTRIES - 1, MOST_ENTRIES])
def test_a_kernel_computes_everything_if_the_table_has_no_entry_left(entries: int):
    with ir.Context() as context:
        load_dialects(context)
        module = _module(entries)
        FormKernelsPass().run(module.operation, CompileState())
        assert len(read_table(module.operation)) == MOST_ENTRIES
        bounded = str(module).count("stepwell.extents = ")
    # Attributes of the result of @main and of the second kernel, and of the first one if its extent has an entry.
    assert bounded == (3 if entries < MOST_ENTRIES else 2)


def test_an_entry_that_is_needed_is_an_error_in_a_full_table():
    with ir.Context() as context:
        load_dialects(context)
        module = _module(MOST_ENTRIES)
        demand = Demand(module.operation, main_function(module.operation))
        assert demand.entry("n") == 0 and demand.entry(None) == -1
        with pytest.raises(PassError, match="more than 256 numbers depend on the sizes"):
            demand.entry(["*", "n", 3])
