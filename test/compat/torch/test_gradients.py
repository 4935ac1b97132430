"""Gradients of layers and functions under `torch.compile`: native, and equal to eager's."""

import copy
import functools
import warnings

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Head(nn.Module):
    """A layer, then the mean over everything but the batch and the channels."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.layer = nn.Conv2d(3, 4, 3, 2, 1), layer

    def forward(self, x):
        made = self.layer(self.first(x))
        return made.flatten(2).square().mean(2)


class Attention(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.qkv = kind, nn.Linear(16, 48)

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        mask = None
        if self.kind == "numbers":
            mask = torch.linspace(-1, 1, length).expand(length, -1)
        if self.kind == "no keys":  # for the first query
            mask = torch.ones(length, length, dtype=torch.bool).tril(-1)
        scale = 0.3 if self.kind == "scale" else None
        made = functional.scaled_dot_product_attention(query, key, value, mask, 0.0, self.kind == "causal", scale=scale)
        return made.transpose(1, 2).reshape(x.shape)


class Lines(nn.Module):
    """Convolutions along one dimension, whose length becomes a rounded quotient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 8, 5, padding=2), nn.Conv1d(8, 8, 3, 2)

    def forward(self, x):
        return self.second(functional.relu(self.first(x)))


_IMAGE = (3, 16, 16)
CASES = {
    "groups": (lambda: Head(nn.Conv2d(4, 8, 3, groups=2, padding=1)), _IMAGE),
    "depthwise": (lambda: Head(nn.Conv2d(4, 4, 3, groups=4, padding=1)), _IMAGE),
    "dilated": (lambda: Head(nn.Conv2d(4, 8, 3, dilation=2)), _IMAGE),
    "one side": (lambda: Head(nn.Conv2d(4, 8, (3, 1), (2, 3), (1, 0), bias=False)), _IMAGE),
    "transposed": (lambda: Head(nn.ConvTranspose2d(4, 8, 3, 2, 1, output_padding=1)), _IMAGE),
    "transposed groups": (lambda: Head(nn.ConvTranspose2d(4, 8, 2, 2, groups=2)), _IMAGE),
    "patches": (lambda: Head(nn.Conv2d(4, 8, (4, 2), (4, 2))), _IMAGE),
    "high images": (lambda: Head(nn.Conv2d(4, 20, 3, padding=1, dilation=2)), _IMAGE),
    "low images": (lambda: Head(nn.Conv2d(4, 64, 3)), _IMAGE),
    "lines": (Lines, (3, 20)),
    "max": (lambda: Head(nn.MaxPool2d(3, 2, 1)), _IMAGE),
    "max side by side": (lambda: Head(nn.MaxPool2d(2)), _IMAGE),
    "max dilated": (lambda: Head(nn.MaxPool2d(2, 2, dilation=2)), _IMAGE),
    "mean": (lambda: Head(nn.AvgPool2d(3, 2, 1)), _IMAGE),
    "mean beyond": (lambda: Head(nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)), _IMAGE),
    "mean by 3": (lambda: Head(nn.AvgPool2d(2, divisor_override=3)), _IMAGE),
    "mean to 4": (lambda: Head(nn.AdaptiveAvgPool2d(4)), _IMAGE),
    "mean to 3": (lambda: Head(nn.AdaptiveAvgPool2d(3)), _IMAGE),
    "max to 3": (lambda: Head(nn.AdaptiveMaxPool2d(3)), _IMAGE),
    "edges": (lambda: Head(nn.ReplicationPad2d((2, 1, -1, 3))), _IMAGE),
    "smoothed": (lambda: Head(lambda x: functional.interpolate(x, size=5, mode="bilinear", antialias=True)), _IMAGE),
    "attention": (lambda: Attention(""), (9, 16)),
    "causal": (lambda: Attention("causal"), (9, 16)),
    "numbers": (lambda: Attention("numbers"), (9, 16)),
    "no keys": (lambda: Attention("no keys"), (9, 16)),
    "scale": (lambda: Attention("scale"), (9, 16)),
}
_SHORT = ("transposed", "patches", "low images", "lines", "max", "no keys")


def _gradients(module, owner, x):
    owner.zero_grad()
    x = x.clone().requires_grad_()
    made = module(x)
    (made * torch.linspace(-1, 1, made.numel()).view(made.shape)).sum().backward()
    return [made.detach(), x.grad, *(weight.grad for weight in owner.parameters())]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in _SHORT else [pytest.mark.sweep]) for n in CASES])
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.sweep), True])
def test_gradients_are_native_and_right(name, dynamic):
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, shape = CASES[name]
    plain = make()
    owner = copy.deepcopy(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stepwell.SlowWarning)
        warnings.simplefilter("error", stepwell.FallbackWarning)
        compiled = torch.compile(owner, backend="stepwell", dynamic=dynamic)
        for batch in (4, 3):
            x = torch.randn(batch, *shape)
            for found, wanted in zip(_gradients(compiled, owner, x), _gradients(plain, plain, x), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_gradients_at_further_batch_sizes_are_native_and_right():
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 4))
    owner = copy.deepcopy(plain)
    compiled = torch.compile(owner, backend="stepwell")
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        for batch in (4, 3, 2):
            x = torch.randn(batch, 3, 12, 12)
            for found, wanted in zip(_gradients(compiled, owner, x), _gradients(plain, plain, x), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Slope(nn.Module):
    def forward(self, slope, x, weight):
        plain = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        return torch.ops.aten.convolution_backward(slope, x, weight, None, *plain, [True, True, False])[:2]


def test_a_gradient_is_compiled_for_each_size_of_a_declared_range():
    batch = torch.export.Dim("batch", min=2, max=8)
    given = [(torch.randn(size, 8, 4, 4), torch.randn(size, 3, 6, 6), torch.randn(8, 3, 3, 3)) for size in (4, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        with pytest.warns(stepwell.SlowWarning, match="sizes of tensors of which gradients"):
            run = stepwell.compile(Slope(), given[0], dynamic_shapes=({0: batch}, {0: batch}, None))
        for tensors in given:
            for found, wanted in zip(run(*tensors), Slope()(*tensors), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_batch_norm_of_narrow_numbers_keeps_wide_statistics():
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).bfloat16()
    owner, x = copy.deepcopy(plain), torch.randn(16, 6).bfloat16()
    compiled = torch.compile(owner, backend="stepwell", options={"fallback": "error"})
    for found, wanted in zip(_gradients(compiled, owner, x), _gradients(plain, plain, x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=3e-2)
    torch.testing.assert_close(owner[1].running_var, plain[1].running_var)


def _matrix(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def _positions(*shape):
    return (2.4 * torch.rand(*shape, dtype=torch.float64) - 1.2).requires_grad_()


_sampled = functools.partial(functional.grid_sample, align_corners=False)
_WORDS, _STARTS = torch.tensor([0, 2, 2, 4, 1, 2]), torch.tensor([0, 3, 3, 4])
_MASK = torch.arange(12).reshape(3, 4) % 3 == 1
FUNCTIONS = {
    "bilinear samples": (_sampled, (_matrix(2, 3, 5, 6), _positions(2, 4, 3, 2))),
    "cubic samples": (
        lambda x, at: functional.grid_sample(x, at, "bicubic", "reflection", align_corners=True),
        (_matrix(2, 3, 5, 6), _positions(2, 4, 3, 2)),
    ),
    "determinants": (
        lambda x: torch.stack((torch.linalg.det(x), torch.linalg.det(x.mT), torch.linalg.slogdet(x)[1])),
        (_matrix(2, 3, 3),),
    ),
    "solid samples": (
        lambda x, at: _sampled(x, at, padding_mode="border"),
        (_matrix(1, 2, 3, 4, 5), _positions(1, 2, 3, 2, 3)),
    ),
    "distances": (lambda a, b: torch.cdist(a, b) + torch.cdist(a, b, 1.5), (_matrix(3, 4), _matrix(5, 4))),
    "distances within": (lambda a: functional.pdist(a, 3.0), (_matrix(4, 3),)),
    "masked scatter": (lambda a, b: a.masked_scatter(_MASK, b), (_matrix(3, 4), _matrix(2, 3))),
    "means of bags": (
        lambda a: functional.embedding_bag(_WORDS, a, _STARTS, mode="mean", padding_idx=2),
        (_matrix(5, 3),),
    ),
    "weighted bags": (
        lambda a, b: functional.embedding_bag(_WORDS, a, _STARTS, mode="sum", per_sample_weights=b),
        (_matrix(5, 3), _matrix(6)),
    ),
    "one element": (lambda a, b: a.put(torch.tensor(5), b, accumulate=True), (_matrix(3, 4), _matrix(1))),
    "padded transform": (lambda a: torch.fft.fft2(a, s=(5, 6)).abs(), (_matrix(3, 4),)),
    "inverse": (lambda a: torch.linalg.inv(a + 5 * torch.eye(4)), (_matrix(4, 4),)),
    "phases": (lambda a, b: torch.view_as_real(torch.sgn(torch.polar(a, b))), (_matrix(4), _matrix(4))),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_functions_are_native_and_right(name):
    torch._dynamo.reset()
    function, given = FUNCTIONS[name]
    compiled = torch.compile(function, backend="stepwell", options={"fallback": "error"})
    found, wanted = compiled(*given), function(*given)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-7)
    seed = torch.linspace(-1, 1, wanted.numel(), dtype=torch.float64).reshape(wanted.shape)
    pairs = zip(torch.autograd.grad(found, given, seed), torch.autograd.grad(wanted, given, seed), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)
