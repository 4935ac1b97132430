"""Equal elements, running extremes, parts of floats and pooling over uneven intervals: as torch computes them."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional as nnf  # noqa: E402

from .families import check, numbers  # noqa: E402


def test_running_extremes_and_sums():
    functions = {
        "greatest": lambda x: torch.cummax(x, 1),
        "least": lambda x: torch.cummin(x, 0),
        "sums of exponentials": lambda x: torch.logcumsumexp(x, 1),
    }
    x = numbers(torch.float32, 3, 5)
    x[1, 2] = float("nan")
    check(functions, x)
    check({"greatest": functions["greatest"]}, torch.tensor([[3, 1, 3, 4, 4, 0]]))


def test_equal_elements():
    x = torch.tensor([[2, 1, 2], [3, 1, 2], [2, 1, 2]])
    functions = {
        "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        "slices": lambda x: torch.unique(x, return_counts=True, dim=0),
        "neighbours": lambda x: torch.unique_consecutive(x, return_counts=True),
        "mode": lambda x: torch.mode(x, 0),
    }
    check(functions, x)


def test_histograms():
    functions = {
        "counts": lambda x: torch.histc(x, 4),
        "with ends": lambda x: torch.histogram(x, 3),
        "shares": lambda x: torch.histogram(x, 3, range=(-1.0, 1.0), density=True).hist,
        "boxes": lambda x: torch.histogramdd(x.reshape(-1, 2), [2, 3]).hist,
    }
    check(functions, numbers(torch.float32, 12))


def test_parts_of_floats_and_divisors():
    x = torch.tensor([0.0, 1.0, -0.3, 1e-40, 7.5e8, float("inf")])
    check({"parts": torch.frexp, "next": lambda x: torch.nextafter(x, torch.ones(()))}, x, rtol=0, atol=0)
    check({"gcd": torch.gcd, "lcm": torch.lcm}, torch.tensor([12, -8, 0, 7]), torch.tensor([18, 12, 5, 0]))


def test_pooling_and_padding():
    functions = {
        "uneven": lambda x: nnf.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        "integers": lambda x: nnf.avg_pool1d((x[0] * 9).long(), 3, padding=1),
        "negative divisor": lambda x: nnf.avg_pool2d((x * 9).long(), 2, divisor_override=-2),
        "replicated": lambda x: nnf.pad(x, (-2, 3, 1, -1), mode="replicate"),
        "in double": lambda x: nnf.interpolate(x.double(), scale_factor=1.7, mode="bicubic"),
        "smoothed": lambda x: nnf.interpolate(x, size=(3, 4), mode="bicubic", antialias=True),
    }
    check(functions, numbers(torch.float32, 1, 2, 5, 7))


def test_places():
    functions = {
        "strides": lambda x: torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (1, 3), 1),
        "reduced": lambda x: x.scatter(1, torch.tensor([[0, 0], [1, 2]]), 2.0, reduce="multiply"),
        "nonzero": lambda x: torch.nonzero_static(x > 0, size=9, fill_value=-1),
    }
    check(functions, numbers(torch.float32, 3, 4))
