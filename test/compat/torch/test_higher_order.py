"""Gradients of gradients of compiled modules are PyTorch's, with a warning."""

import copy
import gc
import warnings
import weakref

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

WARNING = r"op by op where gradients are differentiated \(create_graph=True\)"


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def dense():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def images():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 1))


def penalized(module, x):
    """The gradients of a loss with the norms of the gradients of the input, as of a critic in a GAN."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    made = module(x)
    (slopes,) = torch.autograd.grad(made.square().sum(), x, create_graph=True)
    (made.mean() + (slopes.flatten(1).norm(dim=1) - 1).square().mean()).backward()


@pytest.mark.parametrize(("make", "shape"), [(dense, (4,)), (images, (3, 6, 6))])
def test_a_penalty_of_gradients(make, shape):
    plain = make()
    owner = copy.deepcopy(plain)
    compiled = torch.compile(owner, backend="stepwell", options={"cache": False})
    with pytest.warns(stepwell.FallbackWarning, match=WARNING):
        penalized(compiled, torch.ones(5, *shape))
    penalized(plain, torch.ones(5, *shape))
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)  # one warning is enough
        for _ in range(2):
            x = torch.randn(5, *shape)
            penalized(compiled, x)
            penalized(plain, x)
            for found, wanted in zip(owner.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-5)
    for found, wanted in zip(owner.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(found, wanted)
    assert "higher order" in str(stepwell.torch_report())


def test_third_derivatives():
    compiled = torch.compile(lambda x: x.sin() * x, backend="stepwell", options={"fallback": "quiet", "cache": False})
    found = []
    for function in (compiled, lambda x: x.sin() * x):
        value = torch.linspace(-1, 1, 5, dtype=torch.float64).requires_grad_()
        made = function(value)
        for _ in range(3):
            (made,) = torch.autograd.grad(made.sum(), value, create_graph=True)
        found.append(made)
    torch.testing.assert_close(*found)


def test_a_plain_backward_pass_stays_compiled_and_releases_arguments():
    module = torch.compile(dense(), backend="stepwell", options={"cache": False})
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        x = torch.randn(5, 4)
        gone, loss = weakref.ref(x), module(x).sum()
        loss.backward()
    del x
    gc.collect()
    assert gone() is None and loss.requires_grad


def test_negative_a_changed_argument():
    module = dense()
    compiled = torch.compile(module, backend="stepwell", options={"fallback": "quiet", "cache": False})
    x = torch.randn(5, 4, requires_grad=True)
    made = compiled(x)
    with torch.no_grad():
        module[0].weight.zero_()
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        torch.autograd.grad(made.sum(), x, create_graph=True)


@pytest.mark.parametrize("kind", ["strict", "random"])
def test_negative_graphs_that_are_not_repeated(kind):
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5 if kind == "random" else 0.0), nn.Tanh())
    chosen = {"cache": False, "fallback": "error" if kind == "strict" else "quiet"}
    compiled = torch.compile(module, backend="stepwell", options=chosen)
    x = torch.randn(5, 4, requires_grad=True)
    (slopes,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        slopes.sum().backward()
