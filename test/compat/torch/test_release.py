"""Memory of weights that are constants of code: it is released, and the weights keep their values."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import stepwell  # noqa: E402
from stepwell.compat.torch.release import release, release_compiler  # noqa: E402

nn = torch.nn


def is_mapped(tensor):
    """Returns whether a file that has no name any more holds the contents."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(place, 16) for place in line.split()[0].split("-"))
        if first <= tensor.data_ptr() < last:
            return line.endswith("(deleted)")
    raise AssertionError("the tensor has no memory")


def test_contents_and_strides_stay():
    given = {
        "float": torch.randn(200, 100),
        "transposed": torch.randn(200, 100).T,
        "short": torch.randn(64, 1024).to(torch.bfloat16),
        "bytes": torch.randint(0, 255, (1 << 16,), dtype=torch.uint8),
    }
    copies = {name: (tensor.clone(), tensor.stride()) for name, tensor in given.items()}
    assert release(given.values()) == sum(tensor.numel() * tensor.element_size() for tensor in given.values())
    for name, tensor in given.items():
        contents, strides = copies[name]
        assert torch.equal(tensor, contents) and tensor.stride() == strides and is_mapped(tensor), name
    assert release(given.values()) == 0


def test_tensors_that_share_memory_and_small_ones_stay():
    whole = torch.randn(400, 100)
    given = [whole[:200], whole[200:], torch.randn(300, 100)[::2], torch.randn(8), whole]
    addresses = [tensor.data_ptr() for tensor in given]
    assert release(given) == 0
    assert [tensor.data_ptr() for tensor in given] == addresses


def test_a_tensor_given_twice_moves_once():
    tensor = torch.randn(200, 100)
    assert release([tensor, tensor]) == 80_000 and is_mapped(tensor)


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "file"))
    tensor = torch.randn(200, 100)
    with pytest.warns(stepwell.SlowWarning, match="weights stay in memory"):
        assert release([tensor]) == 0
    assert not is_mapped(tensor)


def test_frozen_weights_of_a_compiled_model():
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)).eval()
    x = torch.randn(3, 128)
    options = {"freezing": True, "release_weights": True}
    with torch.no_grad():
        wanted = model(x)
        run = torch.compile(model, backend="stepwell", options=options)
        torch.testing.assert_close(run(x), wanted)
        assert is_mapped(model[0].weight) and not is_mapped(model[0].bias)
        torch.testing.assert_close(model(x), wanted)
        assert "memory is released" in stepwell.torch_report().graphs[-1].note
        model[0].weight.mul_(2)
        with pytest.warns(stepwell.StepwellWarning, match="a frozen weight has changed"):
            torch.testing.assert_close(run(x), model(x))


def test_released_weights_must_be_constants():
    with pytest.raises(Exception, match="release_weights needs freezing"):
        torch.compile(nn.Linear(2, 2), backend="stepwell", options={"release_weights": True})(torch.ones(1, 2))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what is in memory")
def test_the_compiler_leaves_memory_and_compiles_again():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    x = torch.randn(3, 8)
    stepwell.compile(nn.Linear(8, 4), (x,))
    full = resident()
    assert release_compiler() > 20 << 20
    assert full - resident() > 20 << 20
    model = nn.Linear(8, 5)
    with torch.no_grad():
        torch.testing.assert_close(stepwell.compile(model, (x,))(x), model(x))
