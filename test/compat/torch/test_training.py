"""Training steps of modules compiled by `torch.compile`: forward and backward graphs give eager's gradients."""

import copy

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer, self.last = kind(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.last(self.layer(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)

    def forward(self, x):
        return self.layer(self.patches(x).flatten(2).transpose(1, 2)).mean(1)


class Selections(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        chosen = torch.where(x > 0, self.layer(x), x.exp()).clamp(-1, 1)
        return chosen.sort(-1).values + x.cumsum(1) * x.std(0) + x.topk(1).values


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.EmbeddingBag(50, 8)

    def forward(self, x):
        return self.layer((x.abs() * 9).long())


def _images():
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 6, 3))
    return nn.Sequential(*layers, nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))


CASES = {
    "images": (_images, (3, 12, 12)),
    "attention": (Attention, (3, 16, 16)),
    "lstm": (lambda: Recurrent(nn.LSTM), (6, 8)),
    "gru": (lambda: Recurrent(nn.GRU), (6, 8)),
    "selections": (Selections, (4,)),
    "bag": (Bag, (5,)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(4, 8, 3, 2), nn.GELU(), nn.AvgPool2d(2)), (4, 5, 5)),
    "norms": (lambda: nn.Sequential(nn.Conv1d(4, 8, 3), nn.GroupNorm(2, 8), nn.Softplus(), nn.RMSNorm(14)), (4, 16)),
}
_SHORT = ("images", "selections")


def _step(module, owner, x, target):
    owner.zero_grad()
    x = x.clone().requires_grad_()
    out = module(x)
    loss = functional.mse_loss(out, target.expand_as(out))
    loss.backward()
    return loss, [*(weight.grad for weight in owner.parameters()), *([] if x.grad is None else [x.grad])]


@pytest.mark.filterwarnings("ignore::stepwell.FallbackWarning")
@pytest.mark.filterwarnings("ignore::stepwell.SlowWarning")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in _SHORT else [pytest.mark.sweep]) for n in CASES])
def test_gradients_are_those_of_eager(name):
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, shape = CASES[name]
    plain = make()
    owner = copy.deepcopy(plain)
    compiled = torch.compile(owner, backend="stepwell")
    target = torch.tensor(0.3)
    for batch in (4, 3):  # sizes become symbolic with the second
        x = torch.randn(batch, *shape)
        want, wanted = _step(plain, plain, x, target)
        loss, found = _step(compiled, owner, x, target)
        torch.testing.assert_close(loss, want, rtol=1e-4, atol=1e-5)
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    kinds = {graph.kind for graph in stepwell.torch_report().graphs if graph.pieces}
    assert "forward" in kinds and ("backward" in kinds or name == "bag")


def test_numbers_keep_their_precision():
    torch._dynamo.reset()

    def scaled(x, factor):
        return (x.double() * factor).sum()

    run = torch.compile(scaled, backend="stepwell", dynamic=True)
    x = torch.ones(4)
    for factor in (0.1, 0.123456789012345):
        assert run(x, factor).item() == scaled(x, factor).item()
