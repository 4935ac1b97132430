"""Views by strides, of tensors whose sizes vary."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import stepwell  # noqa: E402

NATIVE = {"fallback": "error", "cache": False}


@pytest.fixture(autouse=True)
def _clean():
    torch._dynamo.reset()


def _pairs(x):
    """Each row beside the next one."""
    batch, rows, depth = x.shape
    return x.as_strided((batch, rows - 1, 2, depth), (rows * depth, depth, depth, 1)) * 2


def _windows(x):
    return x.unfold(1, 3, 2).sum(-1)


def _patches(x):
    """The second view is of memory that the first one has reordered."""
    return x.unfold(1, 2, 2).unfold(2, 3, 3).sum((-1, -2))


def _of_a_transposed(x):
    return x.transpose(1, 2).unfold(2, 2, 1) + 1


def _behind(x):
    return x.as_strided((x.shape[0] - 1, x.shape[2]), (x.shape[1] * x.shape[2], 1), x.shape[1] * x.shape[2]) + 1


def _added(x):
    made = torch.ones_like(x)
    return torch.as_strided_scatter(made, x[:, 0], (x.shape[0], x.shape[2]), (x.shape[1] * x.shape[2], 1))


@pytest.mark.parametrize("function", [_pairs, _windows, _patches, _of_a_transposed, _behind, _added])
def test_sizes_and_strides_that_vary(function):
    run = torch.compile(function, backend="stepwell", dynamic=True, options=NATIVE)
    with torch.no_grad():
        for sizes in ((3, 5, 4), (4, 7, 6), (5, 6, 3)):
            x = torch.randn(sizes)
            torch.testing.assert_close(run(x), function(x))
    assert not any(graph.on_torch for graph in stepwell.torch_report().graphs)


def test_a_tensor_that_is_not_contiguous_is_viewed_by_torch():
    run = torch.compile(_pairs, backend="stepwell", dynamic=True, options={**NATIVE, "fallback": "quiet"})
    x = torch.randn(2, 4, 5).transpose(1, 2)
    with torch.no_grad():
        torch.testing.assert_close(run(x), _pairs(x))
