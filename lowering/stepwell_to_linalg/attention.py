"""Lowering of whole attention kernels: two contractions, and the softmax between them.

Query, key and value are read in place: kernels include the transposes, slices and reshapes before and after
attention, which become views. Scores are computed with the queries innermost, `scores[key, query]`, so a vector
holds one key's scores for many queries. The key is then read in its own layout (one element for all lanes), maximum
and sum are taken lane by lane, and the weights of one key are contiguous for the product with the value.

    %0 = "stepwell.attention"(%q, %k, %v) {scale = 0.125}
    // -->
    %transposed = linalg.generic {(b, h, d, q)} : %q[b, h, q, d] * 0.125
    %scores = linalg.generic {(b, h, k, q) reduces d} : %k[b, h, k, d] * %transposed[b, h, d, q]
    %greatest = linalg.generic {(b, h, q) reduces k}
    %weights = linalg.generic {(b, h, k, q)} : exp(%scores - %greatest)
    %total = linalg.generic {(b, h, q) reduces k}
    %sum = linalg.generic {(b, h, q, v) reduces k} : %weights[b, h, k, q] * %v[b, h, k, v]
    %result = linalg.generic {(b, h, q, v)} : %sum / %total

With few queries, most lanes would be idle: `few_queries` lowers such kernels.

A long key or value whose rows are not contiguous is first copied head by head, as every block of queries reads all
of it.

Loops are named by letters: `b`atch, `h`ead (of key and value), `g` (the query heads that share one of those),
`q`uery, `k`ey, `d`epth, `v`alue depth, and `s`ingle. If the number of keys varies, temporaries have a dimension of
one element after that of the keys, by which loops over keys are distinguished from all others. The attribute
`stepwell.role` holds the role of an op, by which schedules find it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, func, linalg, tensor

from ...dialects import discardable
from ...dialects.core import Op
from ...dialects.registry import view_of
from ...dialects.stepwell.attention import FEW_QUERIES, UNBOUNDED, AttentionOp
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.paging import PagedAttentionOp
from ...machines.caches import near_bytes
from ...passes.infra.base import PassError
from ...passes.ir.values import element_type_of, shape_of
from ..builders import scalars
from ..builders.generics import multiply_add
from ..builders.indices import Index, at_most, value_of
from ..builders.scalars import number
from ..builders.tensors import EmitBody, empty, structured, with_shape
from .few_queries import FewQueries, limited
from .rules import LINALG_BY_ELEMENT, LINALG_KERNEL, Lowering
from .view_rows import PagedRows
from .views import TensorView

_Named = tuple[ir.Value, str]

# Minimum number of queries for which a key or value is copied: fewer queries are only a few blocks.
_FEW_QUERIES = 128


@LINALG_KERNEL.attach(AttentionOp, PagedAttentionOp)
def lower_kernel(kernel: func.FuncOp, target: Lowering) -> None:
    """Converts a kernel around one attention op into linalg ops that write into a destination argument.

    Raises:
        PassError: the kernel has another form.
    """
    block = kernel.regions[0].blocks[0]
    *ops, returned = [op.operation for op in block.operations]
    views = [view_of(op) for op in ops]
    anchors = [view for view in views if isinstance(view, AttentionOp | PagedAttentionOp)]
    if len(anchors) != 1 or any(view is None for view in views):
        raise PassError(f"an attention kernel must have one attention op, but has {len(anchors)}", kernel.location)
    result = returned.operands[0]
    destination = block.add_argument(result.type, kernel.location)
    for argument in block.arguments:
        argument.set_type(scalars.signless(argument.type))
    with ir.InsertionPoint(returned), anchors[0].operation.location:
        lowering = _lowering(kernel, anchors[0], target)
        made = lowering.lower(_target(anchors[0], destination))
        returned.operands[0] = with_shape(made, shape_of(destination))
    for op in reversed(ops):
        op.erase()
    arguments = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, [destination.type]))


def _lowering(kernel: func.FuncOp, op: AttentionOp | PagedAttentionOp, target: Lowering) -> _Attention | FewQueries:
    varying = discardable.KEYS.read(kernel)
    if isinstance(op, PagedAttentionOp):
        key, value = (_pool(item) for item in (op.key, op.value))
        most = shape_of(op.mask)[3]
        scales = [None if item is None else _pool(item) for item in (op.key_scales, op.value_scales)]
        parts = shape_of(op.query)[3] // shape_of(op.key)[2]
        paged = PagedRows(_integers(op.pages), _integers(op.starts), op.page_size, *scales, parts=parts)
        return FewQueries(op, _source(op.query), key, value, _mask_of(op), _keys(kernel, varying, most), most, paged)
    if LINALG_BY_ELEMENT in target.rules or shape_of(op.query)[2] > FEW_QUERIES or min(op.before, op.after) < UNBOUNDED:
        return _Attention(op, varying is not None, near_bytes(target.machine))
    most = shape_of(op.key)[2]
    keys = _keys(kernel, varying, most)
    return FewQueries(op, _source(op.query), _source(op.key), _source(op.value), _mask_of(op), keys, most)


def _keys(kernel: func.FuncOp, varying: Sequence[int] | None, most: int) -> Index:
    """Returns the number of keys of a call."""
    if varying is None:
        return most
    table = kernel.regions[0].blocks[0].arguments[discardable.TABLE_ARGUMENT.required(kernel)]
    entry = tensor.extract(table, [value_of(varying[0])])
    return at_most(arith.index_cast(ir.IndexType.get(), entry), most)


def _mask_of(op: AttentionOp | PagedAttentionOp) -> TensorView | np.generic | None:
    if op.mask is None:
        return None
    constant = _constant(op.mask)
    if constant is not None:
        return constant
    view = _source(op.mask)
    return TensorView(view.base, (*[None] * (4 - len(view.axes)), *view.axes))


def _integers(value: ir.Value) -> ir.Value:
    """Returns integers, which may be a constant inside of the kernel."""
    constant = None if isinstance(value.owner, ir.Block) else _constant(value)
    if constant is None:
        return value
    element = ir.IntegerAttr.get(element_type_of(value), int(constant))
    return arith.constant(value.type, ir.DenseElementsAttr.get_splat(value.type, element))


def _pool(value: ir.Value) -> TensorView:
    """Returns a pool [heads, rows, depth] as a view [1, heads, rows, depth]."""
    view = _source(value)
    return TensorView(view.base, (None, *view.axes))


def _source(value: ir.Value) -> TensorView:
    """Returns `value` as a view of an argument of the kernel."""
    if isinstance(value.owner, ir.Block):
        return TensorView.whole(value)
    op = _movement(value.owner.operation)
    return _source(op.operation.operands[0]).of(op)


def _target(anchor: AttentionOp | PagedAttentionOp, destination: ir.Value) -> TensorView:
    """Returns the result of the attention op as a view of the kernel's destination."""
    chain: list[Op] = []
    value = anchor.result
    while (user := next(iter(value.uses)).owner.operation).name != "func.return":
        chain.append(_movement(user))
        value = user.results[0]
    view = TensorView.whole(destination)
    for op in reversed(chain):
        view = view.before(op)
    return view


def _constant(value: ir.Value) -> np.generic | None:
    """Returns the number that all elements of `value` are, if it is a constant inside of the kernel."""
    while not isinstance(value.owner, ir.Block) and value.owner.name != ConstantOp.OPERATION_NAME:
        value = _movement(value.owner.operation).operation.operands[0]
    return None if isinstance(value.owner, ir.Block) else ConstantOp(value.owner.operation).value.flat[0]


def _movement(op: ir.Operation) -> Op:
    view = view_of(op)
    if view is None or len(op.operands) != 1:
        raise PassError(f"'{op.name}' op cannot be part of an attention kernel", op.location)
    return view


class _Attention:
    """Emits the ops of one attention; the insertion point and location are set."""

    def __init__(self, op: AttentionOp, has_varying_keys: bool, near: int) -> None:
        self._op, self._near_bytes = op, near
        self._keys = "ks" if has_varying_keys else "k"
        self._query, self._key, self._value = map(_source, (op.query, op.key, op.value))
        self._heads = self._key.shape[1]
        self._shared = self._query.shape[1] // self._heads
        # Scores and sums of shorter floats have 32 bits.
        self._stored = element_type_of(self._query.base)
        self._element = scalars.compute_type(self._stored)
        self._outer = "bhg" if self._shared > 1 else "bh"
        sizes = dict(zip("bhqd", self._query.shape, strict=True)) | dict(zip("bhkv", self._value.shape, strict=True))
        self._sizes = sizes | {"g": self._shared}

    def lower(self, target: TensorView) -> ir.Value:
        """Emits all ops; returns the result, in the form of the base of `target`."""
        factor = number(self._op.scale, self._element)
        query, rows, scores = self._named(self._query, "bhqd"), f"{self._outer}q", f"{self._outer}{self._keys}q"
        transposed = self._map(
            "query", [query], f"{self._outer}dq", lambda item: arith.mulf(scalars.widen(item), factor)
        )
        key, value = self._gathered("key", self._key, "bhkd"), self._gathered("value", self._value, "bhkv")
        made = self._contract("scores", (key, transposed), self._new(scores), "d")
        made = self._banded(self._masked(made))
        # The maximum starts from a finite number, because -inf - (-inf) would be NaN for queries that attend to
        # nothing.
        least = float(np.finfo(np.float32).min) if self._op.zero_empty else -math.inf
        greatest = self._reduce("greatest", made, rows, least, _greater)
        # The weights overwrite the scores.
        weights = self._generic("weights", [greatest], made, scores, _power), scores
        total = self._reduce("total", weights, rows, 0.0, lambda item, sum_: arith.addf(sum_, item))
        inverse = self._map("inverse", [total], rows, self._inverse)
        result = self._named(target, "bhqv")
        product = self._contract("sum", (weights, value), self._new(result[1]), "k")
        return self._map("result", [product, inverse], result[1], self._result, result[0])[0]

    def _result(self, product: ir.Value, inverse: ir.Value) -> ir.Value:
        return scalars.narrow(arith.mulf(product, inverse), self._stored)

    def _inverse(self, total: ir.Value) -> ir.Value:
        quotient = arith.divf(number(1, self._element), total)
        if not self._op.zero_empty:
            return quotient
        nothing = number(0, self._element)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, total, nothing), nothing, quotient)

    def _gathered(self, role: str, view: TensorView, names: str) -> _Named:
        """Returns a key or value, copied head by head if its rows are not contiguous and are often read from memory."""
        named = self._named(view, names)
        read = 4 * self._sizes["k"] * (self._sizes["d"] + self._sizes["v"])
        # Few keys and values stay in the first-level cache between blocks of queries, whatever their layout.
        if named[1].endswith(names[2:]) or read <= self._near_bytes or self._sizes["q"] < _FEW_QUERIES:
            return named
        kept = names.replace("k", self._keys)
        out, _ = self._new(kept, self._stored)
        return self._map(role, [named], kept, lambda item: item, out)

    def _named(self, view: TensorView, names: str) -> _Named:
        """Returns the base of a view [b, heads, .., ..] with the loops that index it."""
        if names[1] == "h" and self._shared > 1 and view.shape[1] == self._heads * self._shared:
            view = view.split(1, (self._heads, self._shared))
            names = f"bhg{names[2:]}"
        # Dimensions of the base outside the view have one element.
        unseen = iter("xyzuw")
        seen = {axis: name for axis, name in zip(view.axes, names, strict=True) if axis is not None}
        return view.base, "".join(seen.get(axis) or next(unseen) for axis in range(len(shape_of(view.base))))

    def _masked(self, scores: _Named) -> _Named:
        if self._op.mask is None:
            return self._map("masked", [scores], scores[1], self._limited) if self._op.cap else scores
        constant = _constant(self._op.mask)
        if constant is not None:
            return self._masked_alike(scores, constant)
        mask = self._mask(_source(self._op.mask))
        if isinstance(element_type_of(mask[0]), ir.FloatType):
            return self._map("masked", [scores, mask], scores[1], lambda *pair: _add(self._limited(pair[0]), pair[1]))

        def select(score: ir.Value, allowed: ir.Value) -> ir.Value:
            bit = scalars.unpack(allowed, np.dtype(np.bool_))
            return arith.select(bit, self._limited(score), number(self._op.masked, score.type))

        return self._map("masked", [scores, mask], scores[1], select)

    def _masked_alike(self, scores: _Named, mask: np.generic) -> _Named:
        """Returns scores with the same mask at all positions."""

        def body(score: ir.Value) -> ir.Value:
            if isinstance(mask, np.bool_):
                return self._limited(score) if mask else number(self._op.masked, score.type)
            return arith.addf(self._limited(score), number(float(mask), score.type))

        return self._map("masked", [scores], scores[1], body)

    def _limited(self, score: ir.Value) -> ir.Value:
        return limited(score, self._op.cap)

    def _banded(self, scores: _Named) -> _Named:
        """Sets the scores of keys outside the band to -inf."""
        before, after = self._op.before, self._op.after
        if min(before, after) >= UNBOUNDED:
            return scores

        def select(score: ir.Value) -> ir.Value:
            places = [linalg.IndexOp(scores[1].index(name)).result for name in "qk"]
            ahead = arith.subi(places[1], places[0])
            near = [arith.cmpi(arith.CmpIPredicate.sle, ahead, arith.constant(ahead.type, after))]
            near += [arith.cmpi(arith.CmpIPredicate.sge, ahead, arith.constant(ahead.type, -before))]
            return arith.select(arith.andi(*near), score, number(-math.inf, score.type))

        made = self._map("banded", [scores], scores[1], select)
        discardable.BAND.write(made[0].owner, [before, after])
        return made

    def _mask(self, view: TensorView) -> _Named:
        """Returns the mask with the queries innermost."""
        axes = (*[None] * (4 - len(view.axes)), *view.axes)
        base, names = self._named(TensorView(view.base, axes), "bhqk")
        names = "".join(name if size > 1 else "." for name, size in zip(names, shape_of(base), strict=True))
        if "q" not in names:
            return base, names
        order = "".join(name for name in f"{self._outer}{self._keys}q" if name in names or name == "s")
        out, _ = self._new(order, element_type_of(base))
        return self._map("mask", [(base, names)], order, lambda item: item, out)

    def _new(self, names: str, element: ir.Type | None = None) -> _Named:
        return empty([self._sizes.get(name, 1) for name in names], element or self._element), names

    def _map(
        self, role: str, inputs: Sequence[_Named], names: str, body: EmitBody, out: ir.Value | None = None
    ) -> _Named:
        """Emits `body` of the elements of the inputs, for all loops `names`."""
        base = self._new(names)[0] if out is None else out
        return self._generic(role, inputs, (base, names), names, lambda *items: body(*items[:-1])), names

    def _reduce(self, role: str, value: _Named, names: str, start: float, body: EmitBody) -> _Named:
        """Reduces `value` over the loops that are not in `names`, by `body(element, accumulator)`."""
        out = linalg.fill(number(start, self._element), outs=[self._new(names)[0]])
        return self._generic(role, [value], (out, names), value[1], body), names

    def _contract(self, role: str, factors: Sequence[_Named], out: _Named, reduced: str) -> _Named:
        """Emits the sum over the loop `reduced` of the products of two tensors."""
        start = linalg.fill(number(0, self._element), outs=[out[0]])
        discardable.ROLE.write(start.owner, f"{role} start")
        return self._generic(role, factors, (start, out[1]), out[1] + reduced, _multiply_add), out[1]

    def _generic(self, role: str, inputs: Sequence[_Named], out: _Named, loops: str, body: EmitBody) -> ir.Value:
        """Emits a linalg.generic over `loops`; those that `out` lacks are reduced."""
        positions = {name: ir.AffineExpr.get_dim(position) for position, name in enumerate(loops)}
        first = ir.AffineExpr.get_constant(0)
        maps = [[positions.get(name, first) for name in names] for _, names in (*inputs, out)]
        iterators = "".join("p" if name in out[1] else "r" for name in loops)
        (result,) = structured([value for value, _ in inputs], [out[0]], maps, iterators, body)
        discardable.ROLE.write(result.owner, role)
        discardable.LOOPS.write(result.owner, loops)
        return result


def _greater(score: ir.Value, best: ir.Value) -> ir.Value:
    """Returns the greater of two numbers. A NaN may get lost here; the exponential of the scores restores it."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, score, best), score, best)


def _power(greatest: ir.Value, score: ir.Value) -> ir.Value:
    return scalars.exp_of_normal(arith.subf(score, greatest))


def _add(score: ir.Value, mask: ir.Value) -> ir.Value:
    return arith.addf(score, scalars.widen(mask))


def _multiply_add(left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    return multiply_add(scalars.widen(left), scalars.widen(right), total)
