"""ResNet-50 in torch with arbitrary weights, which do not affect the time."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
_GROWTH = 4


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, and a residual."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = _GROWTH * width
        self.body = nn.Sequential(
            *_convolution(inputs, width, 1, stride), nn.ReLU(), *_convolution(width, width, 3, 1), nn.ReLU(),
            *_convolution(width, outputs, 1, 1),
        )  # fmt: skip
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if is_same else nn.Sequential(*_convolution(inputs, outputs, 1, stride))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Maps [n, c, h, w] to the same shape, or to half the size with more channels."""
        return torch.relu(self.body(value) + self.shortcut(value))


def make() -> nn.Module:
    """Creates the model, for inference: [n, 3, 224, 224] to [n, 1000]."""
    parts = [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in _STAGES:
        for number in range(count):
            parts.append(Bottleneck(inputs, width, stride if number == 0 else 1))
            inputs = _GROWTH * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000), nn.Softmax(-1)).eval()


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]
