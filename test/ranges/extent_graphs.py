"""Small models with parts whose extents follow from sizes by remainders, products, and iterations."""

from __future__ import annotations

from .graphs import Graph, _floats
from .model_graphs import _parsed


def whole_blocks() -> Graph:
    """Audio that is padded to whole blocks at its end, or at both ends, before convolutions and pooling (UNets)."""
    body = """
      s = Shape(x)
      n = Slice(s, i_2, i_3)
      negative = Neg(n)
      rest = Mod(negative, i_8)
      pads = Concat<axis = 0>(i_0_0_0_0_0, rest)
      p = Pad(x, pads)
      a = Conv<pads = [1, 1], strides = [2]>(p, w0)
      b = Relu(a)
      c = Conv<pads = [1, 1], strides = [2]>(b, w1)
      d = Relu(c)
      e = MaxPool<kernel_shape = [2], strides = [2]>(d)
      g = ConvTranspose<strides = [8]>(e, w2)
      i = Slice(g, i_0, n, i_2)
      half = Div(rest, i_2)
      other = Sub(rest, half)
      around = Concat<axis = 0>(i_0_0, half, i_0_0, other)
      q = Pad(x, around)
      r = Conv<strides = [4]>(q, w3)
      t = ReduceMax<keepdims = 1>(r, i_2)
      y = Add(i, t)
    """
    weights = {
        "w0": _floats(4, 2, 4) / 2,
        "w1": _floats(4, 4, 4) / 4,
        "w2": _floats(4, 2, 8) / 2,
        "w3": _floats(2, 2, 4),
    }
    return _parsed(body, "float[n,2,m] x", {"n": (1, 2), "m": (9, 44)}, **weights)


def distances() -> Graph:
    """Distances to stored points, one in each iteration of a loop (nearest neighbours of scikit-learn)."""
    body = """
      axes = Identity(i_1)
      last, rows = Scan<num_scan_inputs = 1,
        body = one (float[n, 4] all, float[4] point) => (float[n, 4] next, float[n] d) {
        e = Sub(all, point)
        q = Mul(e, e)
        d = ReduceSum<keepdims = 0>(q, axes)
        next = Identity(all)
      }>(x, points)
      y = Transpose<perm = [1, 0]>(rows)
    """
    return _parsed(body, "float[n,4] x", {"n": (1, 20)}, points=_floats(50, 4))


def attention_between_places() -> Graph:
    """Attention between all places of an image (diffusion UNets, DETR)."""
    body = """
      s = Shape(x)
      outer = Slice(s, i_0, i_2)
      sides = Slice(s, i_2, i_4)
      hw = ReduceProd<keepdims = 1>(sides, i_0)
      t0 = Concat<axis = 0>(outer, hw)
      r = Reshape(x, t0)
      tokens = Transpose<perm = [0, 2, 1]>(r)
      qkv = MatMul(tokens, wqkv)
      q0, k0, v0 = Split<axis = 2>(qkv, i_16_16_16)
      q1 = Reshape(q0, i_0_0_2_8)
      k1 = Reshape(k0, i_0_0_2_8)
      v1 = Reshape(v0, i_0_0_2_8)
      q = Transpose<perm = [0, 2, 1, 3]>(q1)
      k = Transpose<perm = [0, 2, 3, 1]>(k1)
      v = Transpose<perm = [0, 2, 1, 3]>(v1)
      z = MatMul(q, k)
      p = Softmax<axis = -1>(z)
      o0 = MatMul(p, v)
      o1 = Transpose<perm = [0, 2, 1, 3]>(o0)
      o2 = Reshape(o1, i_0_0_16)
      o3 = MatMul(o2, wo)
      o4 = Transpose<perm = [0, 2, 1]>(o3)
      o = Reshape(o4, s)
      y = Add(x, o)
    """
    dims = {"n": (1, 2), "h": (1, 6), "w": (1, 7)}
    return _parsed(body, "float[n,8,h,w] x", dims, wqkv=_floats(8, 48) / 4, wo=_floats(16, 8) / 4)


GRAPHS = (whole_blocks, distances, attention_between_places)
