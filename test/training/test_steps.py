"""Steps of optimisers: micro-batches, reduced precision, groups of parameters, schedules, and checkpoints."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import stepwell
from stepwell.training import SGD, AdamW, Cosine, CrossEntropy, Decay, Group, Linear, LossScale

from .models import mlp

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((12, 6), np.float32)
LABELS = RANDOM.integers(0, 4, 12)


def trained(steps: int = 3, parts: int = 1, **options: Any) -> stepwell.Trainer:
    """A trainer after some steps with all data, each in micro-batches of equal size."""
    trainer = stepwell.trainer(mlp(), accumulate=parts, **{"loss": "cross_entropy", **options})
    for _ in range(steps):
        for x, labels in zip(np.split(X, parts), np.split(LABELS, parts), strict=True):
            trainer.step(x, labels)
    return trainer


def same(first: stepwell.Trainer, second: stepwell.Trainer, rtol: float = 1e-4, atol: float = 1e-6) -> None:
    for name, array in first.parameters.items():
        np.testing.assert_allclose(array, second.parameters[name], rtol, atol, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": SGD(0.1, momentum=0.9), "clip_norm": 0.5},
        pytest.param({"optimizer": SGD(0.1), "loss": CrossEntropy(reduction="sum")}, marks=pytest.mark.sweep),
    ],
    ids=["mean", "sum"],
)
def test_micro_batches_equal_one_batch(options: dict[str, Any]) -> None:
    whole, parts = trained(**options), trained(parts=3, **options)
    assert whole.steps == parts.steps == 3
    same(whole, parts)


def test_micro_batches_count_by_their_labels() -> None:
    labels = np.where(np.arange(12) % 5 == 1, -100, LABELS)
    whole = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=SGD(0.1))
    loss = whole.step(X, labels)
    parts = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=SGD(0.1), accumulate=9)
    first = parts.step(X[:8], labels[:8])
    before = {name: array.copy() for name, array in parts.parameters.items()}
    second = parts.step(X[8:], labels[8:])
    for name, array in before.items():
        np.testing.assert_array_equal(parts.parameters[name], array)
    counts = [np.sum(labels[:8] >= 0), np.sum(labels[8:] >= 0)]
    assert np.average([first, second], weights=counts) == pytest.approx(loss, rel=1e-5)
    assert parts.steps == 0
    # The data ended before the step did.
    assert parts.flush() and not parts.flush()
    assert parts.steps == 1
    same(whole, parts)


def test_micro_batches_without_labels_add_nothing() -> None:
    trainer, labels = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=SGD(0.1), accumulate=2), LABELS[:4]
    trainer.step(X[:4], labels)
    assert np.isnan(trainer.step(X[:4], np.full(4, -100)))
    whole = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=SGD(0.1))
    whole.step(X[:4], labels)
    same(whole, trainer)


def test_accumulation_goes_on_from_an_artefact(tmp_path) -> None:
    trainer = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=AdamW(0.01), accumulate=2)
    for index in range(3):
        trainer.step(X[index * 4 : index * 4 + 4], LABELS[index * 4 : index * 4 + 4])
    trainer.save(tmp_path / "step.stw")
    loaded = stepwell.Trainer.load(tmp_path / "step.stw")
    assert loaded.accumulate == 2 and loaded.steps == 1
    assert loaded.step(X[:4], LABELS[:4]) == trainer.step(X[:4], LABELS[:4])
    assert loaded.steps == 2
    for name, array in trainer.state.items():
        np.testing.assert_array_equal(loaded.state[name], array, err_msg=name)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("f16", marks=pytest.mark.sweep)])
def test_narrow_products_train_as_wide_ones(precision: str) -> None:
    rates = {"optimizer": AdamW(0.02), "steps": 20}
    narrow, wide = trained(precision=precision, **rates), trained(**rates)
    assert {array.dtype for array in narrow.parameters.values()} == {np.dtype(np.float32)}
    found, expected = narrow.step(X, LABELS), wide.step(X, LABELS)
    assert found == pytest.approx(expected, rel=0.05)
    assert found != expected
    assert narrow.skipped == 0
    assert narrow.loss_scale == (65536 if precision == "f16" else 1)


def test_steps_whose_gradients_overflow_are_left_out() -> None:
    scaling = LossScale(initial=2.0**40, backoff=2.0**-8, growth=4.0, interval=3)
    trainer = stepwell.trainer(
        mlp(), loss="cross_entropy", optimizer=AdamW(0.02), precision="f16", loss_scale=scaling, clip_norm=1.0
    )
    plain = stepwell.trainer(mlp(), loss="cross_entropy", optimizer=AdamW(0.02), clip_norm=1.0)
    scales, skipped = [], 0
    for _ in range(12):
        trainer.step(X, LABELS)
        scales.append(trainer.loss_scale)
        if trainer.skipped == skipped:
            plain.step(X, LABELS)
        skipped = trainer.skipped
    assert scales[0] == 2.0**32 and skipped >= 2
    # The scale grew once three steps in a row had finite gradients.
    assert any(after == 4 * before for before, after in itertools.pairwise(scales))
    assert trainer.steps == plain.steps == 12 - skipped
    same(trainer, plain, rtol=0.02, atol=0.01)


def test_scaled_losses_equal_those_of_grad_scaler() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 2)
    data = [torch.randn(3, 4) * factor for factor in (1, 1, 1e30, 1, 1, 1, 1e30, 1e30, 1)]
    target = torch.zeros(3, 2)
    trainer = stepwell.trainer(
        copy.deepcopy(module),
        (data[0],),
        loss="mse",
        optimizer=SGD(0.1, momentum=0.9),
        loss_scale=LossScale(initial=1024.0, interval=2),
        precision="f32",
    )
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for x in data:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(module(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert trainer.step(x, target) == pytest.approx(loss.item(), rel=1e-5)
        assert trainer.loss_scale == scaler.get_scale()
    assert trainer.skipped == 3
    np.testing.assert_allclose(trainer.parameters["weight"], module.weight.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.sweep
def test_micro_batches_of_a_scaled_loss_are_left_out_together() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module, target = torch.nn.Linear(4, 2), torch.zeros(3, 2)
    data = [torch.randn(3, 4) * factor for factor in (1, 1, 1, 1e30, 1e30, 1, 1, 1)]
    trainer = stepwell.trainer(
        copy.deepcopy(module),
        (data[0],),
        loss="mse",
        optimizer=AdamW(0.05),
        clip_norm=0.5,
        accumulate=2,
        loss_scale=LossScale(1024.0, interval=2),
    )
    optimizer = torch.optim.AdamW(module.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for number, x in enumerate(data):
        scaler.scale(torch.nn.functional.mse_loss(module(x), target) / 2).backward()
        trainer.step(x, target)
        if number % 2:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            assert trainer.loss_scale == scaler.get_scale()
    assert (trainer.steps, trainer.skipped) == (2, 2)
    np.testing.assert_allclose(trainer.parameters["weight"], module.weight.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.sweep
def test_a_loss_with_its_own_gradient_is_scaled_and_accumulated() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module, x = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.LogSoftmax(-1)), torch.randn(9, 4, 5)
    targets = torch.randint(1, 6, (4, 3)), torch.tensor([9, 8, 7, 9]), torch.tensor([3, 1, 2, 3])

    def make(rows: int, **options: Any) -> stepwell.Trainer:
        return stepwell.trainer(
            copy.deepcopy(module), (x[:, :rows],), loss="ctc", optimizer=SGD(0.5, momentum=0.9), **options
        )

    whole, parts = make(4), make(2, accumulate=2, loss_scale=LossScale(256.0))
    for _ in range(3):
        whole.step(x, *targets)
        for rows in (slice(0, 2), slice(2, 4)):
            parts.step(x[:, rows], *(item[rows] for item in targets))
    same(whole, parts)


def test_groups_and_schedules_equal_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    x, labels = torch.from_numpy(X), torch.from_numpy(LABELS)
    trainer = stepwell.trainer(
        copy.deepcopy(module),
        (x,),
        loss="cross_entropy",
        optimizer=AdamW(0.02, weight_decay=0.1),
        groups=[Group(AdamW(0.01, weight_decay=0.1), "3.weight"), Group(AdamW(0.02, weight_decay=0), max_rank=1)],
        schedule=Cosine(steps=20, warmup=5),
    )
    vectors = [item for item in module.parameters() if item.ndim == 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": [module[0].weight], "lr": 0.02, "weight_decay": 0.1},
            {"params": [module[3].weight], "lr": 0.01, "weight_decay": 0.1},
            {"params": vectors, "lr": 0.02, "weight_decay": 0},
        ]
    )

    def factor(step: int) -> float:
        return step / 5 if step < 5 else 0.5 * (1 + np.cos(np.pi * (step - 5) / 15))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        assert trainer.step(x, labels) == pytest.approx(loss.item(), rel=1e-4)
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(trainer.parameters[name], parameter.detach(), rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("schedule", [Decay(2, 0.5), Linear(4, warmup=1, final=0.25), Cosine(3, final=0.1)], ids=str)
def test_factors_of_schedules(schedule: Any) -> None:
    expected = {
        Decay: [1, 1, 0.5, 0.5, 0.25, 0.25],
        Linear: [0, 1, 0.75, 0.5, 0.25, 0.25],
        Cosine: [1, 0.775, 0.325, 0.1, 0.1, 0.1],
    }[type(schedule)]
    from mlir import ir
    from stepwell.dialects.interpreter import evaluate
    from stepwell.dialects.registry import load_dialects
    from stepwell.dialects.types import TensorSpec
    from stepwell.training.mains import Main

    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        module, main = Main.empty()
        step = main.argument("step", TensorSpec((), np.dtype(np.float64)))
        with ir.InsertionPoint(main.last):
            factor = schedule.factor(step)
        main.give({"factor": factor})
        found = [evaluate(module, "main", [np.array(float(index))], {})[0] for index in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_checkpoint_continues_bit_by_bit(tmp_path) -> None:
    def make() -> stepwell.Trainer:
        return stepwell.trainer(
            mlp(), loss=CrossEntropy(label_smoothing=0.1), optimizer=AdamW(0.02), schedule=Linear(20), precision="bf16"
        )

    trainer = make()
    for _ in range(3):
        trainer.step(X, LABELS)
    trainer.learning_rate = 0.01
    trainer.save_weights(tmp_path / "checkpoint.safetensors", everything=True)
    other = make()
    # Before the first step, which compiles.
    other.load_weights(tmp_path / "checkpoint.safetensors")
    for _ in range(3):
        assert other.step(X, LABELS) == trainer.step(X, LABELS)
    for name, array in trainer.state.items():
        np.testing.assert_array_equal(other.state[name], array, err_msg=name)
    from safetensors.numpy import load_file

    stored = load_file(tmp_path / "checkpoint.safetensors")
    assert set(stored) == set(trainer.state)
    wrong = make()
    wrong.restore({"w7": X})
    with pytest.raises(stepwell.InputError, match="the trainer has no state 'w7'"):
        wrong.step(X, LABELS)


def test_errors_name_the_argument() -> None:
    def error(**options: Any) -> str:
        with pytest.raises(stepwell.OptionError) as caught:
            stepwell.trainer(mlp(), **{"loss": "cross_entropy", **options}).step(X, LABELS)
        return str(caught.value)

    assert error(accumulate=0) == "accumulate must be a number of 1 or more, but is 0"
    assert "precision is 'f8', and must be one of" in error(precision="f8")
    assert "precision is 'bf16', but options.precision is 'f16'" in error(
        precision="bf16", options={"precision": "f16"}
    )
    assert "no parameter matches 'head.*'" in error(groups=[Group(SGD(), "head.*")])
    assert "must have a learning rate" in error(optimizer=SGD(0.0), groups=[Group(SGD(0.1), "b*")])
    for make in (lambda: LossScale(backoff=2), lambda: Cosine(5, warmup=5), lambda: Decay(0)):
        with pytest.raises(stepwell.OptionError):
            make()
    with pytest.raises(stepwell.OptionError, match="has the shape"):
        stepwell.trainer(mlp(), loss=None, accumulate=2).step(X)
