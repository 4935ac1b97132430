"""Small models with the parts of well-known ones that compute shapes in their own ways."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from .graphs import Graph, _floats

_NUMBERS = {name: np.array(value) for value, name in enumerate(("zero", "one", "two", "three", "four"))}
_IMAGE = "float[n,3,h,w] x"


def _parsed(body: str, inputs: str, dims: dict, more: str = "", **weights: np.ndarray) -> Graph:
    """A model from the text of its nodes.

    A name such as `i_1_2` in it is a constant list of integers, `zero` to `four` are scalars; `more` has more opsets.
    """
    text = f'<ir_version: 8, opset_import: ["" : 18{more}]> g ({inputs}) => (float[?] y) {{ {body} }}'
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    names = {name for node in model.graph.node for name in node.input}
    constants = {name: array for name, array in _NUMBERS.items() if name in names}
    for name in sorted(name for name in names if name.startswith("i_")):
        constants[name] = np.array([int(item.replace("m", "-")) for item in name.split("_")[1:]])
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (constants | weights).items()
    )
    return model, dims


def patches() -> Graph:
    """The unfolding of an image resized to whole patches, attention over them, and folding (MobileViT)."""
    body = """
      s = Shape(x)
      n = Gather<axis = 0>(s, zero)
      h = Gather<axis = 0>(s, two)
      w = Gather<axis = 0>(s, three)
      hf = Cast<to = 1>(h)
      wf = Cast<to = 1>(w)
      hd = Div(hf, patch)
      wd = Div(wf, patch)
      hc = Ceil(hd)
      wc = Ceil(wd)
      hm = Mul(hc, patch)
      wm = Mul(wc, patch)
      nh = Cast<to = 7>(hm)
      nw = Cast<to = 7>(wm)
      nh1 = Unsqueeze(nh, i_0)
      nw1 = Unsqueeze(nw, i_0)
      size = Concat<axis = 0>(nh1, nw1)
      outer = Slice(s, i_0, i_2)
      whole = Concat<axis = 0>(outer, size)
      r = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , , whole)
      rows = Div(nh, two)
      columns = Div(nw, two)
      all = Mul(rows, columns)
      nc = Mul(n, channels)
      part = Mul(nc, rows)
      part1 = Unsqueeze(part, i_0)
      columns1 = Unsqueeze(columns, i_0)
      all1 = Unsqueeze(all, i_0)
      n1 = Unsqueeze(n, i_0)
      shape0 = Concat<axis = 0>(part1, i_2, columns1, i_2)
      a = Reshape(r, shape0)
      b = Transpose<perm = [0, 2, 1, 3]>(a)
      shape1 = Concat<axis = 0>(n1, i_8, all1, i_4)
      c = Reshape(b, shape1)
      d = Transpose<perm = [0, 3, 2, 1]>(c)
      n4 = Mul(n, four)
      n41 = Unsqueeze(n4, i_0)
      shape2 = Concat<axis = 0>(n41, all1, i_8)
      e = Reshape(d, shape2)
      q = MatMul(e, wq)
      k = MatMul(e, wk)
      kt = Transpose<perm = [0, 2, 1]>(k)
      z = MatMul(q, kt)
      p = Softmax<axis = -1>(z)
      o = MatMul(p, e)
      added = Add(o, e)
      shape3 = Concat<axis = 0>(n1, i_4, all1, i_8)
      f = Reshape(added, shape3)
      f1 = Transpose<perm = [0, 3, 2, 1]>(f)
      shape4 = Concat<axis = 0>(part1, columns1, i_2_2)
      f2 = Reshape(f1, shape4)
      f3 = Transpose<perm = [0, 2, 1, 3]>(f2)
      shape5 = Concat<axis = 0>(n1, i_8, nh1, nw1)
      f4 = Reshape(f3, shape5)
      inner = Slice(s, i_2, i_4)
      back = Concat<axis = 0>(outer, inner)
      y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(f4, , , back)
    """
    weights = {"channels": np.array(8), "patch": np.array(2, np.float32), "wq": _floats(8, 8), "wk": _floats(8, 8)}
    return _parsed(body, "float[n,8,h,w] x", {"n": (1, 3), "h": (2, 11), "w": (2, 9)}, **weights)


def resolutions() -> Graph:
    """Branches at a quarter, an eighth and a sixteenth of the resolution that exchange sums (HRNet)."""
    body = """
      a0 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w0)
      a = Relu(a0)
      b0 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, w1)
      b = Relu(b0)
      c0 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, w1)
      c = Relu(c0)
      d0 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(c, w1)
      d = Relu(d0)
      sb = Shape(b)
      sc = Shape(c)
      inner_b = Slice(sb, i_2, i_4)
      inner_c = Slice(sc, i_2, i_4)
      outer = Slice(sb, i_0, i_2)
      fc = Conv(c, p)
      fd = Conv(d, p)
      tb = Concat<axis = 0>(outer, inner_b)
      tc = Concat<axis = 0>(outer, inner_c)
      uc = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">
        (fc, , , tb)
      ud = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(fd, , , tb)
      sum0 = Add(b, uc)
      sum1 = Add(sum0, ud)
      top = Relu(sum1)
      db = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, w1)
      dd = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">
        (fd, , , tc)
      sum2 = Add(c, db)
      sum3 = Add(sum2, dd)
      middle0 = Relu(sum3)
      middle = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(middle0, , , tb)
      y = Concat<axis = 1>(top, middle)
    """
    weights = {"w0": _floats(8, 3, 3, 3), "w1": _floats(8, 8, 3, 3) / 8, "p": _floats(8, 8, 1, 1)}
    return _parsed(body, _IMAGE, {"n": (1, 3), "h": (5, 40), "w": (5, 27)}, **weights)


def asymmetric() -> Graph:
    """Branches of asymmetric convolutions and of pools, some without padding, joined (Inception)."""
    body = """
      s0 = Conv<strides = [2, 2]>(x, w0)
      s1 = Relu(s0)
      s = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(s1)
      a0 = Conv<pads = [0, 3, 0, 3]>(s, w17)
      a1 = Relu(a0)
      a = Conv<pads = [3, 0, 3, 0]>(a1, w71)
      b0 = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]>(s)
      b = Conv(b0, p)
      c0 = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1], count_include_pad = 1>(s)
      c = Conv(c0, p)
      d1 = Conv<pads = [0, 1, 0, 1]>(s, w13)
      d2 = Conv<pads = [1, 0, 1, 0]>(s, w31)
      joined = Concat<axis = 1>(a, b, c, d1, d2)
      down = Conv<strides = [2, 2]>(joined, v)
      pool = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(joined)
      both = Concat<axis = 1>(down, pool)
      least = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(both)
      g = GlobalAveragePool(least)
      flat = Flatten(g)
      y = MatMul(flat, f)
    """
    weights = {"w17": _floats(8, 8, 1, 7) / 8, "w71": _floats(8, 8, 7, 1) / 8, "w13": _floats(8, 8, 1, 3) / 4}
    weights |= {"w0": _floats(8, 3, 3, 3) / 4, "w31": _floats(8, 8, 3, 1) / 4, "p": _floats(8, 8, 1, 1) / 4}
    weights |= {"v": _floats(8, 40, 3, 3) / 16, "f": _floats(48, 5) / 8}
    return _parsed(body, _IMAGE, {"n": (1, 3), "h": (23, 60), "w": (31, 37)}, **weights)


def detector() -> Graph:
    """Heads at two scales, with anchors on grids that are made from the scales' sizes in floats (YOLO)."""
    stem = """
      f1 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w0)
      m1 = MaxPool<kernel_shape = [5, 5], pads = [2, 2, 2, 2]>(f1)
      j1 = Concat<axis = 1>(f1, m1)
      k1 = Conv(j1, pw)
      f20 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(k1, w1)
      f2 = Relu(f20)
      s1 = Shape(f1)
      inner = Slice(s1, i_2, i_4)
      up = Resize<mode = "nearest">(f2, , scales)
      cut = Slice(up, i_0_0, inner, i_2_3)
      f3 = Add(f1, cut)
    """
    head = """
      o{0} = Conv(f{0}, head)
      so{0} = Shape(o{0})
      n{0} = Gather<axis = 0>(so{0}, i_0)
      h{0} = Gather<axis = 0>(so{0}, two)
      w{0} = Gather<axis = 0>(so{0}, three)
      h1{0} = Unsqueeze(h{0}, i_0)
      w1{0} = Unsqueeze(w{0}, i_0)
      t{0} = Concat<axis = 0>(n{0}, i_3_7, h1{0}, w1{0})
      r{0} = Reshape(o{0}, t{0})
      p{0} = Transpose<perm = [0, 1, 3, 4, 2]>(r{0})
      g{0} = Sigmoid(p{0})
      xy{0}, wh{0}, class{0} = Split<axis = 4>(g{0}, i_2_2_3)
      hf{0} = Cast<to = 1>(h{0})
      wf{0} = Cast<to = 1>(w{0})
      ys{0} = Range(none, hf{0}, unit)
      xs{0} = Range(none, wf{0}, unit)
      yc{0} = Unsqueeze(ys{0}, i_1)
      xr{0} = Unsqueeze(xs{0}, i_0)
      hw{0} = Concat<axis = 0>(h1{0}, w1{0})
      gy{0} = Expand(yc{0}, hw{0})
      gx{0} = Expand(xr{0}, hw{0})
      gy1{0} = Unsqueeze(gy{0}, i_2)
      gx1{0} = Unsqueeze(gx{0}, i_2)
      grid0{0} = Concat<axis = -1>(gx1{0}, gy1{0})
      grid1{0} = Unsqueeze(grid0{0}, i_0_1)
      grid{0} = Sub(grid1{0}, half)
      at0{0} = Mul(xy{0}, twice)
      at1{0} = Add(at0{0}, grid{0})
      at{0} = Mul(at1{0}, stride{0})
      wh0{0} = Mul(wh{0}, twice)
      wh1{0} = Mul(wh0{0}, wh0{0})
      wh2{0} = Mul(wh1{0}, anchors)
      box{0} = Concat<axis = 4>(at{0}, wh2{0}, class{0})
      area{0} = Mul(h{0}, w{0})
      count{0} = Mul(area{0}, three)
      c1{0} = Unsqueeze(count{0}, i_0)
      flat{0} = Concat<axis = 0>(n{0}, c1{0}, i_7)
      out{0} = Reshape(box{0}, flat{0})
    """
    body = stem + head.format(3) + head.format(2) + "y = Concat<axis = 1>(out3, out2)"
    numbers = {"none": 0, "unit": 1, "half": 0.5, "twice": 2, "stride3": 2, "stride2": 4, "scales": [1, 1, 2, 2]}
    weights = {name: np.array(value, np.float32) for name, value in numbers.items()}
    weights |= {"w0": _floats(8, 3, 3, 3) / 4, "w1": _floats(8, 8, 3, 3) / 8, "pw": _floats(8, 16, 1, 1) / 4}
    weights |= {"head": _floats(21, 8, 1, 1), "anchors": np.abs(_floats(1, 3, 1, 1, 2)) + 1}
    return _parsed(body, _IMAGE, {"n": (1, 3), "h": (4, 20), "w": (4, 23)}, **weights)


def transposed_attention() -> Graph:
    """Channels in splits that add up, and attention between channels over all places (EdgeNeXt)."""
    return _transposed_attention(_floats(2, 1, 1))


def plain_transposed_attention() -> Graph:
    """The same with a temperature of 1, without which the products have the form of attention of varying depth."""
    return _transposed_attention(np.ones((2, 1, 1), np.float32))


def _transposed_attention(temperature: np.ndarray) -> Graph:
    body = """
      s0, s1, s2, s3 = Split<axis = 1>(x, i_2_2_2_2)
      a0 = Conv<pads = [1, 1, 1, 1], group = 2>(s0, d0)
      b0 = Add(a0, s1)
      a1 = Conv<pads = [1, 1, 1, 1], group = 2>(b0, d0)
      b1 = Add(a1, s2)
      a2 = Conv<pads = [1, 1, 1, 1], group = 2>(b1, d0)
      j = Concat<axis = 1>(a0, a1, a2, s3)
      s = Shape(j)
      n = Gather<axis = 0>(s, i_0)
      h = Gather<axis = 0>(s, i_2)
      w = Gather<axis = 0>(s, i_3)
      hw = Mul(h, w)
      t0 = Concat<axis = 0>(n, i_8, hw)
      r = Reshape(j, t0)
      tokens = Transpose<perm = [0, 2, 1]>(r)
      norm = LayerNormalization(tokens, ls, lb)
      qkv0 = MatMul(norm, wqkv)
      t1 = Concat<axis = 0>(n, hw, i_3_2_4)
      qkv1 = Reshape(qkv0, t1)
      qkv = Transpose<perm = [2, 0, 3, 4, 1]>(qkv1)
      q0 = Gather<axis = 0>(qkv, zero)
      k0 = Gather<axis = 0>(qkv, one)
      v = Gather<axis = 0>(qkv, two)
      qs = Shape(q0)
      ql0 = ReduceL2<keepdims = 1>(q0, i_m1)
      ql1 = Max(ql0, tiny)
      ql = Expand(ql1, qs)
      q = Div(q0, ql)
      kl0 = ReduceL2<keepdims = 1>(k0, i_m1)
      kl1 = Max(kl0, tiny)
      kl = Expand(kl1, qs)
      k = Div(k0, kl)
      kt = Transpose<perm = [0, 1, 3, 2]>(k)
      z0 = MatMul(q, kt)
      z = Mul(z0, temperature)
      p = Softmax<axis = -1>(z)
      o0 = MatMul(p, v)
      o = Transpose<perm = [0, 3, 1, 2]>(o0)
      t2 = Concat<axis = 0>(n, hw, i_8)
      o1 = Reshape(o, t2)
      o2 = Add(tokens, o1)
      t3 = Concat<axis = 0>(n, h, w, i_8)
      o3 = Reshape(o2, t3)
      o4 = Transpose<perm = [0, 3, 1, 2]>(o3)
      y = Add(x, o4)
    """
    weights = {"d0": _floats(2, 1, 3, 3), "ls": _floats(8), "lb": _floats(8), "wqkv": _floats(8, 24)}
    weights |= {"tiny": np.array(1e-12, np.float32), "temperature": temperature}
    return _parsed(body, "float[n,8,h,w] x", {"n": (1, 3), "h": (1, 9), "w": (1, 8)}, **weights)


GRAPHS = (
    patches,
    resolutions,
    asymmetric,
    detector,
    transposed_attention,
    plain_transposed_attention,
)


def cached_attention() -> onnx.ModelProto:
    """GroupQueryAttention whose lengths of sequences are sums of the mask, as exporters of text generators write it."""
    body = """
      count = ReduceSum<keepdims = 0>(mask, i_1)
      last0 = Sub(count, one)
      last = Cast<to = 6>(last0)
      s = Shape(mask)
      total0 = Gather<axis = 0>(s, one)
      total = Cast<to = 6>(total0)
      q = MatMul(x, wq)
      k = MatMul(x, wk)
      v = MatMul(x, wv)
      y, keys, values = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>
        (q, k, v, past_keys, past_values, last, total, cosines, sines)
    """
    past = ", ".join(f"float[n,2,past,16] past_{name}" for name in ("keys", "values"))
    weights = {name: _floats(16, width) / 4 for name, width in (("wq", 64), ("wk", 32), ("wv", 32))}
    weights |= {"cosines": _floats(32, 8), "sines": _floats(32, 8)}
    inputs = f"float[n,length,16] x, int64[n,total] mask, {past}"
    model, _ = _parsed(body, inputs, {}, more=', "com.microsoft": 1', **weights)
    for name in ("keys", "values"):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return model
