"""Caches that a model updates: the backend writes what is new in place, and copies nothing else."""

import copy

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Cached(nn.Module):
    """Attention of new rows over a cache of 16 rows."""

    def __init__(self, put):
        super().__init__()
        self.put = put
        self.register_buffer("keys", torch.randn(1, 2, 16, 4))
        self.inner = nn.Linear(8, 8)

    def forward(self, x, places):
        x = self.inner(x).view(1, -1, 2, 4).transpose(1, 2)
        self.put(self.keys, places, x)
        mask = torch.arange(16) <= places[:, None]
        return nn.functional.scaled_dot_product_attention(x, self.keys, self.keys, mask)


def index_copy(keys, places, x):
    keys.index_copy_(2, places, x)


def index(keys, places, x):
    keys[:, :, places] = x


def part(keys, places, x):
    keys[:, :, 2:4] = x


def chosen(keys, places, x):
    keys[:, :, 5] = x[:, :, 0]


def after_reading(keys, places, x):
    before = keys.sum()
    keys.index_copy_(2, places, x)
    keys.mul_(before)


def run_both(put):
    model = Cached(put).eval()
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="stepwell", options={"cache": False})
    with torch.no_grad():
        for first in (1, 9):
            x, places = torch.randn(1, 2, 8), torch.arange(first, first + 2)
            torch.testing.assert_close(run(x, places), other(x, places), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(model.keys, other.keys, rtol=1e-4, atol=1e-5)
    (graph,) = stepwell.torch_report().graphs
    assert not graph.on_torch
    return graph


@pytest.mark.parametrize("put", [index_copy, index, part, chosen])
def test_an_update_in_place(put):
    graph = run_both(put)
    assert graph.in_place == 1
    assert "1 argument updated in place" in str(graph)
    outputs = [info.shape for piece in graph.pieces.values() for info in piece.outputs]
    assert (1, 2, 16, 4) not in outputs


def test_negative_an_update_of_what_is_read():
    assert run_both(after_reading).in_place == 0
