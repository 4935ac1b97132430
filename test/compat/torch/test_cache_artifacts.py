"""`torch.compiler.save_cache_artifacts` takes what the backend compiled to another machine's cache."""

import pytest
from stepwell.runtime.cache.cache import Cache

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.compat.torch import cache_artifacts  # noqa: E402
from torch.compiler._cache import CacheArtifactManager  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with CacheArtifactManager.with_fresh_cache():
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("freezing", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_another_cache_has_the_code(freezing, tmp_path, monkeypatch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).eval()
    x = torch.rand(2, 8)

    def run():
        with torch.no_grad():
            return torch.compile(model, backend="stepwell", options={"freezing": freezing})(x)

    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "one"))
    want = run()
    contents, info = torch.compiler.save_cache_artifacts()
    assert len(info.stepwell_artifacts) == len(set(info.stepwell_artifacts)) > 3
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "other"))
    torch._dynamo.reset()
    monkeypatch.setenv("STEPWELL_CACHE", "require")
    with pytest.raises(Exception, match="is not in the cache, but must be"):
        run()
    monkeypatch.delenv("STEPWELL_CACHE")
    loaded = torch.compiler.load_cache_artifacts(contents)
    assert sorted(loaded.stepwell_artifacts) == sorted(info.stepwell_artifacts)
    torch._dynamo.reset()
    monkeypatch.setenv("STEPWELL_CACHE", "require")
    torch.testing.assert_close(run(), want)


def test_facts_about_a_machine_stay_there(tmp_path):
    used = Cache(tmp_path)
    for kind in ("peaks", "machine", "checked", "files"):
        used.put(kind, "0" * 8, b"fast")
    used.put("kernels", "0" * 8, b"code")
    assert used.get("kernels", "0" * 8) == b"code"
    _, info = torch.compiler.save_cache_artifacts()
    assert info.stepwell_artifacts == ["kernels/00000000"]
    assert cache_artifacts.StepwellCacheArtifact.type() == "stepwell"
