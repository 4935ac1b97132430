"""Models of PyTorch whose training steps are measured, with the shapes of their batches."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
_WORDS = 4000


@dataclass(frozen=True)
class TrainingModel:
    """A model to be trained with cross entropy.

    Attributes:
        make: makes the module; classes are the second dimension of its output.
        shape: shape of a batch of float32 numbers; of word indices if `is_text`.
        labels: shape of the labels.
        is_text: whether the batch is text.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    labels: tuple[int, ...]
    is_text: bool = False

    def batch(self, rows: int | None = None) -> tuple[Any, Any]:
        """Returns a random batch and random labels, with a number of examples if one is given."""
        shape, labels = self.shape, self.labels
        if rows is not None:
            shape, labels = (rows, *shape[1:]), (rows, *labels[1:])
        x = torch.randint(_WORDS, shape) if self.is_text else torch.randn(shape)
        return x, torch.randint(CLASSES, labels)


def mlp() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))


def cnn() -> nn.Module:
    """Two convolutions with max pooling, for digits."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
    )


def _normed(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class _BasicBlock(nn.Module):
    """A residual block of two convolutions (https://arxiv.org/abs/1512.03385)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _normed(inputs, outputs, 3, stride), _normed(outputs, outputs, 3)
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if is_same else _normed(inputs, outputs, 1, stride)

    def forward(self, x: Any) -> Any:
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


def resnet18() -> nn.Module:
    """ResNet-18."""
    layers: list[nn.Module] = [_normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [_BasicBlock(inputs, outputs, 1 if outputs == 64 else 2), _BasicBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class _InvertedResidual(nn.Module):
    """Wide depthwise convolution between two narrow layers (https://arxiv.org/abs/1801.04381)."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inputs * factor
        widening = [_normed(inputs, wide, 1), nn.ReLU6()] if factor > 1 else []
        self.body = nn.Sequential(
            *widening, _normed(wide, wide, 3, stride, wide), nn.ReLU6(), _normed(wide, outputs, 1)
        )
        self.is_residual = inputs == outputs and stride == 1

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.is_residual else self.body(x)


def mobilenet() -> nn.Module:
    """MobileNet-v2."""
    layers: list[nn.Module] = [_normed(3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    stages = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    for factor, outputs, count, stride in stages:
        for index in range(count):
            layers.append(_InvertedResidual(inputs, outputs, stride if index == 0 else 1, factor))
            inputs = outputs
    layers += [_normed(inputs, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, CLASSES))


def _double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(_normed(inputs, outputs, 3), nn.ReLU(), _normed(outputs, outputs, 3), nn.ReLU())


class SmallUNet(nn.Module):
    """U-Net of three resolutions, with transposed convolutions (https://arxiv.org/abs/1505.04597)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.deepest = _double(3, 16), _double(16, 32), _double(32, 64)
        self.up_second, self.up_first = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.back_second, self.back_first = _double(64, 32), _double(32, 16)
        self.head = nn.Conv2d(16, CLASSES, 1)

    def forward(self, x: Any) -> Any:
        first = self.first(x)
        second = self.second(functional.max_pool2d(first, 2))
        deepest = self.deepest(functional.max_pool2d(second, 2))
        second = self.back_second(torch.cat([second, self.up_second(deepest)], 1))
        return self.head(self.back_first(torch.cat([first, self.up_first(second)], 1)))


class _TransformerBlock(nn.Module):
    """Attention and a feed-forward layer, each behind a norm, or before one if `is_post` (as in BERT)."""

    def __init__(self, width: int, heads: int, is_causal: bool = False, is_post: bool = False) -> None:
        super().__init__()
        self.heads, self.is_causal, self.is_post = heads, is_causal, is_post
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def _attention(self, x: Any) -> Any:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        made = functional.scaled_dot_product_attention(*split.unbind(0), is_causal=self.is_causal)
        return self.out(made.transpose(1, 2).reshape(batch, length, width))

    def _feed_forward(self, x: Any) -> Any:
        return self.narrow(functional.gelu(self.wide(x)))

    def forward(self, x: Any) -> Any:
        for norm, layer in zip(self.norms, (self._attention, self._feed_forward), strict=True):
            x = norm(x + layer(x)) if self.is_post else x + layer(norm(x))
        return x


class Transformer(nn.Module):
    """Embeddings of words or of patches of an image, blocks, and a linear head."""

    def __init__(self, width: int, heads: int, layers: int, length: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.embedding = nn.Conv2d(3, width, 16, 16) if kind == "image" else nn.Embedding(_WORDS, width)
        self.positions = nn.Parameter(torch.randn(length, width) / 50)
        blocks = [_TransformerBlock(width, heads, kind == "generator", kind == "encoder") for _ in range(layers)]
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        rows = self.embedding(x)
        if self.kind == "image":
            rows = rows.flatten(2).transpose(1, 2)
        rows = self.norm(self.blocks(rows + self.positions))
        if self.kind == "generator":
            return self.head(rows).transpose(1, 2)
        return self.head(rows.mean(1) if self.kind == "image" else rows[:, 0])


class Lstm(nn.Module):
    """LSTM of two layers over embedded words, and a linear head on the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, 128)
        self.layers = nn.LSTM(128, 128, 2, batch_first=True)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(self.embedding(x))[0][:, -1])


MODELS: dict[str, TrainingModel] = {
    "mlp": TrainingModel(mlp, (128, 784), (128,)),
    "cnn": TrainingModel(cnn, (64, 1, 28, 28), (64,)),
    "resnet-18": TrainingModel(resnet18, (8, 3, 96, 96), (8,)),
    "mobilenet-v2": TrainingModel(mobilenet, (8, 3, 96, 96), (8,)),
    "unet": TrainingModel(SmallUNet, (4, 3, 64, 64), (4, 64, 64)),
    "vit-tiny": TrainingModel(lambda: Transformer(192, 3, 12, 196, "image"), (4, 3, 224, 224), (4,)),
    "bert-mini": TrainingModel(lambda: Transformer(256, 4, 4, 128, "encoder"), (8, 128), (8,), is_text=True),
    "gpt2-mini": TrainingModel(lambda: Transformer(256, 4, 4, 128, "generator"), (8, 128), (8, 128), is_text=True),
    "lstm": TrainingModel(Lstm, (16, 32), (16,), is_text=True),
}
"""The models by name."""
