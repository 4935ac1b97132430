"""The table of kernels: its statements about each kernel are true."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from stepwell.bench import kernels, selecting
from stepwell.bench.few_bits import few_bits

SMALL = [
    kernels.gemm(3, 5, 7),
    kernels.gemm(1, 5, 7),
    kernels.batched_gemm(2, 3, 5, 7),
    kernels.batched_gemm(1, 3, 5, 7),
    kernels.conv(4, 6, 8, 3),
    kernels.conv(4, 6, 9, 1, 2),
    kernels.conv(4, 4, 8, 5, 1, 4),
    kernels.conv(4, 6, 8, 3, 2, 2),
    kernels.softmax(3, 5),
    kernels.layer_norm(3, 5),
    kernels.gelu(3, 5),
    kernels.elementwise("add", 3, 5),
    kernels.elementwise("mul", 3, 5),
    kernels.attention(2, 3, 4, 5),
    kernels.transpose((2, 3, 4), (2, 0, 1)),
    kernels.pool("max", 2, 8, 3, 2),
    kernels.pool("max", 2, 8, 2, 2),
    kernels.pool("average", 2, 8, 3, 1),
    kernels.pool("average", 2, 7, 7, 1),
    kernels.conv(4, 6, 8, 3, batch=2),
    kernels.conv_along(4, 6, (9,), 3, 2),
    kernels.conv_along(4, 6, (2, 5, 4), 3),
    kernels.top_k(3, 20, 5),
    kernels.scatter(4, 10),
    kernels.scatter(4, 10, "add"),
    kernels.scatter_rows(9, 5, 3),
    selecting.nonzero(40, 0.5),
    selecting.compress(40, 0.5),
    selecting.unique(40, 3),
    selecting.non_max_suppression(12, 2, 0.5),
]


@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.name)
def test_all_forms_of_a_kernel_agree(kernel: kernels.Kernel, tmp_path) -> None:
    model = onnx.load(kernel.write(tmp_path))
    onnx.checker.check_model(model, full_check=True)
    inputs = kernel.arrays()
    (want,) = ReferenceEvaluator(model).run(None, inputs)
    assert want.shape == kernel.output
    assert kernel.bytes >= want.nbytes
    if kernel.numpy is not None:
        np.testing.assert_allclose(kernel.numpy(*inputs.values(), *kernel.weights()), want, rtol=1e-4, atol=1e-5)
    session = onnxruntime.InferenceSession(tmp_path / next(tmp_path.glob("*.onnx")).name)
    np.testing.assert_allclose(session.run(None, inputs)[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.name)
def test_torch_agrees(kernel: kernels.Kernel, tmp_path) -> None:
    torch = pytest.importorskip("torch")
    (want,) = ReferenceEvaluator(onnx.load(kernel.write(tmp_path))).run(None, kernel.arrays())
    arrays = [torch.from_numpy(array) for array in (*kernel.arrays().values(), *kernel.weights())]
    np.testing.assert_allclose(kernel.torch(torch)(*arrays).numpy(), want, rtol=1e-4, atol=1e-5)


def test_operations_are_counted() -> None:
    assert kernels.gemm(3, 5, 7).flops == 2 * 3 * 5 * 7
    assert kernels.conv(4, 6, 8, 3).flops == 2 * 6 * 8 * 8 * 4 * 9
    assert kernels.conv(4, 4, 8, 3, 2, 4).flops == 2 * 4 * 4 * 4 * 9
    assert kernels.attention(1, 1, 4, 8).flops == 2 * 2 * 4 * 4 * 8 + 6 * 16


def test_the_table_has_every_family() -> None:
    families = {kernel.family for kernel in kernels.table().values()}
    assert families >= {"gemm", "gemv", "batched gemm", "conv 1x1", "conv 3x3", "conv 5x5", "depthwise conv"}
    assert families >= {"strided conv", "grouped conv", "softmax", "layer norm", "gelu", "elementwise", "attention"}
    assert families >= {"transpose", "pooling", "conv1d", "conv3d", "selection", "scatter", "selecting"}
    assert all(re.fullmatch(r"[a-z0-9 x>/-]+", kernel.name) for kernel in kernels.table().values())


def test_kernels_are_chosen_by_the_start_of_their_names() -> None:
    assert {kernel.family for kernel in kernels.chosen(["conv 3x3"])} == {"conv 3x3"}
    assert len(kernels.chosen([])) == len(kernels.table())


@pytest.mark.parametrize("level", [0, 4])
def test_products_with_few_bits_agree_with_their_floats(level: int, tmp_path) -> None:
    kernel = few_bits(3, 24, 64, block=32, level=level)
    inputs = kernel.arrays()
    assert kernel.numpy is not None
    want = kernel.numpy(*inputs.values(), *kernel.weights())
    session = onnxruntime.InferenceSession(kernel.write(tmp_path))
    np.testing.assert_allclose(session.run(None, inputs)[0], want, atol=0.03)
    assert kernel.bytes == 4 * 3 * (24 + 64) + 24 * (64 / 2 + 4 * 2)
