"""Sizes that only a number gives to a piece."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import stepwell  # noqa: E402

OPTIONS = {"fallback": "error", "cache": False}


def _fill(x, n):
    return torch.zeros(n, 4) + x.sum()


def _pad(x, n):
    return torch.nn.functional.pad(x, (0, n), value=1.0) * 2


def _range(x, n):
    return torch.arange(n) * x.long().sum()


def _slice(x, n):
    return x[:, :n] * 2


def _repeat(x, n):
    return x.sum(1, keepdim=True).expand(-1, n) * x.shape[0]


def _without_tensors(_, n):
    return torch.ones(2, n).cumsum(1)


@pytest.fixture(autouse=True)
def _clean():
    torch._dynamo.reset()


@pytest.mark.parametrize("function", [_fill, _pad, _range, _slice, _repeat, _without_tensors])
def test_a_number_is_a_size(function):
    """No op runs in PyTorch, and one program serves several sizes."""
    run = torch.compile(function, backend="stepwell", dynamic=True, options=OPTIONS)
    x = torch.arange(24.0).reshape(4, 6)
    with torch.no_grad():
        for size in (3, 5, 2):
            torch.testing.assert_close(run(x, size), function(x, size))
    (graph,) = stepwell.torch_report().graphs
    (piece,) = graph.pieces.values()
    assert len(piece.programs) == 1


def test_a_number_that_is_a_size_and_a_factor():
    run = torch.compile(lambda x, n: torch.ones(n) * n + x.sum(), backend="stepwell", dynamic=True, options=OPTIONS)
    with torch.no_grad():
        for size in (3, 5):
            torch.testing.assert_close(run(torch.ones(2, 3), size), torch.ones(size) * size + 6)


def test_a_size_of_0():
    run = torch.compile(_fill, backend="stepwell", dynamic=True, options=OPTIONS)
    with torch.no_grad():
        assert run(torch.ones(2, 3), 4).shape == (4, 4)
        assert run(torch.ones(2, 3), 0).shape == (0, 4)


def test_a_negative_number_is_no_size():
    """`x[:, :n]` has `x.shape[1] + n` columns."""
    run = torch.compile(_slice, backend="stepwell", dynamic=True, options={**OPTIONS, "fallback": "quiet"})
    x = torch.arange(24.0).reshape(4, 6)
    with torch.no_grad():
        for size in (-2, -3, 4):
            torch.testing.assert_close(run(x, size), _slice(x, size))


@pytest.mark.parametrize("windows", [(3, 5, 4), (8, 9)], ids=["within", "beyond"])
def test_the_last_elements(windows):
    """The start of a slice is negative in each call, as in a cache with a window."""

    def function(x, window):
        return x.sin()[:, -window + 1 :] * 2

    run = torch.compile(function, backend="stepwell", dynamic=True, options=OPTIONS)
    x = torch.arange(24.0).reshape(4, 6)
    with torch.no_grad():
        for window in windows:
            torch.testing.assert_close(run(x, window), function(x, window))
    (graph,) = stepwell.torch_report().graphs
    (piece,) = graph.pieces.values()
    assert len(piece.programs) == 1


class _Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 20)

    def forward(self, x):
        count = (x > 0).sum().item()
        return self.layer(torch.ones(count, 2).cumsum(0) + x.sum())


def test_a_number_that_torch_reads_from_a_tensor():
    module = _Counted()
    run = stepwell.compile(
        module, (torch.tensor([1.0, -1.0, 2.0]),), options=stepwell.Options(fallback="quiet", cache=False)
    )
    for x in (torch.tensor([1.0, -1.0, 2.0]), torch.tensor([1.0, 3.0, 2.0])):
        torch.testing.assert_close(run(x), module(x))
    assert [item.op_type for item in run.fallbacks] == ["aten._local_scalar_dense.default"]


@pytest.mark.parametrize("size", [lambda n: n + 1, lambda n: (n + 4) // 4, lambda n: n // 2], ids=["+", "up", "down"])
def test_an_expression_of_a_number_is_a_size(size):
    class Part(torch.nn.Module):
        def forward(self, x, n):
            count = n.max().item()
            torch._check(count >= 0)
            torch._check(count <= 100)
            return x.sin()[:, : size(count)] + 1

    module, x = Part(), torch.rand(2, 8)
    options = stepwell.Options(fallback="quiet", cache=False)
    run = stepwell.compile(module, (x, torch.tensor([3, 5])), options=options)
    for count in (5, 2, 50):
        given = torch.tensor([count, 1])
        torch.testing.assert_close(run(x, given), module(x, given))
    assert [item.op_type for item in run.fallbacks] == ["aten._local_scalar_dense.default"]
