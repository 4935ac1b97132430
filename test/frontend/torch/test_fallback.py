"""Ops without code run in torch, between compiled pieces, and are named."""

import re

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

PLAIN = stepwell.Options(cache=False)


class Eigenvalues(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)


class Model(nn.Module):
    """Has an op without code between ops with code, one whose result's size depends on data, and a plain number."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.values = Eigenvalues()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x, factor=3):
        y = self.first(x).relu()
        z = self.last(y) * self.values(y.T @ y).abs().max() * factor
        self.total.add_(z.sum(0))
        return {"out": z, "positive": x[x > 0] * 2, "rows": x.shape[0]}


def assert_same(made, wanted):
    assert made.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(made[name], value, rtol=1e-4, atol=1e-5)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


def compiled(model, *arguments, **keywords):
    with pytest.warns(stepwell.FallbackWarning) as caught:
        run = stepwell.compile(model, arguments, **keywords)
    return run, [str(item.message) for item in caught]


def test_ops_without_code_run_in_torch(model):
    x = torch.randn(5, 4)
    wanted = model(x)
    total = model.total.clone()
    model.total.zero_()
    run, texts = compiled(model, x, options=PLAIN)
    assert_same(run(x), wanted)
    torch.testing.assert_close(model.total, total)
    (text,) = texts
    assert text.startswith("Model: 1 op runs in PyTorch between compiled pieces: ")
    assert re.search(r"aten\.linalg_eig\.default \(values\.linalg_eig at .*test_fallback\.py:\d+\)", text)
    assert [item.op_type for item in run.fallbacks] == ["aten.linalg_eig.default"]
    assert len(run.programs) >= 2


def test_sizes_vary_around_ops_of_torch(model):
    dims = {"x": {0: torch.export.Dim("rows", min=2, max=16)}}
    run = stepwell.compile(model, (torch.randn(5, 4),), dynamic_shapes=dims, options=PLAIN)
    with pytest.warns(stepwell.FallbackWarning, match=r"linalg_eig"):
        run(torch.randn(3, 4))
    count = len(run.programs)
    for rows in (2, 7, 16):
        x = torch.randn(rows, 4)
        assert_same(run(x), model(x))
    # Only the size that depends on data is new.
    assert len(run.programs) <= count + 2


def test_arrays_around_ops_of_torch(model):
    x = torch.randn(5, 4)
    run, _ = compiled(model, x, options=PLAIN)
    torch.testing.assert_close(torch.from_numpy(run(x.numpy())["out"]), model(x)["out"], rtol=1e-4, atol=1e-5)


def test_quiet_and_error(model):
    x = torch.randn(5, 4)
    run = stepwell.compile(model, (x,), options=stepwell.Options(cache=False, fallback="quiet"))
    assert len(run.fallbacks) == 1
    with pytest.raises(stepwell.ModelError, match=r"none may run in torch: node 'values\.linalg_eig'"):
        stepwell.compile(model, (x,), options=stepwell.Options(cache=False, fallback="error"))


def test_an_artefact_cannot_hold_ops_of_torch(model, tmp_path):
    run, _ = compiled(model, torch.randn(5, 4), options=PLAIN)
    with pytest.raises(stepwell.ArtefactError, match=r"linalg_eig\) runs in PyTorch"):
        run.save(tmp_path / "m.stw")


def test_the_second_compile_knows_the_ops_from_the_cache(model, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    x = torch.randn(5, 4)
    run, texts = compiled(model, x)
    again, same = compiled(model, x)
    assert texts == same
    assert all(program.compile_seconds == 0 for program in again.programs)
    torch.testing.assert_close(run(x)["out"], again(x)["out"])


def test_what_the_compiler_fails_at_runs_in_torch(model):
    def fail(phase, module, parameters):
        if phase == "kernels":
            raise stepwell.PassError("no such luck")

    x = torch.randn(5, 4)
    options = stepwell.Options(cache=False, reached=fail)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    with pytest.warns(stepwell.FallbackWarning, match="the compiler failed: .*no such luck"):
        run = stepwell.compile(network, (x,), options=options)
    with torch.no_grad():
        torch.testing.assert_close(run(x), network(x))
    assert not run.programs


def test_a_program_of_ops_of_torch_only():
    x = torch.randn(4, 4)
    run, _ = compiled(Eigenvalues(), x, options=PLAIN)
    torch.testing.assert_close(run(x), torch.linalg.eigvals(x))
    assert not run.programs


def test_a_check_finds_the_ops_that_run_in_torch(model):
    x = torch.randn(5, 4)
    run, _ = compiled(model, x, options=PLAIN)
    report = stepwell.check(model, args=(x,))
    assert [found.node for found in report.findings] == [found.node for found in run.fallbacks]
    assert len(report.findings) < report.nodes and not report.is_native
    assert stepwell.check(nn.Linear(4, 2), args=(x,), dynamic_shapes=({0: torch.export.Dim("rows")},)).is_native
    with pytest.raises(stepwell.ModelError, match=r"Linear: there is no input 'z'; there are input"):
        stepwell.check(nn.Linear(4, 2), {"z": (5, 4)}, args=(x,))
    with pytest.raises(stepwell.OptionError, match=r"args, kwargs and dynamic_shapes are for modules of torch"):
        stepwell.check(b"module {}", args=(x,))
