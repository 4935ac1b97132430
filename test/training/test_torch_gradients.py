"""Gradients and steps of modules, compared with PyTorch's. Most run on the interpreter, which needs no compile."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy

import numpy as np
import pytest
import stepwell
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.passes.differentiation.differentiate import GRADIENT
from stepwell.passes.ir.functions import main_function, value_names
from stepwell.training import SGD, AdamW, CrossEntropy
from stepwell.training.joint import make_joint
from stepwell.training.losses import MeanSquaredError
from stepwell.training.recipe import Recipe
from stepwell.training.trainable import Trainable

torch = pytest.importorskip("torch")
nn = torch.nn
from torch._higher_order_ops.scan import scan  # noqa: E402


class Attention(nn.Module):
    """An embedding, one layer of a transformer with causal attention, and scores of words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Parameter(torch.randn(5, 8))
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.mixed, self.up, self.down, self.head = (
            nn.Linear(*sizes) for sizes in ((8, 24), (8, 16), (16, 8), (8, 11))
        )

    def forward(self, words):
        x = self.words(words) + self.places
        query, key, value = (
            part.reshape(2, 5, 2, 4).transpose(1, 2) for part in self.mixed(self.first(x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(2, 5, 8)
        return self.head(x + self.down(nn.functional.gelu(self.up(self.second(x)))))


class Images(nn.Module):
    """Convolutions of all kinds, with norms of batches in training mode, pooling and interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.deep = nn.Conv2d(2, 4, 3, 2, 1, bias=False), nn.Conv2d(4, 4, 3, 1, 1, groups=4)
        self.batch, self.group = nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.back = nn.ConvTranspose2d(4, 2, 2, 2)

    def forward(self, x):
        h = torch.relu(self.batch(self.plain(x)))
        h = nn.functional.silu(self.group(self.deep(h)))
        pooled = nn.functional.max_pool2d(h, 3, 2, 1) + nn.functional.avg_pool2d(h, 2)
        return self.back(h) + nn.functional.interpolate(pooled, scale_factor=4, mode="bilinear").mean(1, keepdim=True)


class Sequence(nn.Module):
    """A recurrent layer in both directions; scores from the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(3, 4, batch_first=True, bidirectional=True), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Gated(Sequence):
    """The same with a layer that is a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True, bidirectional=True)


class Scanned(nn.Module):
    """A scan and a conditional, which are written out in eager mode."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.entered = nn.Parameter(torch.randn(4, 4) / 2), nn.Parameter(torch.randn(3, 4) / 2)

    def forward(self, x):
        def step(state, row):
            state = torch.tanh(state @ self.mixed + row @ self.entered)
            return state, state.exp()

        def chosen(rows):
            return torch.sin(rows @ self.mixed)

        first, steps = torch.ones(len(x), 4), x.transpose(0, 1).contiguous()
        if torch.compiler.is_exporting():
            last, rows = scan(step, first, steps)
            return last + torch.cond(x.sum() < 1e6, chosen, torch.cos, (rows.sum(0),))
        last, rows = first, []
        for row in steps:
            last, made = step(last, row)
            rows.append(made)
        return last + chosen(torch.stack(rows).sum(0))


def images() -> tuple:
    return torch.randn(2, 2, 8, 8), torch.randn(2, 2, 8, 8)


CASES = {
    "attention": (Attention, lambda: (torch.randint(0, 11, (2, 5)),) * 2, CrossEntropy(axis=-1)),
    "images": (Images, images, MeanSquaredError()),
    "sequence": (Sequence, lambda: (torch.randn(3, 4, 3), torch.randint(0, 5, (3,))), CrossEntropy()),
    "gated": (Gated, lambda: (torch.randn(3, 4, 3), torch.randint(0, 5, (3,))), CrossEntropy()),
    "scanned": (Scanned, lambda: (torch.randn(3, 4, 3), torch.randn(3, 4)), MeanSquaredError()),
}


def loss_of(output, target, loss):
    """The loss by torch."""
    if isinstance(loss, MeanSquaredError):
        return nn.functional.mse_loss(output, target)
    return nn.functional.cross_entropy(output.movedim(loss.axis, 1), target)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_those_of_autograd(name: str) -> None:
    torch.manual_seed(0)
    kind, batch, loss = CASES[name]
    module, (x, target) = kind().train(), batch()
    original = copy.deepcopy(module)
    model = Trainable.read(module, (x,), None, None)
    joint = make_joint(model, Recipe(loss), {info.name: tuple(x.shape) for info in model.inputs}, "cpu")
    context = ir.Context()
    load_dialects(context)
    program = ir.Module.parse(joint.text, context)
    main = main_function(program.operation)
    given = {**joint.state, **joint.fixed, model.inputs[0].name: x.numpy(), "target": target.numpy()}
    results = evaluate(program, "main", [given[name] for name in value_names(main, "arg_attrs", "input")], {})
    found = dict(zip(value_names(main, "res_attrs", "output"), results, strict=True))
    expected = loss_of(module(x), target, loss)
    expected.backward()
    assert float(found["loss"]) == pytest.approx(expected.item(), rel=1e-5)
    assert set(joint.trained) == {name for name, _ in module.named_parameters()}
    for parameter_name, parameter in module.named_parameters():
        scale = float(parameter.grad.abs().max()) + 1e-3
        np.testing.assert_allclose(
            found[f"{parameter_name}{GRADIENT}"], parameter.grad, rtol=1e-3, atol=1e-4 * scale, err_msg=parameter_name
        )
    for buffer_name, buffer in module.named_buffers():
        np.testing.assert_allclose(found[buffer_name], buffer, rtol=1e-4, err_msg=buffer_name)
    assert any(not torch.equal(a, b) for a, b in zip(module.buffers(), original.buffers(), strict=True)) == (
        name == "images"
    )


def test_compiled_gradients_of_convolutions_of_small_images_equal_those_of_autograd() -> None:
    torch.manual_seed(0)
    # Weights larger than the images, with and without a remainder of columns after the last panel.
    module = nn.Sequential(nn.Conv2d(4, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 37, 3, padding=1, bias=False))
    x, target = torch.randn(2, 4, 3, 3), torch.randn(2, 37, 3, 3)
    loss, gradients = stepwell.value_and_grad(module, (x,), loss="mse", threads=1)(x, target)
    expected = nn.functional.mse_loss(module(x), target)
    expected.backward()
    assert float(loss) == pytest.approx(expected.item(), rel=1e-5)
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(gradients[name], parameter.grad, rtol=1e-4, atol=1e-6, err_msg=name)


def test_steps_equal_those_of_torch() -> None:
    torch.manual_seed(0)
    # Without the bias, whose gradient is 0 but for rounding, which AdamW would scale up.
    convolution = nn.Conv2d(1, 4, 3, padding=1, bias=False)
    module = nn.Sequential(convolution, nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    x, labels = torch.randn(6, 1, 4, 4), torch.randint(0, 3, (6,))
    trainer = stepwell.trainer(
        copy.deepcopy(module).train(), (x,), loss="cross_entropy", optimizer=AdamW(0.01), clip_norm=0.5
    )
    optimizer = torch.optim.AdamW(module.parameters(), 0.01)
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        optimizer.step()
        assert trainer.step(x, labels) == pytest.approx(loss.item(), rel=1e-3, abs=1e-5)
    np.testing.assert_allclose(trainer.state["1.running_mean"], module[1].running_mean, rtol=1e-3, atol=1e-5)
    assert int(trainer.state["1.num_batches_tracked"]) == 30


class Dropping(nn.Module):
    """Dropout of elements and of attention; the weights leave elements as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(32))
        self.drop = nn.Dropout(0.25)

    def forward(self, x):
        values = x.reshape(4, 1, 64, 32)
        mixed = nn.functional.scaled_dot_product_attention(values * 0, values * 0, values, dropout_p=0.5)
        return self.drop(x * self.scale), mixed


@pytest.mark.sweep
def test_dropout_is_random_in_each_step_and_the_same_in_each_run() -> None:
    x, target = torch.ones(4, 64, 32), torch.zeros(4, 64, 32)
    runs = []
    for _ in range(2):
        function = stepwell.value_and_grad(Dropping().train(), (x,), loss="mse")
        steps = []
        for _ in range(2):
            loss, gradients = function(x, target)
            kept, mixed = (function.outputs[name] for name in ("output.0", "output.1"))
            assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
            assert np.mean(kept != 0) == pytest.approx(0.75, abs=0.02)
            assert loss == pytest.approx(np.mean(kept**2), rel=1e-5)
            # The gradient is of the elements that were kept.
            np.testing.assert_allclose(gradients["scale"], 2 * (kept**2).sum((0, 1)) / kept.size, rtol=1e-4)
            # Half of 64 equal weights are left, twice as large.
            assert mixed.mean() == pytest.approx(1, abs=0.1) and mixed.std() > 0.05
            steps.append(kept)
        assert np.mean((steps[0] == 0) & (steps[1] == 0)) == pytest.approx(0.0625, abs=0.02)
        runs.append(steps)
    np.testing.assert_array_equal(runs[0], runs[1])
    with pytest.warns(stepwell.FallbackWarning, match="at random"):
        stepwell.compile(Dropping().train(), (x,))


@pytest.mark.few(1)
@pytest.mark.parametrize("divide_loops", [True, False])
def test_a_step_through_a_long_scan_equals_that_of_torch(divide_loops: bool) -> None:
    torch.manual_seed(0)
    module, x, target = Scanned(), torch.randn(2, 40, 3), torch.randn(2, 4)
    trainer = stepwell.trainer(
        copy.deepcopy(module).train(), (x,), loss="mse", optimizer=SGD(0.1), divide_loops=divide_loops
    )
    loss = nn.functional.mse_loss(module(x), target)
    loss.backward()
    assert trainer.step(x, target) == pytest.approx(loss.item(), rel=1e-4)
    for name, parameter in module.named_parameters():
        expected = parameter.detach() - 0.1 * parameter.grad
        np.testing.assert_allclose(trainer.parameters[name], expected, rtol=1e-3, atol=1e-3)
