"""Ops of layers: products, convolutions, pooling, norms, attention, resampling, bags and losses, as in torch."""

import warnings

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional as nnf  # noqa: E402

from .families import check, numbers  # noqa: E402


def test_products():
    x, y = numbers(torch.float32, 2, 3, 4), numbers(torch.float32, 2, 4, 5, seed=1)
    check(
        {
            "bmm": torch.bmm,
            "matmul": lambda x, y: x[0] @ y,
            "vector": lambda x, y: x @ y[0, :, 0],
            "dot": lambda x, y: torch.dot(x[0, 0], y[0, :, 0]),
            "mv": lambda x, y: torch.mv(x[0], y[0, :, 0]),
            "addmm": lambda x, y: torch.addmm(x[0, :, :1], x[0], y[0], beta=0.5, alpha=2),
            "baddbmm": lambda x, y: torch.baddbmm(x[:, :, :1], x, y, beta=2),
            "addbmm": lambda x, y: torch.addbmm(x[0, :, :1], x, y),
            "linear": lambda x, y: nnf.linear(x, y[0].t(), y[0, 0]),
            "einsum": lambda x, y: torch.einsum("bij,bjk->bki", x, y),
            "outer": lambda x, y: torch.outer(x[0, 0], y[0, 0]),
            "tensordot": lambda x, y: torch.tensordot(x, y, dims=([0, 2], [0, 1])),
            "cdist": lambda x, y: torch.cdist(x, y.transpose(1, 2)),
            "cdist 1": lambda x, y: torch.cdist(x, y.transpose(1, 2), p=1.0),
            "pdist": lambda x, y: nnf.pdist(x[0]),
            "cosine": lambda x, y: nnf.cosine_similarity(x, x + 1, dim=-1),
        },
        x,
        y,
    )


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_products_of_bytes_overflow(dtype):
    x, y = (torch.randint(0, 100, shape, dtype=dtype) for shape in ((3, 4, 5), (3, 5, 4)))
    addend = x[:, :, :4].contiguous()
    functions = {
        "bmm": torch.bmm,
        "mm": lambda x, y: x[0] @ y[0],
        "matmul": lambda x, y: x @ y[0],
        "mv": lambda x, y: torch.mv(x[0], y[0, :, 0]),
        "addmm": lambda x, y: torch.addmm(addend[0], x[0], y[0], beta=2, alpha=3),
        "baddbmm": lambda x, y: torch.baddbmm(addend, x, y),
        "addbmm": lambda x, y: torch.addbmm(addend[0], x, y),
        "addmv": lambda x, y: torch.addmv(x[0, :, 0], x[0], y[0, :, 0]),
        "linear": lambda x, y: nnf.linear(x, x[0], x[1, :, 0]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        check(functions, x, y)


def test_convolutions():
    image, line, volume = (numbers(torch.float32, 2, 4, *[7] * rank) for rank in (2, 1, 3))
    weight = numbers(torch.float32, 6, 2, 3, 3, seed=1)
    check(
        {
            "grouped": lambda x, w: nnf.conv2d(x, w, stride=2, padding=1, groups=2),
            "dilated": lambda x, w: nnf.conv2d(x[:, :2], w, dilation=2, padding="same"),
            "without batch": lambda x, w: nnf.conv2d(x[0, :2], w, torch.arange(6.0)),
            "depthwise": lambda x, w: nnf.conv2d(x, w[:4, :1], groups=4, padding=1),
            "transposed": lambda x, w: nnf.conv_transpose2d(x, w[:4], stride=2, padding=1, output_padding=1),
            "transposed groups": lambda x, w: nnf.conv_transpose2d(x, w[:4], groups=2, dilation=2),
        },
        image,
        weight,
        atol=1e-4,
    )
    check({"line": lambda x: nnf.conv1d(x, torch.ones(3, 4, 3), padding=1)}, line, atol=1e-4)
    check({"volume": lambda x: nnf.conv3d(x, torch.ones(3, 4, 2, 2, 2), stride=2)}, volume, atol=1e-4)


def test_pooling():
    check(
        {
            "max": lambda x: nnf.max_pool2d(x, 3, 2, 1),
            "max with indices": lambda x: nnf.max_pool2d(x, 2, return_indices=True),
            "max ceil": lambda x: nnf.max_pool2d(x, 3, 2, ceil_mode=True),
            "max dilated": lambda x: nnf.max_pool2d(x, 2, 1, dilation=2),
            "max of a line": lambda x: nnf.max_pool1d(x[0], 2),
            "average": lambda x: nnf.avg_pool2d(x, 3, 2, 1),
            "average inside": lambda x: nnf.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            "average ceil": lambda x: nnf.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            "average divisor": lambda x: nnf.avg_pool2d(x, 2, divisor_override=3),
            "adaptive": lambda x: nnf.adaptive_avg_pool2d(x, (2, 3)),
            "adaptive to one": lambda x: nnf.adaptive_avg_pool2d(x, 1),
            "adaptive line": lambda x: nnf.adaptive_avg_pool1d(x[0], 4),
            "adaptive max": lambda x: nnf.adaptive_max_pool2d(x, (7, 1)),
            "norm": lambda x: nnf.lp_pool2d(x, 2, 2),
        },
        numbers(torch.float32, 2, 3, 7, 8),
    )


def test_normalization():
    parameters = {"weight": torch.arange(1.0, 5.0), "bias": torch.arange(4.0)}
    check(
        {
            "layer": lambda x: nnf.layer_norm(x, (6, 6)),
            "layer with parameters": lambda x: nnf.layer_norm(x.transpose(1, 3), (4,), **parameters),
            "group": lambda x: nnf.group_norm(x, 2, **parameters),
            "instance": lambda x: nnf.instance_norm(x, **parameters),
            "rms": lambda x: nnf.rms_norm(x, (6,)),
            "batch": lambda x: nnf.batch_norm(x, torch.arange(4.0), torch.arange(1.0, 5.0), **parameters),
            "batch without parameters": lambda x: nnf.batch_norm(x, torch.zeros(4), torch.ones(4)),
            "batch in training": lambda x: nnf.batch_norm(x, None, None, training=True),
            "local response": lambda x: nnf.local_response_norm(x, 3),
        },
        numbers(torch.float32, 2, 4, 6, 6),
        atol=1e-4,
    )


def test_attention():
    query, key = numbers(torch.float32, 2, 4, 5, 8), numbers(torch.float32, 2, 4, 7, 8, seed=1)
    attend = nnf.scaled_dot_product_attention
    never = torch.ones(5, 7, dtype=torch.bool)
    never[2] = False
    check(
        {
            "plain": lambda q, k: attend(q, k, k),
            "causal": lambda q, k: attend(q, k, k, is_causal=True),
            "scaled": lambda q, k: attend(q, k, k, scale=0.3),
            "bool mask": lambda q, k: attend(q, k, k, attn_mask=never),
            "float mask": lambda q, k: attend(q, k, k, attn_mask=(q @ k.transpose(-1, -2))[:1]),
            "three dimensions": lambda q, k: attend(q[0], k[0], k[0], attn_mask=never.expand(4, 5, 7)),
            "two dimensions": lambda q, k: attend(q[0, 0], k[0, 0], k[0, 0]),
            "five dimensions": lambda q, k: attend(q[None], k[None], k[None], attn_mask=never),
            "grouped": lambda q, k: attend(q, k[:, :2], k[:, :2], enable_gqa=True),
        },
        query,
        key,
        atol=1e-4,
    )


def test_resampling():
    check(
        {
            "nearest": lambda x: nnf.interpolate(x, scale_factor=2),
            "nearest down": lambda x: nnf.interpolate(x, size=(3, 4)),
            "nearest by a fraction": lambda x: nnf.interpolate(x, scale_factor=1.6),
            "exact": lambda x: nnf.interpolate(x, size=(9, 5), mode="nearest-exact"),
            "bilinear": lambda x: nnf.interpolate(x, size=(9, 11), mode="bilinear"),
            "bilinear by factor": lambda x: nnf.interpolate(x, scale_factor=1.7, mode="bilinear"),
            "aligned": lambda x: nnf.interpolate(x, size=(9, 11), mode="bilinear", align_corners=True),
            "bicubic": lambda x: nnf.interpolate(x, scale_factor=2, mode="bicubic"),
            "line": lambda x: nnf.interpolate(x[0], size=11, mode="linear"),
            "grid": lambda x: nnf.grid_sample(x, x[:, 1:].permute(0, 2, 3, 1), align_corners=False),
            "grid at borders": lambda x: nnf.grid_sample(
                x, x[:, :2].permute(0, 2, 3, 1), padding_mode="border", align_corners=True
            ),
            "unshuffle": lambda x: nnf.pixel_unshuffle(x[..., :6], 2),
        },
        numbers(torch.float32, 2, 3, 6, 7),
        atol=1e-4,
    )


def test_bags():
    check(
        {
            "sum": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="sum"),
            "mean": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="mean"),
            "max": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="max"),
            "padding": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="mean", padding_idx=3),
        },
        numbers(torch.float32, 9, 4),
        torch.tensor([1, 3, 8, 0, 3, 2]),
        torch.tensor([0, 2, 2, 5]),
    )


def test_bags_that_end_without_rows():
    check(
        {
            "empty": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="max"),
            "last offset": lambda w, i, o: nnf.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        },
        numbers(torch.float32, 9, 4),
        torch.tensor([1, 3, 8, 0, 3, 2]),
        torch.tensor([0, 2, 2, 5, 6]),
    )


def test_bags_of_equal_size():
    check(
        {
            "sum": lambda w, i: nnf.embedding_bag(i, w, mode="sum"),
            "mean": lambda w, i: nnf.embedding_bag(i, w, mode="mean"),
            "max": lambda w, i: nnf.embedding_bag(i, w, mode="max", padding_idx=0),
            "padding": lambda w, i: nnf.embedding_bag(i, w, mode="mean", padding_idx=3),
        },
        numbers(torch.float32, 9, 4),
        torch.tensor([[1, 3, 8], [3, 3, 3], [0, 0, 2], [7, 5, 3]]),
    )


@pytest.mark.parametrize("is_equal", [True, False])
def test_bags_take_time_for_their_rows_only(is_equal: bool):
    table, rows = numbers(torch.float32, 9, 4), torch.tensor([[1, 3, 8], [3, 3, 3]])
    given = (rows, None) if is_equal else (rows.flatten(), torch.tensor([0, 2]))

    class Bags(torch.nn.Module):
        def forward(self, table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor | None) -> torch.Tensor:
            return nnf.embedding_bag(rows, table, starts, mode="sum")

    run = stepwell.compile(Bags(), (table, *given))
    assert "contraction" not in {kernel["class"] for kernel in run.report().record()["programs"][0]["kernels"]}


def test_losses():
    check(
        {
            "cross entropy": lambda x, y: nnf.cross_entropy(x, y),
            "cross entropy of probabilities": lambda x, y: nnf.cross_entropy(x, x.softmax(1), label_smoothing=0.1),
            "mse": lambda x, y: nnf.mse_loss(x, x + 1),
            "l1": lambda x, y: nnf.smooth_l1_loss(x, x * 2),
            "bce": lambda x, y: nnf.binary_cross_entropy_with_logits(x, x.sigmoid()),
            "kl": lambda x, y: nnf.kl_div(x.log_softmax(1), x.flip(1).softmax(1), reduction="batchmean"),
        },
        numbers(torch.float32, 4, 5),
        torch.tensor([0, 4, 2, 1]),
    )
