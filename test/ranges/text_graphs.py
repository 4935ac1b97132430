"""Parts of language and speech models whose positions, masks and paddings are computed from the length."""

from __future__ import annotations

import numpy as np

from .graphs import Graph, _floats
from .model_graphs import _parsed

_LENGTH = """
  s = Shape(x)
  n0 = Gather<axis = 0>(s, i_0)
  m0 = Gather<axis = 0>(s, i_1)
  n = Squeeze(n0, i_0)
  m = Squeeze(m0, i_0)
"""
_HEADS = {name: _floats(16, 16) / 2 for name in ("wq", "wk", "wv")}


def _attention(index: int, source: str, mask: str) -> str:
    """The text of an attention of two heads to all rows of `source`; `mask` is added to the scores."""
    text = """
      q0@ = MatMul(SOURCE, wq)
      k0@ = MatMul(SOURCE, wk)
      v0@ = MatMul(SOURCE, wv)
      q1@ = Reshape(q0@, i_0_0_2_8)
      k1@ = Reshape(k0@, i_0_0_2_8)
      v1@ = Reshape(v0@, i_0_0_2_8)
      q@ = Transpose<perm = [0, 2, 1, 3]>(q1@)
      k@ = Transpose<perm = [0, 2, 3, 1]>(k1@)
      v@ = Transpose<perm = [0, 2, 1, 3]>(v1@)
      z0@ = MatMul(q@, k@)
      z@ = Add(z0@, MASK)
      p@ = Softmax<axis = -1>(z@)
      h@ = MatMul(p@, v@)
      r@ = Transpose<perm = [0, 2, 1, 3]>(h@)
      o@ = Reshape(r@, i_0_0_16)
    """
    return text.replace("@", str(index)).replace("SOURCE", source).replace("MASK", mask)


def full_and_sliding_masks() -> Graph:
    """Attention to all earlier rows, then to the last 8 alone (Gemma, Mistral): below a length of 8 these are equal."""
    masks = """
      at = Range(zero, m, one)
      rows = Unsqueeze(at, i_1)
      columns = Unsqueeze(at, i_0)
      is_earlier = LessOrEqual(columns, rows)
      first = Sub(rows, window)
      is_near0 = Greater(columns, first)
      is_near = And(is_earlier, is_near0)
      full = Where(is_earlier, none, lowest)
      sliding = Where(is_near, none, lowest)
    """
    body = _LENGTH + masks + _attention(1, "x", "full") + "a = Add(x, o1)" + _attention(2, "a", "sliding")
    weights = _HEADS | {"window": np.array(8), "none": np.array(0, np.float32), "lowest": np.array(-1e9, np.float32)}
    return _parsed(body + "y = Add(a, o2)", "float[b,m,16] x", {"b": (1, 2), "m": (1, 21)}, **weights)


def descending_positions() -> Graph:
    """Sines of the positions m - 1, m - 2, ..., 1 - m, and scores of rows for them (Transformer-XL)."""
    body = """
      start = Sub(m, one)
      stop = Neg(m)
      places = Range(start, stop, down)
      places1 = Cast<to = 1>(places)
      angles0 = Unsqueeze(places1, i_1)
      angles = Mul(angles0, rates)
      sines = Sin(angles)
      cosines = Cos(angles)
      table = Concat<axis = -1>(sines, cosines)
      keys = MatMul(table, wk)
      turned = Transpose<perm = [1, 0]>(keys)
      y = MatMul(x, turned)
    """
    weights = {"down": np.array(-1), "rates": np.float32(10000) ** -np.linspace(0, 1, 8, dtype=np.float32)}
    return _parsed(_LENGTH + body, "float[b,m,16] x", {"b": (1, 2), "m": (1, 19)}, **weights, wk=_HEADS["wk"])


def tiled_rows() -> Graph:
    """Rows of relative positions that are repeated for each row of the input (DeBERTa)."""
    body = """
      places = Range(zero, m, one)
      row = Unsqueeze(places, i_0)
      counts = Concat<axis = 0>(m0, i_1)
      columns = Tile(row, counts)
      rows = Unsqueeze(places, i_1)
      distances = Sub(rows, columns)
      numbers = Cast<to = 1>(distances)
      counts1 = Concat<axis = 0>(m0, i_1_1)
      tables = Tile(two_rows, counts1)
      x1 = Unsqueeze(x, i_2)
      products = MatMul(x1, tables)
      sums = Squeeze(products, i_2)
      y = MatMul(numbers, sums)
    """
    return _parsed(_LENGTH + body, "float[b,m,2] x", {"b": (1, 2), "m": (1, 19)}, two_rows=_floats(1, 2, 16))


def padded_embeddings() -> Graph:
    """Embeddings of relative positions, padded by max(m - 5, 0) at both ends and cut to 2m - 1 of them (VITS)."""
    body = """
      less = Sub(m0, i_5)
      more = Max(less, i_0)
      pads = Concat<axis = 0>(i_0, more, i_0_0, more, i_0)
      padded = Pad(table, pads)
      short = Sub(i_5, m0)
      start = Max(short, i_0)
      twice = Mul(m0, i_2)
      count = Sub(twice, i_1)
      stop = Add(start, count)
      used = Slice(padded, start, stop, i_1)
      turned = Transpose<perm = [0, 2, 1]>(used)
      y = MatMul(x, turned)
    """
    return _parsed(_LENGTH + body, "float[b,m,16] x", {"b": (1, 2), "m": (1, 19)}, table=_floats(1, 9, 16))


def projected_heads() -> Graph:
    """Products of rows with a weight of three dimensions, and back (multi-head attention in JAX and Keras)."""
    body = """
      heads = Einsum<equation = "btd,edh->beth">(x, w)
      scores = Einsum<equation = "beth,besh->bets">(heads, heads)
      shares = Softmax<axis = -1>(scores)
      mixed = Einsum<equation = "bets,besh->beth">(shares, heads)
      y = Einsum<equation = "beth,ehd->btd">(mixed, v)
    """
    weights = {"w": _floats(2, 16, 8) / 4, "v": _floats(2, 8, 16)}
    return _parsed(body, "float[b,t,16] x", {"b": (1, 3), "t": (1, 37)}, **weights)


def bucketed_positions() -> Graph:
    """A decoder's step: the last row's attention to all, with a bias by the logarithm of the distance (T5)."""
    body = """
      at = Range(zero, m, one)
      rows = Unsqueeze(at, i_1)
      columns = Unsqueeze(at, i_0)
      far0 = Sub(columns, rows)
      far1 = Min(far0, i_0)
      far = Neg(far1)
      is_near = Less(far, half)
      real = Cast<to = 1>(far)
      share = Div(real, near)
      log0 = Log(share)
      log1 = Div(log0, scale)
      log2 = Mul(log1, near)
      log3 = Cast<to = 7>(log2)
      log4 = Add(log3, half)
      large = Min(log4, greatest)
      bucket = Where(is_near, far, large)
      bias0 = Gather<axis = 0>(table, bucket)
      bias1 = Transpose<perm = [2, 0, 1]>(bias0)
      bias2 = Unsqueeze(bias1, i_0)
      bias = Slice(bias2, i_m1, end, i_2)
      last = Slice(x, i_m1, end, i_1)
      q0 = Reshape(last, i_0_1_2_8)
      k0 = Reshape(x, i_0_0_2_8)
      q = Transpose<perm = [0, 2, 1, 3]>(q0)
      k = Transpose<perm = [0, 2, 3, 1]>(k0)
      v = Transpose<perm = [0, 2, 1, 3]>(k0)
      z0 = MatMul(q, k)
      z = Add(z0, bias)
      p = Softmax<axis = -1>(z)
      o = MatMul(p, v)
      o1 = Transpose<perm = [0, 2, 1, 3]>(o)
      y = Reshape(o1, i_0_0_16)
    """
    # 32 buckets for distances below 128, of which 16 are for a single distance each: T5's numbers.
    weights = {"half": np.array(16), "near": np.array(16, np.float32), "greatest": np.array(31)}
    weights |= {"scale": np.array(np.log(8), np.float32), "end": np.array([1 << 62]), "table": _floats(32, 2)}
    return _parsed(_LENGTH + body, "float[b,m,16] x", {"b": (1, 2), "m": (17, 64)}, **weights)


GRAPHS = (
    full_and_sliding_masks,
    descending_positions,
    tiled_rows,
    padded_embeddings,
    projected_heads,
    bucketed_positions,
)
