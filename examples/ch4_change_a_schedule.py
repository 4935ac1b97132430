# %% [markdown]
# # Chapter 4: change a schedule
#
# At the level `kernels`, a kernel says what to compute. A *schedule* decides how: in which blocks and tiles, in which
# order, with how many accumulators in registers. The compiler chooses one for each kernel and records it. This chapter
# reads the choice for a matrix product, replaces it by others, and measures all of them.

# %%
import os
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper, numpy_helper

folder = Path("build/ladder/ch4")
folder.mkdir(parents=True, exist_ok=True)
os.chdir(folder)
random = np.random.default_rng(0)
weight = random.standard_normal((256, 512), np.float32)
graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["x", "w"], ["sums"], name="product"),
        helper.make_node("Relu", ["sums"], ["y"], name="relu"),
    ],
    "layer",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [128, 256])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [128, 512])],
    [numpy_helper.from_array(weight, "w")],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")

# %% [markdown]
# ## Read it
#
# `--kernel` writes one kernel only, selected by a node of the model. At the level `tiled` its schedule is an attribute:


# %%
def kernel_at(level: str, *options: str) -> str:
    """Returns the kernel of the product at a level."""
    command = ["stepwell-compile", "model.onnx", f"--compile-to={level}", "--kernel=product", "-o", "kernel.mlir"]
    subprocess.run([*command, *options], check=True)
    return Path("kernel.mlir").read_text()


print(re.findall("stepwell.schedule = ({.*?})", kernel_at("tiled", "--target=x86-64-v3"))[0])
# > {blocks = [array<i64: 128, 1>], name = "contraction", tiles = [array<i64: 5>], unroll = 0 : i64, vector_bytes = ...

# %% [markdown]
# `tiles = [5]`: five rows of the result are computed at a time. On this target a row of a tile has 16 columns, which
# are two registers of eight floats, so ten of the sixteen registers hold sums. `blocks = [128, 1]`: a unit of work for
# a thread has 128 rows and one group of columns, so that the group's weights stay in the cache for all rows.
#
# ## Replace it
#
# At the level `kernels` the kernel has no schedule yet. If it gets an attribute `stepwell.schedule` there, the compiler
# takes the parameters in it, and chooses only the others. `Options.substitutes` puts the edited kernel back into the
# model. This writes one file per number of rows in a tile, for the target that this machine is. There, the columns may
# be divided into groups with a tile each, so as many tiles are given as the compiler's own schedule has.

# %%
(tiles,) = re.findall(r"tiles = \[(.*?)\]", kernel_at("tiled"))
groups = tiles.count("array")
plain = kernel_at("kernels")
for rows in (1, 2, 4, 8):
    own = ", ".join([f"array<i64: {rows}>"] * groups)
    edited = plain.replace(
        "attributes {stepwell.kernel",
        f'attributes {{stepwell.schedule = {{name = "own", tiles = [{own}]}}, stepwell.kernel',
    )
    assert edited != plain
    Path(f"rows{rows}.mlir").write_text(edited)

# %% [markdown]
# ## Measure
#
# The results agree for every schedule. The times do not: with one row in a tile, each weight is loaded for a single
# multiply-add.


# %%
def microseconds(model: stepwell.Executable, x: np.ndarray) -> float:
    """Returns the shortest time of a call."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        model(x)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


x = random.standard_normal((128, 256), np.float32)
chosen = stepwell.compile("model.onnx", threads=1)
expected = chosen(x)
np.testing.assert_allclose(expected, np.maximum(x @ weight, 0), rtol=1e-3, atol=1e-3)
print(f"chosen: {microseconds(chosen, x):6.1f} us")
for rows in (1, 2, 4, 8):
    options = stepwell.Options(substitutes={"product": f"rows{rows}.mlir"})
    model = stepwell.compile("model.onnx", threads=1, options=options)
    np.testing.assert_allclose(model(x), expected, rtol=1e-3, atol=1e-3)
    print(f"{rows} rows: {microseconds(model, x):6.1f} us")
# > chosen:  143.8 us
# > 1 rows:  344.6 us
# > 2 rows:  214.4 us
# > 4 rows:  152.5 us
# > 8 rows:  145.8 us

# %% [markdown]
# ## What else to know
#
# - [Editing a kernel](../docs/kernels.md) edits kernels at other levels too, and gives a kernel a schedule that is a
#   script of the transform dialect, for orders that no parameters describe.
# - [Why not faster?](../docs/report.md) shows the tile of each kernel, and what bounds its time; [where the time
#   goes](../docs/profile.md) measures it.
# - The schedules are in [`lowering/linalg_to_vector/schedules/`](../lowering/linalg_to_vector/schedules), one file per
#   class of kernel.
#
# [Chapter 5](ch5_add_a_target.py) adds a target.
