# %% [markdown]
# # Chapter 3: write an op
#
# An op of the model level is a Python class. This chapter adds one that Stepwell lacks: the root mean square of each
# row of a tensor. In the end it is compiled, and fused with its neighbours, as if it had always been there.
#
# ## What it is
#
# - The fields declare operands, attributes and results. MLIR verifies them, and they make the builder and accessors.
# - `infer` is the shape function: it computes the result's type from those of the operands, or raises an `OpError`.
#   Shapes may be symbolic.
# - `reference` computes the result in numpy. Constant folding, the interpreter, [bisection](../docs/bisect.md) and
#   tests use it: it defines what the op means.
# - `KERNEL` names the class of kernel that it becomes, which decides what it is fused with and how it is tiled.
#   `ROUNDING` says how results may differ from the reference; sums may be added in another order.

# %%
import numpy as np
import stepwell
from mlir import ir
from mlir.dialects import arith, math
from stepwell.dialects.core import Dialect, KernelTraits, Op, OpError, Rounding, operand, result
from stepwell.dialects.types import TensorSpec, is_float
from stepwell.lowering.builders.scalars import number
from stepwell.lowering.builders.tensors import elementwise_over, with_shape
from stepwell.lowering.stepwell_to_linalg.reduction import summed
from stepwell.lowering.stepwell_to_linalg.rules import LINALG
from stepwell.passes.ir.values import shape_of
from stepwell.passes.kernel.prefixes import DEMAND
from stepwell.passes.ranges.rewriter import PADDING


class RootMeanSquareOp(Op):
    """Root mean square of each row: the last dimension becomes 1.

    ```mlir
    %1 = "ladder.root_mean_square"(%0) : (tensor<4x256xf32>) -> tensor<4x1xf32>
    ```
    """

    OPERATION_NAME = "ladder.root_mean_square"
    KERNEL = KernelTraits("reduction")
    ROUNDING = Rounding.SUM
    input = operand()
    result = result()

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """The last dimension becomes 1."""
        if input.rank == 0 or not is_float(input.dtype):
            raise OpError(f"takes floats of rank 1 or more, but the operand is {input}")
        return input.with_shape((*input.shape[:-1], 1))

    @staticmethod
    def reference(input: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        return np.sqrt(np.mean(np.square(input), axis=-1, keepdims=True))


LADDER = Dialect("ladder", [RootMeanSquareOp])

# %% [markdown]
# IR with the op can now be parsed and verified. A wrong type is an error that says why:

# %%
WRONG = """
func.func @main(%x: tensor<4x256xi32>) -> tensor<4x1xi32> {
  %0 = "ladder.root_mean_square"(%x) : (tensor<4x256xi32>) -> tensor<4x1xi32>
  return %0 : tensor<4x1xi32>
}
"""
try:
    stepwell.compile(WRONG.encode())
except stepwell.ModelError as error:
    print(error)
# > ...'ladder.root_mean_square' op takes floats of rank 1 or more, but the operand is 4x256xi32

# %% [markdown]
# ## The lowering
#
# An op becomes code by its implementation of the interface `linalg`: a function that emits linalg ops on tensors. It
# gets the op, its operands as tensors, and a tensor for each result in which that result may be computed. Helpers in
# [`lowering/stepwell_to_linalg/`](../lowering/stepwell_to_linalg) emit the usual nests of loops; their bodies are
# functions on scalars. [Writing a lowering](../docs/writing-a-lowering.md) says more.


# %%
@LINALG.attach(RootMeanSquareOp)
def root_mean_square(op: RootMeanSquareOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum of squares, and the root of its mean."""
    (value,) = inputs
    squares = elementwise_over([value], lambda item: arith.mulf(item, item), value)
    total = summed(squares, (len(shape_of(value)) - 1,))

    def root(item: ir.Value) -> ir.Value:
        return math.sqrt(arith.divf(item, number(shape_of(value)[-1], item.type)))

    return [with_shape(elementwise_over([total], root, total), shape_of(outs[0]))]


# %% [markdown]
# ## Compile it, between neighbours
#
# In this model the op stands between a product and a logarithm:

# %%
MODEL = """
func.func @main(%x: tensor<4x256xf32>, %gain: tensor<256xf32>) -> tensor<4x1xf32> {
  %0 = "stepwell.mul"(%x, %gain) : (tensor<4x256xf32>, tensor<256xf32>) -> tensor<4x256xf32>
  %1 = "ladder.root_mean_square"(%0) : (tensor<4x256xf32>) -> tensor<4x1xf32>
  %2 = "stepwell.log"(%1) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  return %2 : tensor<4x1xf32>
}
"""
model = stepwell.compile(MODEL.encode())
random = np.random.default_rng(0)
x, gain = random.standard_normal((4, 256), np.float32), random.standard_normal(256, np.float32)
np.testing.assert_allclose(model(x, gain), np.log(RootMeanSquareOp.reference(x * gain)), rtol=1e-5)

# %% [markdown]
# All three ops are one kernel: what comes before a reduction is computed as its elements are read, what comes after as
# its rows are done. No table in the compiler names the new op; its kernel class was enough.

# %%
print([kernel.kind for kernel in model.programs[0].kernels])
# > ['reduction']

# %% [markdown]
# ## What is missing
#
# Other parts of the compiler ask other questions about ops. An op without an answer works, but maybe not as fast as it
# could: without `demand`, for example, all rows of it are computed in a program for a [range of
# sizes](../docs/dynamic_shapes.md). `stepwell-opt --op-coverage` prints the table of all ops and interfaces. Some of
# the new op's row:

# %%
for interface in (DEMAND, LINALG, PADDING):
    print(f"{interface.name:14}{'yes' if interface.of(RootMeanSquareOp) else '-'}")
# > demand        -
# > linalg        yes
# > padding       -

# %% [markdown]
# ## What else to know
#
# - [Writing an op](../docs/writing-an-op.md) also shows elementwise ops, which need only their scalar code, and where
#   an op lies in this repository.
# - A package makes its ops known by an entry point: [`examples/plugins/shrink_op`](plugins/shrink_op).
#
# [Chapter 4](ch4_change_a_schedule.py) changes how a kernel is computed.
