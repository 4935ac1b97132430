"""Layers and quantised products that PyTorch has as single ops are native."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

HIDDEN = torch.tensor([[False] * 4 + [True] * 2, [False] * 6])
LATER = torch.ones(6, 6, dtype=torch.bool).triu(1)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def check(function, *given, **named):
    compiled = torch.compile(function, backend="stepwell", options={"fallback": "error", "cache": False})
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given, **named), function(*given, **named), rtol=1e-4, atol=1e-5)


def check_gradients(module, *given):
    other = copy.deepcopy(module)
    compiled = torch.compile(module, backend="stepwell", options={"fallback": "error", "cache": False})
    for run in (compiled, other):
        run(*given).square().sum().backward()
    for made, wanted in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(made.grad, wanted.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "masks",
    [{}, {"src_mask": LATER}, {"src_key_padding_mask": HIDDEN}, {"src_mask": LATER, "src_key_padding_mask": HIDDEN}],
    ids=["all", "before", "kept", "both"],
)
def test_layer_of_an_encoder(masks):
    first = bool(masks)
    kind = "gelu" if first else "relu"
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=first, activation=kind).eval()
    check(layer, torch.randn(2, 6, 16), **masks)


@pytest.mark.parametrize("named", [{"need_weights": False}, {"average_attn_weights": False}, {}], ids=str)
def test_attention_with_projections(named):
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 6, 16)
    check(lambda x: layer(x, x, x, key_padding_mask=HIDDEN, **named), x)


def test_quantised_products():
    weight = torch.randint(-127, 128, (32, 64), dtype=torch.int8)
    scales, x = torch.rand(32) / 100, torch.randn(4, 64)
    check(lambda x: torch._weight_int8pack_mm(x, weight, scales), x)
    numbers = torch.randint(-128, 128, (20, 64), dtype=torch.int8)
    check(lambda x: torch._int_mm(x, weight.T.contiguous()), numbers)


def test_fake_quantisation():
    check(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -20, 20), 3 * torch.randn(4, 6))


def test_complex_linear_layer():
    layer, x = nn.Linear(4, 3, dtype=torch.complex64), torch.randn(2, 4, dtype=torch.complex64)
    check(layer, x)


def test_norm_of_narrow_numbers_with_wide_weights():
    check(nn.LayerNorm(8), torch.randn(3, 8).bfloat16())


def test_gradients_of_normalised_weights():
    check_gradients(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3), dim=1), torch.randn(2, 4))


def test_gradients_of_grouped_attention():
    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys, self.queries = nn.Linear(8, 4), nn.Linear(8, 16)

        def forward(self, x):
            key, query = (layer(x).unflatten(-1, (-1, 4)).transpose(1, 2) for layer in (self.keys, self.queries))
            return nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True, enable_gqa=True)

    check_gradients(Grouped(), torch.randn(2, 5, 8))


@pytest.mark.parametrize("density", [False, True])
def test_histograms_between_given_ends(density):
    ends = [torch.tensor([0.0, 0.25, 0.5, 1.0]), torch.tensor([0.1, 0.7, 0.9])]
    x, weight = torch.rand(40, 2), torch.rand(40)
    x[0], x[1] = torch.tensor([1.0, 0.9]), torch.tensor([0.25, 0.1])
    check(lambda x: torch.histogram(x[:, 0], ends[0], density=density), x)
    check(lambda x: torch.histogramdd(x, ends, density=density).hist, x)
    check(lambda x, weight: torch.histogramdd(x, ends, weight=weight, density=density).hist, x, weight)


@pytest.mark.parametrize("norm_type", [2.0, 1.0])
def test_an_embedding_with_a_greatest_norm(norm_type):
    layer = nn.Embedding(10, 4, max_norm=1.5, norm_type=norm_type).requires_grad_(False)
    other, indices = copy.deepcopy(layer), torch.tensor([[1, 2, 2], [7, 1, 0]])
    compiled = torch.compile(layer, backend="stepwell", options={"fallback": "error", "cache": False})
    with torch.no_grad():
        torch.testing.assert_close(compiled(indices), other(indices))
    torch.testing.assert_close(layer.weight, other.weight)


@pytest.mark.parametrize(
    ("dimensions", "shape", "kernel", "size"),
    [(2, (2, 3, 9, 11), (2, 3), (4, 5)), (2, (3, 9, 11), 2, (1, 5)), (3, (2, 3, 7, 8, 9), (2, 3, 2), (3, 2, 4))],
    ids=["2d", "2d without a batch", "3d"],
)
def test_fractional_pooling(dimensions, shape, kernel, size):
    pool = [nn.functional.fractional_max_pool2d, nn.functional.fractional_max_pool3d][dimensions - 2]
    x, samples = torch.randn(shape), torch.rand(shape[0] if len(shape) == dimensions + 2 else 1, 3, dimensions)
    check(lambda x: pool(x, kernel, size, return_indices=True, _random_samples=samples), x)
