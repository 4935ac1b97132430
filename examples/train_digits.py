"""Trains a small convolutional network on digits that this script draws, until it reads new ones.

python examples/train_digits.py [--seconds 40] [--plot loss.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn
from stepwell.training import AdamW, with_weights

SIZE, BATCH, BATCHES, ROUNDS, TESTS = 20, 64, 60, 6, 16
STROKES = {
    0: [(0.5, 0.1, 0.8, 0.3, 0.8, 0.7, 0.5, 0.9, 0.2, 0.7, 0.2, 0.3, 0.5, 0.1)],
    1: [(0.3, 0.3, 0.55, 0.1, 0.55, 0.9)],
    2: [(0.2, 0.3, 0.4, 0.1, 0.7, 0.15, 0.75, 0.4, 0.2, 0.9, 0.8, 0.9)],
    3: [(0.2, 0.15, 0.7, 0.1, 0.75, 0.35, 0.45, 0.48, 0.8, 0.65, 0.7, 0.9, 0.2, 0.85)],
    4: [(0.6, 0.9, 0.6, 0.1, 0.2, 0.65, 0.85, 0.65)],
    5: [(0.75, 0.1, 0.3, 0.1, 0.25, 0.45, 0.65, 0.42, 0.78, 0.65, 0.65, 0.9, 0.2, 0.85)],
    6: [(0.7, 0.1, 0.35, 0.35, 0.22, 0.7, 0.45, 0.9, 0.72, 0.78, 0.7, 0.55, 0.25, 0.6)],
    7: [(0.2, 0.1, 0.8, 0.1, 0.4, 0.9), (0.3, 0.5, 0.7, 0.5)],
    8: [(0.5, 0.48, 0.25, 0.3, 0.5, 0.1, 0.75, 0.3, 0.5, 0.48, 0.22, 0.7, 0.5, 0.9, 0.78, 0.7, 0.5, 0.48)],
    9: [(0.75, 0.4, 0.45, 0.5, 0.28, 0.3, 0.5, 0.1, 0.75, 0.3, 0.7, 0.6, 0.5, 0.9)],
}
"""The points x, y of each line of a digit, in a square of size 1."""


def draw(digit: int, random: np.random.Generator) -> np.ndarray:
    """Returns an image [SIZE, SIZE] of a digit, turned, stretched, moved, and with noise."""
    angle, sheer = random.normal(0, 0.12), random.normal(0, 0.15)
    stretch = random.uniform(0.7, 1.0, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ [[1, sheer], [0, 1]]
    rows, columns = np.mgrid[:SIZE, :SIZE]
    pixels = np.stack([columns, rows], -1).reshape(-1, 1, 2) / (SIZE - 1)
    distance = np.full(SIZE * SIZE, np.inf)
    centre = 0.5 + random.normal(0, 0.05, 2)
    for line in STROKES[digit]:
        points = np.array(line).reshape(-1, 2) + random.normal(0, 0.02, (len(line) // 2, 2))
        points = ((points - 0.5) * stretch) @ turn.T + centre
        start, along = points[:-1], np.diff(points, axis=0)
        place = np.clip(((pixels - start) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
        nearest = start + place[..., None] * along
        distance = np.minimum(distance, np.sqrt(((pixels - nearest) ** 2).sum(-1)).min(1))
    ink = np.clip(1.5 - distance / random.uniform(0.03, 0.06), 0, 1).reshape(SIZE, SIZE)
    return np.clip(ink + random.normal(0, 0.1, ink.shape), 0, 1)


def drawn(count: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields batches of images [BATCH, 1, SIZE, SIZE] with their digits."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        digits = random.integers(0, 10, BATCH)
        images = np.stack([draw(int(digit), random) for digit in digits])
        yield images[:, None].astype(np.float32), digits


def network(seed: int = 0) -> onnx.ModelProto:
    """Returns a network with random weights: two convolutions, two dense layers."""
    random = np.random.default_rng(seed)
    weights = []

    def weight(name: str, *shape: int) -> str:
        spread = np.sqrt(2 / max(np.prod(shape[1:]), 1))
        array = random.normal(0, spread, shape) if len(shape) > 1 else np.zeros(shape)
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    flat = 32 * (SIZE // 4) ** 2
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", weight("w1", 16, 1, 3, 3), weight("b1", 16)], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], **pool),
        helper.make_node("Conv", ["p1", weight("w2", 32, 16, 3, 3), weight("b2", 32)], ["c2"], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p2"], **pool),
        helper.make_node("Flatten", ["p2"], ["flat"]),
        helper.make_node("Gemm", ["flat", weight("w3", 64, flat), weight("b3", 64)], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r3"]),
        helper.make_node("Gemm", ["r3", weight("w4", 10, 64), weight("b4", 10)], ["scores"], transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, SIZE, SIZE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "digits", [image], [scores], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def train(trainer: stepwell.Trainer, seconds: float, console: Console) -> list[float]:
    """Draws digits and trains on them, for at most some seconds; returns the losses."""
    losses, recent = [], 1.0
    started = time.perf_counter()
    columns = ("{task.description}", BarColumn(), "{task.fields[note]}", TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("drawing", total=BATCHES, note="")
        batches = []
        for batch in drawn(BATCHES, seed=1):
            batches.append(batch)
            progress.update(task, advance=1, note=f"{len(batches) * BATCH} digits")
        task = progress.add_task("training", total=ROUNDS * BATCHES, note="")
        for images, digits in batches * ROUNDS:
            losses.append(trainer.step(images, digits))
            read = np.mean(trainer.outputs["scores"].argmax(1) == digits)
            recent += 0.05 * (losses[-1] - recent)
            progress.update(task, advance=1, note=f"loss {recent:.3f}, {read:.0%} of the batch read")
            if time.perf_counter() - started > seconds:
                break
    return losses


def plot(losses: list[float], path: Path) -> None:
    """Draws the losses of all steps to an image."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    axes.plot(losses, color="#9fc5d8", linewidth=0.8, label="batch")
    window = max(1, min(25, len(losses) // 4))
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    axes.plot(np.arange(len(smooth)) + window - 1, smooth, color="#27506b", label=f"mean of {window}")
    axes.set(xlabel="step", ylabel="loss", yscale="log", title="Digits")
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Trains, tests on new digits, and returns 0 if more than 97 % of them were read."""
    parser = argparse.ArgumentParser(description="Trains a network on drawn digits.")
    parser.add_argument("--seconds", type=float, default=40, help="maximum time of the training (default: 40)")
    parser.add_argument("--plot", type=Path, help="draws the losses to this image; needs matplotlib")
    chosen = parser.parse_args(arguments)
    console = Console()
    model = network()
    trainer = stepwell.trainer(model, loss="cross_entropy", optimizer=AdamW(rate=2e-3))
    with console.status("compiling forward pass, backward pass and optimiser"):
        started = time.perf_counter()
        trainer.prepare({"image": (BATCH, 1, SIZE, SIZE), "target": (BATCH,)})
    console.print(f"compiled in {time.perf_counter() - started:.1f} s")
    losses = train(trainer, chosen.seconds, console)
    reader = stepwell.compile(with_weights(model, trainer.parameters))
    right = float(np.mean([reader(images).argmax(1) == digits for images, digits in drawn(TESTS, seed=2)]))
    console.print(f"{len(losses)} steps; the trained model reads {right:.1%} of {TESTS * BATCH} new digits")
    if chosen.plot is not None:
        plot(losses, chosen.plot)
        console.print(f"losses: {chosen.plot}")
    return 0 if right > 0.97 else 1


if __name__ == "__main__":
    raise SystemExit(main())
