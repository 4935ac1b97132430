# %% [markdown]
# # Chapter 2: write a rewrite
#
# Most of what a compiler does to a model is rewriting: it finds a few ops in a certain arrangement, and replaces them
# by others that compute the same in less time. This chapter adds a rewrite that Stepwell does not have, runs it alone,
# and then inside a compile.
#
# The product of two exponentials is the exponential of a sum:
#
#     exp(a) * exp(b) --> exp(a + b)
#
# One addition is cheaper than one exponential. As a property of floating-point numbers this is not exact, so it belongs
# into a pass that its user asks for, and not into the compiler's own.

# %%
from dataclasses import dataclass

import numpy as np
import stepwell
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell.elementwise import AddOp, ExpOp, MulOp
from stepwell.passes.infra.base import Pass, register
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.rewriting import Pattern, Refusal, Replacement, apply_patterns, defining_op, has_one_use

MODEL = """
func.func @main(%a: tensor<4x256xf32>, %b: tensor<4x256xf32>) -> tensor<4x256xf32> {
  %0 = "stepwell.exp"(%a) : (tensor<4x256xf32>) -> tensor<4x256xf32>
  %1 = "stepwell.exp"(%b) : (tensor<4x256xf32>) -> tensor<4x256xf32>
  %2 = "stepwell.mul"(%0, %1) : (tensor<4x256xf32>, tensor<4x256xf32>) -> tensor<4x256xf32> loc("product")
  return %2 : tensor<4x256xf32>
}
"""

# %% [markdown]
# ## The pattern
#
# A pattern is a class. `root` is the kind of op that it starts from. `rewrite` looks at one such op, and returns
#
# - the values that replace its results, after building them;
# - `None` if the pattern has nothing to do with it;
# - a `Refusal`, with the reason, if a user might have expected it to apply.
#
# Its docstring shows `before --> after`. Ops are built by their classes, and their result types are inferred.


# %%
class MergeExponentials(Pattern[MulOp]):
    """exp(a) * exp(b) --> exp(a + b)"""

    root = MulOp

    def rewrite(self, op: MulOp) -> Replacement:
        """Merges two exponentials that are read by nothing else."""
        left, right = defining_op(op.lhs, ExpOp), defining_op(op.rhs, ExpOp)
        if left is None or right is None:
            return None
        if not (has_one_use(left.result) and has_one_use(right.result)):
            return Refusal("one of the exponentials is also read elsewhere, and would be computed anyway")
        return ExpOp(AddOp(left.input, right.input)).result


# %% [markdown]
# ## The pass
#
# A pass is a frozen dataclass: its name is that in pipelines, its fields are its options, its docstring is its help. A
# pass of a few patterns applies them until none fits.


# %%
@register
@dataclass(frozen=True)
class MergeExponentialsPass(Pass):
    """Merge products of exponentials."""

    name = "ladder-merge-exponentials"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites all functions of a module."""
        apply_patterns(op, [MergeExponentials()], state)


# %% [markdown]
# ## Alone
#
# A pipeline runs Stepwell's passes and those of MLIR, by their names:

# %%
context = ir.Context()
load_dialects(context)
with context:
    module = ir.Module.parse(MODEL)
    Pipeline.parse("builtin.module(ladder-merge-exponentials,func.func(cse))").run(module)
    print(module)
# > module {
# >   func.func @main(%arg0: tensor<4x256xf32>, %arg1: tensor<4x256xf32>) -> tensor<4x256xf32> {
# >     %0 = "stepwell.add"(%arg0, %arg1) : (tensor<4x256xf32>, tensor<4x256xf32>) -> tensor<4x256xf32>
# >     %1 = "stepwell.exp"(%0) : (tensor<4x256xf32>) -> tensor<4x256xf32>
# >     return %1 : tensor<4x256xf32>
# >   }
# > }
# >

# %% [markdown]
# The refusal: if the model also adds the first exponential to the product, nothing changes. Rewrites and refusals are
# *remarks*, which a compile collects in its state and shows in [reports](../docs/report.md). They name the model's
# node.

# %%
READ_TWICE = MODEL.replace(
    "return %2",
    '%3 = "stepwell.add"(%0, %2) : (tensor<4x256xf32>, tensor<4x256xf32>) -> tensor<4x256xf32>\n  return %3',
)
with context:
    module = ir.Module.parse(READ_TWICE)
    state = CompileState()
    Pipeline((MergeExponentialsPass(),)).run(module, state=state)
    assert str(module) == str(ir.Module.parse(READ_TWICE))
    print(*state.remarks, sep="\n")
# > missed: ladder-merge-exponentials: MergeExponentials: product: one of the exponentials is also read elsewhere...

# %% [markdown]
# ## In a compile
#
# `Options.passes` adds it after the compiler's own passes of a phase. The compiler fuses what it finds there: two
# exponentials and a product were one kernel before, and an addition and an exponential are now.

# %%
options = stepwell.Options(passes=[stepwell.At("graph", MergeExponentialsPass())])
plain, merged = stepwell.compile(MODEL.encode()), stepwell.compile(MODEL.encode(), options=options)
a, b = np.random.default_rng(0).standard_normal((2, 4, 256), np.float32)
np.testing.assert_allclose(merged(a, b), np.exp(a) * np.exp(b), rtol=1e-6)
for model in (plain, merged):
    (kernel,) = model.programs[0].kernels
    print(kernel.kind, kernel.flops)
# > elementwise 3072
# > elementwise 2048

# %% [markdown]
# ## What else to know
#
# - [Writing a pass](../docs/writing-a-pass.md) goes on from here: `stepwell-opt`, lit tests, and where a pass lies in
#   this repository.
# - A package makes its passes known by an entry point: [`examples/plugins/softmax_rewrite`](plugins/softmax_rewrite).
# - If a rewrite makes numbers wrong, [stepwell-bisect](../docs/bisect.md) names it, and the op that it rewrote.
#
# [Chapter 3](ch3_write_an_op.py) adds an op.
