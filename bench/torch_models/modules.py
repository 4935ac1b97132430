"""Networks of common classes as plain modules of torch, with random weights, for inference."""

# pyright: reportMissingImports=false
from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional


class Inverted(nn.Module):
    """Expansion, depthwise convolution, projection, and a residual if shapes allow it."""

    def __init__(self, source: int, target: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = source * factor
        self.body = nn.Sequential(
            *(_normed(source, wide, 1) if factor > 1 else ()),
            *_normed(wide, wide, 3, stride, groups=wide),
            *_normed(wide, target, 1)[:-1],
        )
        self.is_residual = stride == 1 and source == target

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, source, h, w] to [n, target, h / stride, w / stride]."""
        return x + self.body(x) if self.is_residual else self.body(x)


def mobilenet() -> nn.Module:
    """Creates MobileNet V2: [n, 3, 224, 224] to [n, 1000]."""
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    parts, source = _normed(3, 32, 3, 2), 32
    for factor, target, repeats, stride in rows:
        for number in range(repeats):
            parts.append(Inverted(source, target, stride if number == 0 else 1, factor))
            source = target
    return nn.Sequential(*parts, *_normed(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def _normed(source: int, target: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(source, target, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(target), nn.ReLU6()]


class UNet(nn.Module):
    """Four levels of pairs of convolutions: down by pooling, up by resizing, with skip connections."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        sizes = [width << level for level in range(4)]
        self.down = nn.ModuleList(_pair(source, size) for source, size in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(_pair(3 * size, size) for size in reversed(sizes[:-1]))
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, 3, h, w] to [n, 2, h, w]."""
        kept = []
        for level in self.down:
            x = level(functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for level, skip in zip(self.up, reversed(kept[:-1]), strict=True):
            x = functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
            x = level(torch.cat((x, skip), 1))
        return self.last(x)


def _pair(source: int, target: int) -> nn.Module:
    parts: list[nn.Module] = []
    for size in (source, target):
        parts += [nn.Conv2d(size, target, 3, padding=1), nn.GroupNorm(8, target), nn.SiLU()]
    return nn.Sequential(*parts)


class Tagger(nn.Module):
    """Embeddings, a bidirectional LSTM of two layers, and classes of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 128)
        self.lstm = nn.LSTM(128, 192, 2, batch_first=True, bidirectional=True)
        self.classes = nn.Linear(384, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Maps [n, length] to [n, length, 50]."""
        return self.classes(self.lstm(self.words(ids))[0]).log_softmax(-1)


class Conformer(nn.Module):
    """One block: two half feed-forward layers, attention, and a convolution module between them."""

    def __init__(self, width: int = 144, heads: int = 4, kernel: int = 31) -> None:
        super().__init__()
        self.first, self.second = _feed_forward(width), _feed_forward(width)
        self.norm, self.norm_conv, self.last = (nn.LayerNorm(width) for _ in range(3))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.inner = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width), nn.BatchNorm1d(width), nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, length, width] to the same shape."""
        x = x + 0.5 * self.first(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.inner(self.norm_conv(x).transpose(1, 2)).transpose(1, 2)
        return self.last(x + 0.5 * self.second(x))


def _feed_forward(width: int) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))


class Recommender(nn.Module):
    """Embeddings of 8 categories, dense features, their products in pairs, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, 32) for _ in range(8))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(32 + 81, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """Maps features [n, 13] and categories [n, 8] to [n, 1]."""
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(categories[:, place]) for place, table in enumerate(self.tables))], 1)
        return self.top(torch.cat((x, torch.bmm(rows, rows.transpose(1, 2)).flatten(1)), 1))


class Scales(nn.Module):
    """A sum of many small products, one parameter each: nearly all time of a call is overhead."""

    def __init__(self, count: int = 200) -> None:
        super().__init__()
        self.scales = nn.ParameterList(torch.ones(4) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [4] to [4]."""
        y = x
        for scale in self.scales:
            y = y * scale
        return y


def perceptron(*widths: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Creates linear layers with ReLU between them: [n, first width] to [n, last width]."""
    parts: list[nn.Module] = []
    for source, target in itertools.pairwise(widths):
        parts += [nn.Linear(source, target), nn.ReLU()]
    return nn.Sequential(*parts[:-1]).to(dtype)


class Recurrence(nn.Module):
    """The outputs of two layers of gated recurrent units."""

    def __init__(self, size: int = 64, hidden: int = 128) -> None:
        super().__init__()
        self.layers = nn.GRU(size, hidden, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, length, size] to [n, length, hidden]."""
        return self.layers(x)[0]


class GraphNetwork(nn.Module):
    """Two layers that replace the features of each node by the mean of its neighbours' ones."""

    def __init__(self, size: int = 64, classes: int = 7) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(size, size), nn.Linear(size, classes)))

    def forward(self, x: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Maps features [nodes, size] and edges [edges] to [nodes, classes]."""
        for layer in self.layers:
            sent = layer(x)[sources]
            places = targets[:, None].expand_as(sent)
            means = sent.new_zeros(len(x), sent.shape[1])
            x = functional.relu(means.scatter_reduce(0, places, sent, "mean", include_self=False))
        return x


class SoundClasses(nn.Module):
    """Convolutions of a waveform, with pooling between them, and classes of the whole."""

    def __init__(self) -> None:
        super().__init__()
        parts, source = [], 1
        for target, kernel, stride in ((32, 80, 16), (32, 3, 1), (64, 3, 1), (64, 3, 1)):
            conv = nn.Conv1d(source, target, kernel, stride)
            parts += [conv, nn.BatchNorm1d(target), nn.ReLU(), nn.MaxPool1d(4)]
            source = target
        self.features, self.classes = nn.Sequential(*parts), nn.Linear(source, 35)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, 1, length] to [n, 35]."""
        return self.classes(self.features(x).mean(-1)).log_softmax(-1)


class TextClasses(nn.Module):
    """Embeddings, convolutions of three widths, and the maximum of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 128)
        self.filters = nn.ModuleList(nn.Conv1d(128, 100, width) for width in (3, 4, 5))
        self.classes = nn.Linear(300, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Maps [n, length] to [n, 2]."""
        x = self.words(ids).transpose(1, 2)
        return self.classes(torch.cat([functional.relu(part(x)).amax(-1) for part in self.filters], 1))


class Mixer(nn.Module):
    """Patches of an image, layers that mix the patches and then the channels, and classes."""

    def __init__(self, width: int = 192, depth: int = 6, patch: int = 16, size: int = 224) -> None:
        super().__init__()
        patches = (size // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.across = nn.ModuleList(_mixing(patches, width // 2) for _ in range(depth))
        self.within = nn.ModuleList(_mixing(width, 4 * width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.classes = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, 3, size, size] to [n, 1000]."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        for layer, (across, within) in enumerate(zip(self.across, self.within, strict=True)):
            x = x + across(self.norms[2 * layer](x).transpose(1, 2)).transpose(1, 2)
            x = x + within(self.norms[2 * layer + 1](x))
        return self.classes(x.mean(1))


def _mixing(width: int, inner: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class Temporal(nn.Module):
    """Causal 1-d convolutions with growing dilation, with residuals."""

    def __init__(self, width: int = 64, depth: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=1 << level) for level in range(depth))
        self.last = nn.Conv1d(width, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [n, width, length] to [n, 10, length]."""
        for level, layer in enumerate(self.layers):
            x = x + functional.relu(layer(functional.pad(x, (2 << level, 0))))
        return self.last(x)


def generator(width: int = 32) -> nn.Module:
    """Creates transposed convolutions from noise to images: [n, 100, 1, 1] to [n, 3, 64, 64]."""
    parts: list[nn.Module] = []
    source = 100
    for target, stride, padding in ((8 * width, 1, 0), (4 * width, 2, 1), (2 * width, 2, 1), (width, 2, 1)):
        conv = nn.ConvTranspose2d(source, target, 4, stride, padding, bias=False)
        parts += [conv, nn.BatchNorm2d(target), nn.ReLU()]
        source = target
    return nn.Sequential(*parts, nn.ConvTranspose2d(source, 3, 4, 2, 1), nn.Tanh())
