"""Sums of products in backward graphs, which become one product."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.compat.torch.sums import merge_sums  # noqa: E402
from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402


def _count(module: Any, name: str) -> int:
    return sum(name == str(node.target).removeprefix("aten.").split(".")[0] for node in module.graph.nodes)


def _weights(*terms: Any) -> Any:
    """The sum of products of pairs of matrices, each transposed twice, as autograd does."""
    first, second = terms[: len(terms) // 2], terms[len(terms) // 2 :]
    total = None
    for left, right in zip(first, second, strict=True):
        product = torch.mm(left.t(), right).t().t()
        total = product if total is None else total + product
    return total


def test_products_are_merged() -> None:
    torch.manual_seed(0)
    terms = [torch.randn(4, 32, dtype=torch.float64) for _ in range(10)]
    module = make_fx(_weights, tracing_mode="fake")(*terms)
    assert _count(module, "mm") == 5
    assert merge_sums(module.graph) == 1
    module.recompile()
    assert _count(module, "mm") == 1 and _count(module, "add") == 0
    torch.testing.assert_close(module(*terms), _weights(*terms))


def test_sums_of_rows_are_merged_and_other_terms_stay() -> None:
    def biases(other: Any, *terms: Any) -> Any:
        total = other
        for item in terms:
            total = total + item.sum(0, keepdim=True).view(8)
        return total

    terms = [torch.randn(3, 8, dtype=torch.float64) for _ in range(6)]
    other = torch.randn(8, dtype=torch.float64)
    module = make_fx(biases, tracing_mode="fake")(other, *terms)
    assert merge_sums(module.graph) == 1
    module.recompile()
    assert _count(module, "sum") == 1 and _count(module, "add") == 1
    torch.testing.assert_close(module(other, *terms), biases(other, *terms))


@pytest.mark.parametrize(("rows", "terms"), [(4, 3), (400, 5)])
def test_negative_few_terms_and_small_results(rows: int, terms: int) -> None:
    given = [torch.randn(rows, 32) for _ in range(2 * terms)]
    module = make_fx(_weights, tracing_mode="fake")(*given)
    assert merge_sums(module.graph) == 0
    assert _count(module, "mm") == terms


def test_negative_products_with_other_readers() -> None:
    def function(*terms: Any) -> Any:
        products = [torch.mm(item.t(), item) for item in terms]
        return sum(products[1:], products[0]), *products

    given = [torch.randn(4, 32) for _ in range(5)]
    module = make_fx(function, tracing_mode="fake")(*given)
    assert merge_sums(module.graph) == 0


def test_a_recurrent_layer_has_the_gradients_of_eager() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer, x = nn.LSTM(16, 24, 2, batch_first=True), torch.randn(3, 7, 16)
    layer(x)[0].square().sum().backward()
    expected = [item.grad.clone() for item in layer.parameters() if item.grad is not None]
    layer.zero_grad()
    torch.compile(layer, backend="stepwell", options={"fallback": "error"})(x)[0].square().sum().backward()
    for parameter, wanted in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-5)
    backward = next(graph for graph in stepwell.torch_report().graphs if graph.kind == "backward")
    products = [kernel for piece in backward.pieces.values() for kernel in piece.programs[0].kernels]
    assert any("mm_default" in op for kernel in products for op in kernel.ops)
