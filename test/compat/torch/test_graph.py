"""Graphs with AOTAutograd's calling convention."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.compat.torch.graph import EagerGraph  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402


def test_torch_runs_a_graph_on_values_of_other_strides():
    """The strides that PyTorch's rules predict while it captures a graph are not always those of its ops."""
    captured = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    graph = make_fx(lambda x: [x.permute(0, 2, 3, 1).view(2, 60)])(captured)
    arguments = [captured.contiguous()]
    (made,) = EagerGraph(graph)(arguments)
    assert not arguments
    torch.testing.assert_close(made, captured.permute(0, 2, 3, 1).reshape(2, 60))
