"""Results of `torch.compile(backend="stepwell")` that share memory, with each other or with arguments, as in eager."""

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function):
    return torch.compile(function, backend="stepwell", options={"cache": False})


def views(x):
    y = x * 2
    return y, y.t(), y[1:], y[:, ::2], y.expand(2, *y.shape), y.detach(), (y.t() @ y).t(), *y.split(2)


@pytest.mark.sweep
def test_views_of_one_value():
    run = compiled(views)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        made, wanted = run(x), views(x)
        for results in (made, wanted):
            results[0][1].fill_(7)
        for own, theirs in zip(made, wanted, strict=True):
            torch.testing.assert_close(own, theirs)
            assert own.stride() == theirs.stride()
    assert not any(graph.on_torch for graph in stepwell.torch_report().graphs)


def test_gradients_through_views_of_one_value():
    x = torch.randn(3, 4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for made, given in ((compiled(views)(x), x), (views(y), y)):
        sum(item.square().sum() for item in made).backward()
        assert given.grad is not None
    torch.testing.assert_close(x.grad, y.grad)


def test_a_sliced_result_keeps_its_strides():
    def function(x):
        return (x + 1)[:, ::2]

    x = torch.randn(3, 4)
    made = compiled(function)(x)
    torch.testing.assert_close(made, function(x))
    assert made.stride() == (4, 2)


def test_transposed_weights_are_not_copied_for_the_backward_pass():
    model = torch.nn.Linear(4, 3)
    run = compiled(model)
    run(torch.randn(2, 4, requires_grad=True)).sum().backward()
    (piece,) = stepwell.torch_report().graphs[0].pieces.values()
    assert [tuple(info.shape) for info in piece.outputs] == [(2, 3)]


def test_a_diagonal_that_is_written():
    def function(x):
        y = x.clone()
        y.diagonal().fill_(1)
        return y * 2

    run = torch.compile(function, backend="stepwell", options={"cache": False, "fallback": "quiet"})
    x = torch.randn(3, 3)
    torch.testing.assert_close(run(x), function(x))
