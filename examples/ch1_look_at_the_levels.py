# %% [markdown]
# # Chapter 1: look at the levels
#
# A compile takes a model down through named levels, the *phases*. It can stop at each of them, its IR is text, and text
# can be changed and compiled further. This chapter writes all levels of a small model to files, reads them, changes
# one, and resumes the compile from there.
#
# The commands are those of a shell; the script runs them so that their output is tested.

# %%
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper, numpy_helper

folder = Path("build/ladder/ch1")
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
os.chdir(folder)


def shell(command: str) -> None:
    """Runs a command, and prints it with its output."""
    print(f"$ {command}")
    print(subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout, end="")


def show(level: str, pattern: str) -> None:
    """Prints the lines of a level that contain a pattern, without locations, and at most 110 characters of each."""
    for line in Path("levels", level).read_text().splitlines():
        if re.search(pattern, line):
            print(re.sub(r" loc\(.*?\)", "", line).strip()[:110])


random = np.random.default_rng(0)
weight, bias = random.standard_normal((64, 10), np.float32), random.standard_normal(10, np.float32)
nodes = [
    helper.make_node("Gemm", ["x", "w", "b"], ["sums"], name="dense"),
    helper.make_node("Relu", ["sums"], ["features"], name="relu"),
    helper.make_node("Softmax", ["features"], ["y"], name="choice"),
]
graph = helper.make_graph(
    nodes,
    "classifier",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 10])],
    [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")

# %% [markdown]
# ## Dump every level
#
# A target is named, so that the files are the same on every machine.

# %%
shell("stepwell-compile model.onnx --target=x86-64-v3 --dump-phases=levels --quiet")
shell("ls levels")
# > $ stepwell-compile model.onnx --target=x86-64-v3 --dump-phases=levels --quiet
# > $ ls levels
# > 0-import.mlir
# > 1-graph.mlir
# > 2-kernels.mlir
# > 3-tiled.mlir
# > 4-vector.mlir
# > 5-memref.mlir
# > 6-llvm.mlir
# > parameters.safetensors

# %% [markdown]
# ## import
#
# One op of the stepwell dialect per node of the model ([all ops](../docs/reference/ops.md)). The location of an op is
# the node's name. Weights are parameters, arrays in `parameters.safetensors`, and never literals in the IR.

# %%
show("0-import.mlir", "= .stepwell")
# > %0 = "stepwell.parameter"() {dtype = f32, name = "w", shape = array<i64: 64, 10>} : () -> tensor<64x10xf32>
# > %1 = "stepwell.constant"() {value = dense<[-0.14017725, 0.389508963, -1.11770749, -0.588545084, 0.341422707, -
# > %2 = "stepwell.matmul"(%arg0, %0) {transpose_lhs = false, transpose_rhs = false} : (tensor<4x64xf32>, tensor<6
# > %3 = "stepwell.add"(%2, %1) : (tensor<4x10xf32>, tensor<10xf32>) -> tensor<4x10xf32>
# > %4 = "stepwell.relu"(%3) : (tensor<4x10xf32>) -> tensor<4x10xf32>
# > %5 = "stepwell.softmax"(%4) {axis = 1 : i64} : (tensor<4x10xf32>) -> tensor<4x10xf32>

# %% [markdown]
# ## graph
#
# Passes have inferred shapes, simplified, recognised composites and chosen layouts ([all
# passes](../docs/reference/passes.md)). Here the product has become one with a *packed* weight: the weight is stored in
# the order in which the kernel reads it. The packing is computed once, by the compiler, and its result is a new
# parameter.

# %%
show("1-graph.mlir", "= .stepwell")
# > %0 = "stepwell.parameter"() {dtype = f32, name = "w.reshape", shape = array<i64: 640>} : () -> tensor<640xf32>
# > %1 = "stepwell.constant"() {value = dense<[-0.14017725, 0.389508963, -1.11770749, -0.588545084, 0.341422707, -
# > %2 = "stepwell.packed_matmul"(%arg0, %0) {columns = 10 : i64, panel = 10 : i64} : (tensor<4x64xf32>, tensor<64
# > %3 = "stepwell.add"(%2, %1) : (tensor<4x10xf32>, tensor<10xf32>) -> tensor<4x10xf32>
# > %4 = "stepwell.relu"(%3) : (tensor<4x10xf32>) -> tensor<4x10xf32>
# > %5 = "stepwell.softmax"(%4) {axis = 1 : i64} : (tensor<4x10xf32>) -> tensor<4x10xf32>

# %% [markdown]
# ## kernels
#
# `@main` is a list of calls. A kernel is a function of linalg ops, which say what to compute but not in which order.
# The bias and the ReLU have been fused with the product. The name of a kernel is a hash of its contents and the target,
# so that equal kernels are compiled once, in this model and in the cache.

# %%
show("2-kernels.mlir", "call @|func private @|= linalg")
# > %2 = call @kernel_6497d4e35af6ae9da5f8(%arg0, %0, %cst, %1) {stepwell.ops = ["dense", "dense", "relu"], stepwe
# > %4 = call @kernel_914f66a353b1031653f2(%2, %3) {stepwell.ops = ["choice"], stepwell.work = array<i64: 80>} : (
# > func.func private @kernel_6497d4e35af6ae9da5f8(%arg0: tensor<4x64xf32>, %arg1: tensor<640xf32>, %arg2: tensor<
# > %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x1x10xf32>) -> tensor<4x1x10xf32>
# > %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel
# > %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "paralle
# > func.func private @kernel_914f66a353b1031653f2(%arg0: tensor<4x10xf32>, %arg1: tensor<4x10xf32>) -> tensor<4x1
# > %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
# > %2 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "reduction"]} ins(%arg0 : t
# > %4 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%ar
# > %5 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
# > %6 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "reduction"]} ins(%4 : tens
# > %7 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%4,

# %% [markdown]
# ## tiled
#
# Each kernel has been tiled by a *schedule*, a script of the transform dialect. Its parameters are recorded on the
# kernel; [chapter 4](ch4_change_a_schedule.py) changes them.

# %%
for schedule in re.findall("stepwell.schedule = ({.*?})", Path("levels/3-tiled.mlir").read_text()):
    print(schedule)
# > {blocks = [array<i64: 4, 1>], name = "contraction", tiles = [array<i64: 4>], unroll = 0 : i64, vector_bytes = ...}
# > {blocks = array<i64>, name = "reduction", rows = array<i64>, unroll = 4 : i64, vector_bytes = 32 : i64}

# %% [markdown]
# ## vector
#
# All linalg ops have become loops over vector code. The product accumulates in registers. The exponential of the
# softmax is a polynomial.

# %%
vector = Path("levels/4-vector.mlir").read_text()
for op in ("linalg.generic", "scf.for", "vector.fma", "math.exp"):
    print(f"{op:14}", op in vector)
# > linalg.generic False
# > scf.for        True
# > vector.fma     True
# > math.exp       False

# %% [markdown]
# ## memref and llvm
#
# Tensors that are neither inputs, outputs nor parameters are in one block of memory, the *arena*: here the 160 bytes of
# `features`, rounded up to a multiple of 64. In the LLVM dialect, `@main` passes addresses.

# %%
show("5-memref.mlir", "memref.view")
show("6-llvm.mlir", "llvm.call @kernel")
# > %view = memref.view %arg3[%c0][] : memref<192xi8> to memref<4x10xf32>
# > llvm.call @kernel_6497d4e35af6ae9da5f8(%arg0, %arg2, %1, %arg3) {stepwell.step = 1 : i64} : (!llvm.ptr, !llvm.
# > llvm.call @kernel_914f66a353b1031653f2(%arg3, %arg1) {stepwell.step = 2 : i64} : (!llvm.ptr, !llvm.ptr) -> ()

# %% [markdown]
# ## Change a level, and resume
#
# Every file can be compiled further from where it is. This edit replaces the ReLU of the graph level by a hyperbolic
# tangent:

# %%
text = Path("levels/1-graph.mlir").read_text()
Path("levels/edited.mlir").write_text(text.replace('"stepwell.relu"', '"stepwell.tanh"'))
shell("stepwell-compile levels/edited.mlir --compile-from=graph -o edited.stw --quiet")
# > $ stepwell-compile levels/edited.mlir --compile-from=graph -o edited.stw --quiet

# %% [markdown]
# The result is the edited model, with the same weights:

# %%
x = random.standard_normal((4, 64), np.float32) / 8
powers = np.exp(np.tanh(x @ weight + bias))
np.testing.assert_allclose(stepwell.load("edited.stw")(x), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)

# %% [markdown]
# More ways to look: [stepwell-explore](../docs/explore.md) writes all levels, and the changes of each pass, into one
# HTML file; [stepwell-opt](../docs/opt.md) runs single passes. [Chapter 2](ch2_write_a_rewrite.py) writes one.
