"""Quantised values as torch exports them: the arithmetic, and products on bytes."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import stepwell  # noqa: E402
from torch.ao.quantization.fx import _decomposed  # noqa: E402, F401  registers the ops
from torch.nn import functional as nnf  # noqa: E402

from .families import check, numbers  # noqa: E402

q = torch.ops.quantized_decomposed
BYTE, SIGNED = (0, 255, torch.uint8), (-128, 127, torch.int8)


def test_quantisation():
    x, scales, zeros = numbers(torch.float32, 3, 5), torch.tensor([0.02, 0.01, 0.03]), torch.tensor([3, 0, -4])
    scale, zero = torch.tensor(0.02), torch.tensor(7)
    functions = {
        "by numbers": lambda x: q.quantize_per_tensor(x, 0.02, 120, *BYTE),
        "by tensors": lambda x: q.quantize_per_tensor.tensor(x, scale, zero, *SIGNED),
        "by channel": lambda x: q.quantize_per_channel(x, scales, zeros, 0, *SIGNED),
        "by row": lambda x: q.quantize_per_token(x, scales[:, None], zeros[:, None], *SIGNED),
        "by its range": lambda x: q.choose_qparams(x, 0, 255, 1e-6, torch.uint8),
    }
    check(functions, x)


def test_dequantisation():
    x, scales, zeros = torch.arange(-7, 8, dtype=torch.int8).reshape(3, 5), torch.rand(5) + 0.1, torch.arange(5)
    functions = {
        "by numbers": lambda x: q.dequantize_per_tensor(x, 0.02, 3, *SIGNED),
        "by tensors": lambda x: q.dequantize_per_tensor.tensor(x, torch.tensor(0.5), torch.tensor(2), *SIGNED),
        "by channel": lambda x: q.dequantize_per_channel(x, scales, zeros, -1, *SIGNED),
        "without zeros": lambda x: q.dequantize_per_channel(x, scales, None, 1, *SIGNED),
        "by row": lambda x: q.dequantize_per_token(x, scales[:3, None], zeros[:3, None], *SIGNED, torch.float32),
        "narrow": lambda x: q.dequantize_per_tensor(x, 0.5, 3, *SIGNED, out_dtype=torch.float16),
    }
    check(functions, x)


class Layers(torch.nn.Module):
    """A convolution and a linear layer with quantised inputs and weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("filters", torch.randint(-127, 128, (8, 3, 3, 3), dtype=torch.int8))
        self.register_buffer("weight", torch.randint(-127, 128, (16, 8 * 64), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(16) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(16, dtype=torch.int64))

    def forward(self, x):
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.02, 128, *BYTE), 0.02, 128, *BYTE)
        filters = q.dequantize_per_channel(self.filters, self.scales[:8], self.zeros[:8], 0, *SIGNED)
        x = nnf.relu(nnf.conv2d(x, filters, torch.linspace(-1, 1, 8), padding=1)).flatten(1)
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.05, 0, *BYTE), 0.05, 0, *BYTE)
        return nnf.linear(x, q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, *SIGNED))


def test_products_are_of_bytes():
    model, x = Layers().eval(), numbers(torch.float32, 2, 3, 8, 8)
    run = stepwell.compile(model, (x,), options={"cache": False})
    expected = model(x)
    torch.testing.assert_close(run(x), expected, rtol=1e-4, atol=0.02 * float(expected.abs().max()))
    report = run.report()
    assert not run.fallbacks and not [item for item in report.summary if item["kind"] == "quantized"]
    passed = {remark.rule for remark in report.remarks if remark.kind == "passed"}
    assert "MultiplyDequantized" in passed
    products = [kernel for kernel in report.kernels if kernel["class"] in ("contraction", "convolution")]
    assert [operand["dtype"] for kernel in products for operand in kernel["operands"]].count("int8") >= 2
