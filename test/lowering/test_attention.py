"""Attention kernels: any length, depth, mask and layout, against the definition in double precision."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import stepwell
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stepwell.lowering.target import Target

RNG = np.random.default_rng(0)
Array = np.ndarray


def expected(
    query: Array, key: Array, value: Array, mask: Array | None, scale: float, masked: float, cap: float = 0.0
) -> Array:
    """Returns the softmax of the masked scores times the value, [batch, heads, length, depth]."""
    query, key, value = (item.astype(np.float64) for item in (query, key, value))
    shared = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, shared, 1), np.repeat(value, shared, 1)
    scores = query @ key.swapaxes(-1, -2) * scale
    scores = np.tanh(scores / cap) * cap if cap else scores
    if mask is not None:
        scores = np.where(mask, scores, masked) if mask.dtype == np.bool_ else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ value


def tensor(array: Array) -> str:
    """Returns an array's type."""
    return f"tensor<{'x'.join(map(str, array.shape))}x{'i1' if array.dtype == np.bool_ else 'f32'}>"


def run(feeds: dict[str, Array], body: str, result: str, threads: int = 1, target: str = "cpu") -> Array:
    """Compiles a function with these arguments and returns its result."""
    arguments = ", ".join(f'%{name}: {tensor(array)} {{stepwell.name = "{name}"}}' for name, array in feeds.items())
    text = f'func.func @main({arguments}) -> ({result} {{stepwell.name = "y"}}) {{\n{body}\n}}'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlir"
        path.write_text(text)
        compiled = stepwell.compile(path, target, threads=threads, options=stepwell.Options(cache=False))
        return compiled(**feeds)


def attention(
    feeds: dict[str, Array],
    scale: float,
    masked: float = -np.inf,
    threads: int = 1,
    target: str = "cpu",
    zero_empty: bool = False,
    cap: float = 0.0,
) -> Array:
    """Returns the attention of q, k, v and optionally a mask m."""
    shape = "x".join(map(str, (*feeds["q"].shape[:3], feeds["v"].shape[3])))
    names, types = ", ".join(f"%{name}" for name in feeds), ", ".join(map(tensor, feeds.values()))
    number = np.float64(masked).view(np.uint64)
    body = (
        f'  %0 = "stepwell.attention"({names}) {{scale = {scale} : f64, masked = 0x{number:016X} : f64,'
        f" zero_empty = {str(zero_empty).lower()}, cap = {cap} : f64}}"
        f' : ({types}) -> tensor<{shape}xf32> loc("a")\n  return %0 : tensor<{shape}xf32>'
    )
    return run(feeds, body, f"tensor<{shape}xf32>", threads, target)


def operands(
    batch: int, heads: int, key_heads: int, length: int, keys: int, depth: int, value_depth: int
) -> dict[str, Array]:
    """Returns query, key and value."""
    shapes = {
        "q": (batch, heads, length, depth),
        "k": (batch, key_heads, keys, depth),
        "v": (batch, key_heads, keys, value_depth),
    }
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def close(got: Array, want: Array) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
@settings(max_examples=settings.default.max_examples // 10, deadline=None)
@example(1, (1, 1), 1, 1, 1, 1, "none", 1)
@given(
    st.integers(1, 2),
    st.sampled_from([(1, 1), (3, 3), (4, 2)]),
    st.sampled_from([1, 4, 5, 7, 16, 31, 33, 40, 64, 70]),
    st.sampled_from([1, 3, 14, 15, 29, 100, 600]),
    st.sampled_from([1, 15, 32, 64, 80]),
    st.sampled_from([1, 15, 32, 40, 128]),
    st.sampled_from(["none", "keys", "scores", "bool keys", "bool scores"]),
    st.integers(1, 2),
)
def test_any_shape(
    batch: int, heads: tuple[int, int], length: int, keys: int, depth: int, width: int, mask: str, threads: int
) -> None:
    feeds = operands(batch, *heads, length, keys, depth, width)
    shape = (batch, 1, 1, keys) if "keys" in mask else (heads[0], length, keys)
    if mask.startswith("bool"):
        feeds["m"] = RNG.integers(0, 2, shape).astype(np.bool_) | (np.arange(keys) == 0)
    elif mask != "none":
        feeds["m"] = RNG.standard_normal(shape).astype(np.float32)
    close(attention(feeds, 0.25, threads=threads), expected(*arrays(feeds), 0.25, -np.inf))


def arrays(feeds: dict[str, Array]) -> tuple[Array, Array, Array, Array | None]:
    return feeds["q"], feeds["k"], feeds["v"], feeds.get("m")


@pytest.mark.parametrize("keys", [40, 2000, 4096])
def test_long_rows(keys: int) -> None:
    feeds = operands(1, 2, 2, 33, keys, 16, 16)
    close(attention(feeds, 0.25), expected(*arrays(feeds), 0.25, -np.inf))


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_narrower_vectors(target: str) -> None:
    if not Target.parse(target).runs_on(Target.host()):
        pytest.skip(f"this machine does not run code for {target}")
    feeds = operands(2, 4, 2, 19, 33, 24, 40)
    close(attention(feeds, 0.25, target=target), expected(*arrays(feeds), 0.25, -np.inf))


@pytest.mark.parametrize("threads", [1, 2])
def test_many_blocks(threads: int) -> None:
    """Each block has temporaries; together they are larger than a stack."""
    feeds = operands(1, 12, 12, 512, 512, 8, 8)
    close(attention(feeds, 0.25, threads=threads), expected(*arrays(feeds), 0.25, -np.inf))


@pytest.mark.parametrize("masked", [-np.inf, -3.0, float(np.finfo(np.float32).min)])
def test_a_row_that_is_masked_completely(masked: float) -> None:
    feeds = operands(1, 2, 2, 20, 24, 16, 16)
    feeds["m"] = np.tri(20, 24, -1).astype(np.bool_)
    got = attention(feeds, 0.25, masked)
    close(got, expected(*arrays(feeds), 0.25, masked))
    assert np.isnan(got[:, :, 0]).all() == (masked == -np.inf)


@pytest.mark.few(2)
@pytest.mark.parametrize("length", [3, 20])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
def test_limited_scores(length: int, kind: str) -> None:
    feeds = operands(1, 4, 2, length, 24, 16, 16)
    allowed = np.tri(length, 24, 24 - length).astype(np.bool_)
    if kind != "none":
        feeds["m"] = allowed if kind == "bool" else np.where(allowed, 0.5, -np.inf).astype(np.float32)
    close(attention(feeds, 2.0, cap=1.5), expected(*arrays(feeds), 2.0, -np.inf, cap=1.5))


@pytest.mark.parametrize("length", [3, 20])
@pytest.mark.parametrize("is_added", [False, True])
def test_queries_that_attend_to_nothing_give_zero(length: int, is_added: bool) -> None:
    feeds = operands(1, 2, 1, length, 24, 16, 16)
    allowed = np.tri(length, 24, -1).astype(np.bool_)
    feeds["m"] = np.where(allowed, 0, -np.inf).astype(np.float32) if is_added else allowed
    got = attention(feeds, 0.25, zero_empty=True)
    close(got[:, :, 1:], expected(*arrays(feeds), 0.25, -np.inf)[:, :, 1:])
    assert not got[:, :, 0].any()


def test_an_added_mask_much_larger_than_the_scores() -> None:
    feeds = operands(1, 2, 2, 20, 24, 16, 16)
    feeds["m"] = np.where(np.tri(20, 24, -1), 0, np.finfo(np.float32).min).astype(np.float32)
    rows = np.full((20, 24), 1 / 24)[None, None] @ feeds["v"].astype(np.float64)
    got = attention(feeds, 0.25)
    close(got[:, :, :1], rows[:, :, :1])
    close(got[:, :, 1:], expected(*arrays(feeds), 0.25, 0)[:, :, 1:])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_infinity_and_nan_stay(bad: float) -> None:
    feeds = operands(1, 1, 1, 20, 24, 16, 16)
    feeds["q"][0, 0, 3, 2] = bad
    got = attention(feeds, 0.25)
    assert np.isnan(got[0, 0, 3]).all()
    assert np.isfinite(np.delete(got, 3, axis=2)).all()


@pytest.mark.parametrize(
    ("batch", "length", "heads", "depth"), [(2, 37, 4, 16), (1, 40, 8, 15), (1, 5, 1, 8), (1, 160, 2, 64)]
)
def test_views_of_one_product(batch: int, length: int, heads: int, depth: int) -> None:
    """Query, key and value are slices of one tensor, and heads lie side by side in the result."""
    shape, order = f"{batch}x{length}", "permutation = array<i64: 0, 2, 1, 3>"
    rows, first = f"tensor<{shape}x{heads}x{depth}xf32>", f"tensor<{batch}x{heads}x{length}x{depth}xf32>"
    split, part = f"tensor<{shape}x3x{heads}x{depth}xf32>", f"tensor<{shape}x1x{heads}x{depth}xf32>"
    width = heads * depth
    lines = [
        f'%s = "stepwell.reshape"(%x) {{shape = array<i64: {batch}, {length}, 3, {heads}, {depth}>}} : '
        f"(tensor<{shape}x{3 * width}xf32>) -> {split}"
    ]
    for index, name in enumerate("qkv"):
        starts = f"array<i64: 0, 0, {index}, 0, 0>"
        stops = f"array<i64: {batch}, {length}, {index + 1}, {heads}, {depth}>"
        lines += [
            f'%{name}0 = "stepwell.slice"(%s) {{starts = {starts}, stops = {stops}, steps = array<i64: 1, 1, 1, 1, 1>}}'
            f" : ({split}) -> {part}",
            f'%{name}1 = "stepwell.reshape"(%{name}0) {{shape = array<i64: {batch}, {length}, {heads}, {depth}>}}'
            f" : ({part}) -> {rows}",
            f'%{name} = "stepwell.transpose"(%{name}1) {{{order}}} : ({rows}) -> {first}',
        ]
    lines += [
        f'%a = "stepwell.attention"(%q, %k, %v) {{scale = 0.5 : f64}} : ({first}, {first}, {first}) -> {first}',
        f'%t = "stepwell.transpose"(%a) {{{order}}} : ({first}) -> {rows}',
        f'%r = "stepwell.reshape"(%t) {{shape = array<i64: {batch}, {length}, {width}>}}'
        f" : ({rows}) -> tensor<{shape}x{width}xf32>",
    ]
    body = "\n".join(f'  {line} loc("{number}")' for number, line in enumerate(lines))
    x = RNG.standard_normal((batch, length, 3 * width)).astype(np.float32)
    result = f"tensor<{shape}x{width}xf32>"
    got = run({"x": x}, f"{body}\n  return %r : {result}", result)
    query, key, value = x.reshape(batch, length, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    want = expected(query, key, value, None, 0.5, 0).swapaxes(1, 2).reshape(batch, length, width)
    close(got, want)
