"""Small modules of the kinds that people have."""

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        y = self.second_norm(self.second(self.relu(self.first_norm(self.first(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.layers = nn.Sequential(Residual(16, 16), Residual(16, 32, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classes = nn.Linear(32, 10)

    def forward(self, x):
        return self.classes(torch.flatten(self.pool(self.layers(self.stem(x))), 1))


class MobileBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(8, 16, 1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1))
        self.project = nn.Conv2d(16, 8, 1)

    def forward(self, x):
        y = functional.hardswish(self.depthwise(functional.relu6(self.expand(x))))
        return x + self.project(y * functional.hardsigmoid(self.squeeze(y)))


class Encoder(nn.Module):
    def __init__(self, size=32, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(99, size), nn.Embedding(64, size)
        self.norm = nn.LayerNorm(size)
        layer = nn.TransformerEncoderLayer(size, 4, 64, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classes = nn.Linear(size, 5)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        x = self.encoder(x, src_key_padding_mask=mask == 0)
        return {"logits": self.classes(x), "pooled": torch.tanh(x[:, 0])}


class Decoder(nn.Module):
    """A causal language model whose head has the embedding's weight."""

    def __init__(self, size=32, heads=4):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(99, size)
        self.attention_norm, self.norm = nn.RMSNorm(size), nn.LayerNorm(size)
        self.projections, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.feed_forward = nn.Sequential(
            nn.Linear(size, 4 * size), nn.GELU(approximate="tanh"), nn.Linear(4 * size, size)
        )
        self.head = nn.Linear(size, 99, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        batch, length, size = x.shape
        parts = self.projections(self.attention_norm(x)).split(size, 2)
        query, key, value = (part.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(batch, length, size))
        return self.head(x + self.feed_forward(self.norm(x)))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = getattr(nn, kind)(8, 16, 2, batch_first=True, bidirectional=True)
        self.classes = nn.Linear(32, 4)

    def forward(self, x):
        y, states = self.layer(x)
        return self.classes(y[:, -1]), states


class Resampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 8, 2, 2)
        self.group, self.instance = nn.GroupNorm(4, 8), nn.InstanceNorm2d(8, affine=True)
        self.join = nn.Conv2d(11, 4, 3, padding="same")

    def forward(self, x):
        y = functional.silu(self.group(self.down(x)))
        z = functional.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        z = z + functional.interpolate(y, scale_factor=2) + self.instance(self.up(y))
        pools = functional.avg_pool2d(z, 3, 2, 1), functional.adaptive_avg_pool2d(z, (3, 5))
        return self.join(torch.cat([x, z], 1)), pools, functional.pixel_shuffle(z, 2)


class Counter(nn.Module):
    """Changes a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.linear = nn.Linear(2, 2)

    def forward(self, x, scale=2.0):
        self.total.add_(x.mean(0))
        return self.linear(x) * scale + self.total


def examples():
    """Modules with arguments, by name."""
    torch.manual_seed(0)
    ids = torch.randint(0, 99, (2, 12))
    return {
        "perceptron": (nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)), (torch.randn(4, 16),)),
        "residual network": (ResNet(), (torch.randn(2, 3, 32, 32),)),
        "mobile block": (MobileBlock(), (torch.randn(1, 8, 12, 12),)),
        "encoder": (Encoder(), (ids, torch.ones(2, 12, dtype=torch.int64).tril(8))),
        "decoder": (Decoder(), (ids,)),
        "LSTM": (Recurrent("LSTM"), (torch.randn(3, 5, 8),)),
        "GRU": (Recurrent("GRU"), (torch.randn(3, 5, 8),)),
        "RNN": (Recurrent("RNN"), (torch.randn(3, 5, 8),)),
        "resampling": (Resampling(), (torch.randn(1, 3, 16, 16),)),
    }
