"""`torch.compile(...).aot_compile`: compiled functions are saved with their code, and load without a compile."""

import subprocess
import sys

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SAVE = """
import torch

def function(x, y):
    return torch.linalg.eigvals(x.T @ x).abs() + y, x.exp()

given = torch.randn(5, 3), torch.randn(3)
with torch.no_grad():
    run = torch.compile(function, backend="stepwell", fullgraph=True, options={"fallback": "quiet"})
    run.aot_compile((given, {})).save_compiled_function("function.bin")
"""
LOAD = """
import stepwell, torch

given = torch.randn(5, 3), torch.randn(3)
with open("function.bin", "rb") as file, torch.no_grad():
    made = torch.compiler.load_compiled_function(file)(*given)
torch.testing.assert_close(made[0], torch.linalg.eigvals(given[0].T @ given[0]).abs() + given[1])
torch.testing.assert_close(made[1], given[0].exp())
assert not stepwell.torch_report().graphs
"""


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def test_another_process_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE", "off")
    for text in (SAVE, LOAD):
        subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, timeout=120)


def test_gradients():
    x = torch.randn(4, 5, requires_grad=True)
    run = torch.compile(lambda x: x.sin().sum(), backend="stepwell", fullgraph=True).aot_compile(((x,), {}))
    run(x).backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_a_graph_whose_compile_failed(monkeypatch):
    def failing(*_, **__):
        raise AssertionError("broken")

    monkeypatch.setattr("stepwell.compat.torch.backend.divide", failing)
    run = torch.compile(torch.sin, backend="stepwell", fullgraph=True)
    with pytest.warns(stepwell.FallbackWarning), pytest.raises(Exception, match="cannot be saved: it runs in PyTorch"):
        run.aot_compile(((torch.ones(2),), {}))
