"""Whole modules: compiled ones compute what torch computes, on tensors and on arrays, at all sizes."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.utils import _pytree as pytree  # noqa: E402

from .modules import Counter, Decoder, Encoder, ResNet, examples  # noqa: E402

PLAIN = stepwell.Options(cache=False)
NAMES = [
    "perceptron",
    "residual network",
    "mobile block",
    "encoder",
    "decoder",
    "LSTM",
    "GRU",
    "RNN",
    "resampling",
]


def assert_close(made, wanted):
    made, structure = pytree.tree_flatten(made)
    wanted, expected = pytree.tree_flatten(wanted)
    assert structure == expected
    for own, other in zip(made, wanted, strict=True):
        assert own.dtype == other.dtype
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)


def ids(*shape):
    return torch.randint(0, 99, shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_module_computes_what_torch_does(name):
    module, arguments = examples()[name]
    module.eval()
    run = stepwell.compile(module, arguments, options=PLAIN)
    with torch.no_grad():
        assert_close(run(*arguments), module(*arguments))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_an_lstm_that_projects_its_states(bias):
    module = torch.nn.LSTM(4, 6, 2, bias=bias, proj_size=3, bidirectional=True, batch_first=True).eval()
    x = torch.randn(2, 5, 4)
    run = stepwell.compile(module, (x,), options=stepwell.Options(cache=False, fallback="error"))
    with torch.no_grad():
        assert_close(run(x), module(x))


def test_a_second_process_does_not_decompose(tmp_path, monkeypatch):
    from stepwell.frontend.torch import live

    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("STEPWELL_CACHE", "1")
    module, arguments = Counter(), (torch.ones(3, 2), 3.0)
    again = copy.deepcopy(module)
    wanted = stepwell.compile(module, arguments)(*arguments)
    monkeypatch.setattr(live, "decomposed", None)
    run = stepwell.compile(again, arguments)
    assert_close(run(*arguments), wanted)
    assert_close(again.total, module.total)
    with pytest.raises(stepwell.InputError, match=r"argument 'scale' was 3\.0"):
        run(arguments[0], 4.0)


def test_every_example_is_tested():
    assert list(examples()) == NAMES


@pytest.mark.sweep
def test_sizes_without_a_maximum_are_compiled_when_they_occur():
    module = Decoder().eval()
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=64)
    run = stepwell.compile(module, (ids(2, 7),), dynamic_shapes=({0: batch, 1: length},), options=PLAIN)
    assert [info.shape for info in run.inputs] == [("batch", "length")]
    with torch.no_grad():
        for shape in ((2, 7), (3, 11)):
            assert_close(run(ids(*shape)), module(ids(*shape)))
    assert len(run.programs) == 2


@pytest.mark.sweep
def test_bounded_sizes_are_compiled_at_once():
    module = Encoder().eval()
    batch, length = torch.export.Dim("batch", min=1, max=4), torch.export.Dim("length", min=2, max=24)
    dims = {0: batch, 1: length}
    example = {"ids": ids(2, 7), "mask": torch.ones(2, 7, dtype=torch.int64)}
    run = stepwell.compile(module, kwargs=example, dynamic_shapes={"ids": dims, "mask": dims}, options=PLAIN)
    assert not run.unranged
    count = len(run.programs)
    with torch.no_grad():
        for shape in ((2, 7), (3, 11), (1, 24), (4, 2)):
            given = {"mask": torch.ones(shape, dtype=torch.int64).tril(5), "ids": ids(*shape)}
            assert_close(run(**given), module(**given))
    assert len(run.programs) == count
    with pytest.raises(stepwell.InputError, match="length must be from 2 to 24, but is 30"):
        run(ids=ids(2, 30), mask=torch.ones(2, 30, dtype=torch.int64))


@pytest.mark.sweep
def test_sizes_of_an_image_batch():
    module = ResNet().eval()
    dims = ({0: torch.export.Dim("batch", min=1, max=4)},)
    run = stepwell.compile(module, (torch.randn(2, 3, 32, 32),), dynamic_shapes=dims, options=PLAIN)
    with torch.no_grad():
        for count in (1, 3):
            image = torch.randn(count, 3, 32, 32)
            assert_close(run(image), module(image))


class Doubled(torch.nn.Module):
    def forward(self, x, y):
        return x + y[::2], y.shape[0]


def test_a_size_may_only_appear_in_an_expression():
    half = torch.export.Dim("half", min=2, max=8)
    example = (torch.randn(3), torch.randn(6))
    module = Doubled()
    run = stepwell.compile(module, example, dynamic_shapes=({0: half}, {0: 2 * half}), options=PLAIN)
    given = torch.randn(5), torch.randn(10)
    made, count = run(*given)
    torch.testing.assert_close(made, module(*given)[0])
    assert count == 10
    assert type(count) is int


def test_arrays_may_stand_for_tensors():
    module, (x,) = examples()["perceptron"]
    run = stepwell.compile(module.eval(), (x,), options=PLAIN)
    made = run(x.numpy())
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(made, run(x).numpy())


def test_inputs_with_gradients_and_strides():
    module, (x,) = examples()["perceptron"]
    run = stepwell.compile(module.eval(), (x,), options=PLAIN)
    given = torch.randn(16, 4, requires_grad=True).t()
    with torch.no_grad():
        assert_close(run(given), module(given))


def test_state_is_changed_in_the_module():
    module = Counter()
    other = copy.deepcopy(module)
    run = stepwell.compile(module, (torch.randn(3, 2),), {"scale": 3.0}, options=PLAIN)
    with torch.no_grad():
        for seed in range(3):
            x = torch.randn(3, 2, generator=torch.Generator().manual_seed(seed))
            assert_close(run(x, scale=3.0), other(x, 3.0))
            assert_close(module.total, other.total)


class Halved(torch.nn.Module):
    """Changes its argument."""

    def forward(self, x):
        x.mul_(0.5)
        return x + 1


def test_an_argument_is_changed_in_place():
    run = stepwell.compile(Halved(), (torch.ones(4),), options=PLAIN)
    x = torch.full((4,), 6.0)
    assert_close(run(x), torch.full((4,), 4.0))
    assert_close(x, torch.full((4,), 3.0))


def test_constants_are_checked():
    run = stepwell.compile(Counter(), (torch.randn(3, 2),), {"scale": 3.0}, options=PLAIN)
    with pytest.raises(stepwell.InputError, match=r"argument 'scale' was 3.0 .* and cannot be 2.0"):
        run(torch.randn(3, 2), scale=2.0)


def test_the_structure_of_arguments_is_checked():
    run = stepwell.compile(Counter(), (torch.randn(3, 2),), options=PLAIN)
    with pytest.raises(stepwell.InputError, match="not structured as those that it was exported with"):
        run([torch.randn(3, 2)])


def test_a_file_is_a_model(tmp_path):
    module, arguments = examples()["encoder"]
    dims = {0: torch.export.Dim("batch")}
    torch.export.save(torch.export.export(module.eval(), arguments, dynamic_shapes=(dims, dims)), tmp_path / "m.pt2")
    run = stepwell.compile(tmp_path / "m.pt2", options=PLAIN)
    assert [info.name for info in (*run.inputs, *run.outputs)] == ["ids", "mask", "logits", "pooled"]
    with torch.no_grad():
        wanted = module(*arguments)
    made = run(*arguments)
    np.testing.assert_allclose(made[0], wanted["logits"], rtol=1e-4, atol=1e-4)
    assert_close(stepwell.compile(torch.export.load(tmp_path / "m.pt2"), options=PLAIN)(*arguments), wanted)


def test_an_artefact_runs_without_torch(tmp_path):
    module, (x,) = examples()["perceptron"]
    run = stepwell.compile(module.eval(), (x,), options=PLAIN)
    run.save(tmp_path / "m.stw")
    np.save(tmp_path / "x.npy", x.numpy())
    program = f"""
import sys
sys.modules["torch"] = None
import numpy as np, stepwell
np.save(r"{tmp_path}/y.npy", stepwell.load(r"{tmp_path}/m.stw")(np.load(r"{tmp_path}/x.npy")))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), run(x).numpy())


def test_weights_are_shared_with_torch():
    from stepwell.frontend.torch.live import LiveProgram

    module, arguments = examples()["decoder"]
    live = LiveProgram.of(module.eval(), arguments)
    from mlir import ir

    parameters = live.import_into(ir.Context(), {}).parameters
    assert "words.weight" in parameters
    assert "head.weight" not in parameters  # the same memory
    for name, array in parameters.items():
        assert array.__array_interface__["data"][0] == module.get_parameter(name).data_ptr()


def test_a_second_compile_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    module, arguments = examples()["perceptron"]
    module.eval()
    first = stepwell.compile(module, arguments)
    again = stepwell.compile(module, arguments, options=stepwell.Options(cache="require"))
    assert_close(again(*arguments), first(*arguments))
    with torch.no_grad():
        module[0].weight.add_(1)
    with pytest.raises(stepwell.CacheMissError):
        stepwell.compile(module, arguments, options=stepwell.Options(cache="require"))
