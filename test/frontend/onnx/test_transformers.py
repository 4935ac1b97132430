"""The operators of ONNX Runtime's transformer optimiser, compared with ONNX Runtime."""

import numpy as np
import pytest

F32 = np.float32
MS = {"domain": "com.microsoft"}


@pytest.fixture
def normal(rng):
    """Returns a function that draws normally distributed arrays of a shape."""
    return lambda *shape: rng.normal(size=shape).astype(F32)


def test_norms_of_sums(check, normal):
    x, skip, scale, shift, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    check("SkipLayerNormalization", 17, [x, skip, scale], **MS)
    check("SkipLayerNormalization", 17, [x, skip, scale, shift, bias], epsilon=1e-3, **MS)
    check("SkipSimplifiedLayerNormalization", 17, [x, skip, scale], epsilon=1e-6, **MS)
    check("SkipSimplifiedLayerNormalization", 17, [x, skip, scale, bias], epsilon=1e-6, **MS)


def test_norm_that_onnx_runtime_puts_into_the_domain_of_onnx(check, normal):
    check("SimplifiedLayerNormalization", 17, [normal(2, 3, 8), normal(8)], epsilon=1e-6)


def test_sum_before_the_norm(build, compare, normal):
    from onnx import helper

    feeds = {"x": normal(2, 3, 8), "skip": normal(2, 3, 8), "scale": normal(8)}
    for op_type in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        node = helper.make_node(op_type, list(feeds), ["y", "", "", "s"], epsilon=1e-5, **MS)
        compare(build([node], feeds, ["y", "s"], {}, 17, {"com.microsoft": 1}), feeds)


@pytest.mark.parametrize("has_segments", [False, True])
def test_embedding(check, normal, rng, has_segments):
    words, mask = rng.integers(0, 10, (2, 3)).astype(np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    segments = rng.integers(0, 2, (2, 3)).astype(np.int32) if has_segments else None
    tables = {2: normal(10, 8), 3: normal(5, 8), 5: normal(8), 6: normal(8)}
    tables |= {4: normal(2, 8)} if has_segments else {}
    inputs = [words, segments, *[None] * 5, mask]
    check("EmbedLayerNormalization", 17, inputs, constants=tables, outputs=2, dynamic=False, **MS)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(check, normal, interleaved):
    tables = {2: normal(6, 2), 3: normal(6, 2)}
    several, first = np.array([[0, 2, 4], [1, 1, 5]]), np.array([2])
    for positions in (several, first):
        check("RotaryEmbedding", 17, [normal(2, 3, 12), positions], constants=tables, interleaved=interleaved, **MS)
        check("RotaryEmbedding", 17, [normal(2, 2, 3, 4), positions], constants=tables, interleaved=interleaved, **MS)
    options = {"interleaved": interleaved, "rotary_embedding_dim": 4, "num_heads": 2, "dynamic": False}
    check("RotaryEmbedding", 17, [normal(2, 3, 16), several], constants=tables, **options, **MS)


MASKS = {
    "none": None,
    "lengths": np.array([3, 5], np.int32),
    "keys": np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]], np.int32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(check, normal, mask, unidirectional):
    weights = {1: normal(8, 24) / 3, 2: normal(24)}
    options = {"num_heads": 2, "unidirectional": unidirectional, "dynamic": False, **MS}
    check("Attention", 17, [normal(2, 5, 8), None, None, MASKS[mask]], constants=weights, **options)
    scores = [normal(2, 5, 8), None, None, MASKS[mask], None, normal(1, 2, 5, 5)]
    check("Attention", 17, scores, constants=weights, scale=0.3, **options)


def test_attention_that_keeps_keys_and_values(check, normal):
    weights = {1: normal(8, 24) / 3, 2: normal(24)}
    inputs = [normal(2, 1, 8), None, None, None, normal(2, 2, 2, 4, 4)]
    check("Attention", 17, inputs, constants=weights, num_heads=2, unidirectional=1, outputs=2, dynamic=False, **MS)


@pytest.mark.parametrize("mask", ["none", "keys"])
def test_multi_head_attention(check, normal, mask):
    query, key, value = normal(2, 4, 8), normal(2, 5, 8), normal(2, 5, 6)
    options = {"num_heads": 2, "dynamic": False, **MS}
    check("MultiHeadAttention", 17, [query, key, value, normal(22), MASKS[mask], normal(1, 2, 4, 5)], **options)
    crossed = [query, normal(2, 2, 5, 4), normal(2, 2, 5, 4)]
    check("MultiHeadAttention", 17, crossed, scale=0.2, **options)
    past = [normal(2, 2, 3, 4), normal(2, 2, 3, 4)]
    grown = [query, normal(2, 4, 8), normal(2, 4, 8), None, None, None, *past]
    check("MultiHeadAttention", 17, grown, outputs=3, unidirectional=1, **options)


@pytest.mark.parametrize("options", [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}, {"softcap": 0.5}])
@pytest.mark.parametrize("window", [-1, 3])
def test_group_query_attention(check, normal, options, window):
    def run(length, past, ends, total):
        tables = {7: normal(16, 8), 8: normal(16, 8)} if "do_rotary" in options else {}
        kept = [normal(2, 2, past, 16) for _ in range(2)] if past else [None, None]
        new = [normal(2, length, 64), normal(2, length, 32), normal(2, length, 32)]
        sizes = {5: np.array(ends, np.int32), 6: np.array(total, np.int32)}
        attributes = {"num_heads": 4, "kv_num_heads": 2, "local_window_size": window, **options, **MS}
        check(
            "GroupQueryAttention",
            17,
            [*new, *kept],
            constants={**sizes, **tables},
            dynamic=False,
            outputs=3,
            **attributes,
        )

    run(5, 0, [4, 4], 5)
    run(1, 4, [4, 4], 5)
    run(1, 6, [4, 4], 5)


def test_sequences_of_different_lengths_in_one_tensor(check, normal):
    inputs = [normal(2, 1, 64), None, None, normal(2, 2, 6, 8), normal(2, 2, 6, 8)]
    sizes = {5: np.array([3, 6], np.int32), 6: np.array(7, np.int32)}
    options = {"num_heads": 4, "kv_num_heads": 2, "dynamic": False, "outputs": 3}
    check("GroupQueryAttention", 17, inputs, constants=sizes, **options, **MS)
