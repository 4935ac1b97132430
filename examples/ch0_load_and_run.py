# %% [markdown]
# # Chapter 0: load and run
#
# This ladder of chapters goes down the levels of the compiler, one step per chapter. Each chapter is a script: run it
# with `python examples/ch0_load_and_run.py`, or step through its cells in an editor that knows `# %%`. Lines that start
# with `# >` are the output of the code above them.
#
# The first step treats the compiler as a black box. A model goes in, a function on numpy arrays comes out.
#
# ## A model
#
# A classifier of 8x8 images with two dense layers. Its weights are random, which is enough to compile it. The number of
# images is symbolic: the file says `images` instead of a number.

# %%
from pathlib import Path

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper, numpy_helper

folder = Path("build/ladder/ch0")
folder.mkdir(parents=True, exist_ok=True)
random = np.random.default_rng(0)
weights = {
    "w1": random.standard_normal((64, 128), np.float32) / 8,
    "b1": random.standard_normal(128, np.float32),
    "w2": random.standard_normal((128, 10), np.float32) / 11,
}
nodes = [
    helper.make_node("Gemm", ["pixels", "w1", "b1"], ["sums"], name="hidden"),
    helper.make_node("Relu", ["sums"], ["features"], name="relu"),
    helper.make_node("MatMul", ["features", "w2"], ["scores"], name="output"),
    helper.make_node("Softmax", ["scores"], ["digits"], name="softmax"),
]
graph = helper.make_graph(
    nodes,
    "classifier",
    [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["images", 64])],
    [helper.make_tensor_value_info("digits", TensorProto.FLOAT, ["images", 10])],
    [numpy_helper.from_array(array, name) for name, array in weights.items()],
)
path = folder / "classifier.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

# %% [markdown]
# ## Compile and call
#
# `stepwell.compile` reads the file. It compiles at the first call, when the number of images is known, and keeps the
# code for calls with the same shapes. Inputs go by position or by name.

# %%
model = stepwell.compile(path, threads=2)
print(*model.inputs, "-->", *model.outputs)
# > pixels: float32[images, 64] --> digits: float32[images, 10]

pixels = random.random((3, 64), np.float32)
digits = model(pixels)
np.testing.assert_array_equal(model(pixels=pixels), digits)
print(digits.shape, digits.dtype)
# > (3, 10) float32

# %% [markdown]
# The same in numpy gives the same numbers, up to the order of additions:

# %%
features = np.maximum(pixels @ weights["w1"] + weights["b1"], 0)
powers = np.exp(features @ weights["w2"])
np.testing.assert_allclose(digits, powers / powers.sum(axis=1, keepdims=True), rtol=1e-4)

# %% [markdown]
# ## One compile for many sizes
#
# A call with four images would compile again. If a range of sizes is declared, one program serves all of it
# ([dynamic shapes](../docs/dynamic_shapes.md)):

# %%
ranged = stepwell.compile(path, options=stepwell.Options(dims={"images": (1, 32)}))
for count in (1, 7, 32):
    assert ranged(np.zeros((count, 64), np.float32)).shape == (count, 10)
print(len(ranged.programs), "program")
# > 1 program

try:
    ranged(np.zeros((33, 64), np.float32))
except stepwell.InputError as error:
    print(error)
# > dimension 'images' is 33, but the model was compiled for 1 to 32; compile it with a range that contains it...

# %% [markdown]
# ## What became of the model
#
# Each kernel is one piece of native code. The bias and the ReLU have been fused with the product before them:

# %%
for kernel in model.programs[0].kernels:
    print(kernel.kind, *kernel.ops)
# > contraction hidden relu
# > contraction output
# > reduction softmax

# %% [markdown]
# ## Save and load
#
# An artefact holds code and weights. Loading it needs neither MLIR nor ONNX ([installing](../docs/install.md)). From a
# shell: `stepwell-run build/ladder/ch0/classifier.stw`.

# %%
ranged.save(folder / "classifier.stw")
loaded = stepwell.load(folder / "classifier.stw")
np.testing.assert_allclose(loaded(pixels), digits, rtol=1e-5)

# %% [markdown]
# [Chapter 1](ch1_look_at_the_levels.py) opens the black box.
