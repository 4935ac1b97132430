"""The pass `stepwell-page-state`: keeps keys and values of past tokens in pages that all texts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from mlir import ir

from ...dialects.core import Op, spec_of
from ...dialects.dims import Dim, is_known
from ...dialects.registry import view_of
from ...dialects.stepwell.attention import UNBOUNDED, AttentionOp
from ...dialects.stepwell.elementwise import AddOp, CastOp, DivOp, MaximumOp, MulOp, SubOp
from ...dialects.stepwell.movement import ConcatOp, ExpandDimsOp
from ...dialects.stepwell.paging import MIDDLE, PagedAttentionOp, StoreRowsOp
from ...dialects.types import TensorSpec, tensor_type
from ..graph.patterns.paging import page_of, slots_in
from ..graph.values import dimension, dtype_of, is_float, numbered
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import (
    add_argument,
    add_result,
    body_of,
    dictionaries,
    dims_note,
    main_function,
    update_type,
    value_names,
)
from ..ir.locations import dominant
from ..ir.named_ops import ops_named
from ..ir.rewriting import defining_op
from .int4_rows import in_int4, rotated
from .int8_rows import in_int8, scales_of, wide

PAGE_TABLE, PAST = "page_table", "past"
"""Names of the inputs that the pass adds."""

_TEXTS, _HEADS, _TOKENS, _DEPTH = range(4)
"""Dimensions of keys and values."""

_INDEX = np.dtype(np.int64)

CacheForm = Literal["float", "int8", "int4"]
"""Elements of stored keys and values: floats as in the model, or integers with a scale for each row.

Rows of four bits are rotated.
"""


@dataclass(frozen=True)
class _Cache:
    """An input with keys or values of past tokens.

    Attributes:
        argument: the input.
        append: the op that appends those of new tokens.
        readers: the attentions that read the result.
    """

    argument: ir.BlockArgument
    append: ConcatOp
    readers: list[AttentionOp]


@register
@dataclass(frozen=True)
class PageStatePass(Pass):
    """Keep keys and values of past tokens in pages that all texts share, instead of in an array per batch.

    An input is paged if the model only appends to it along the third of its dimensions [texts, heads, tokens, depth],
    returns the result, and otherwise reads it as keys or values of attention, perhaps as f32. It becomes a pool
    [heads, rows, depth], and so does the output that continues it. A page is a number of consecutive rows. The table of
    pages holds, for each text, the page of its first tokens, of the next ones, and so on (Kwon et al.,
    "PagedAttention", SOSP 2023).

    Texts of different lengths end at the same position, as without pages: each begins at its position in the input
    `starts`, if the model has it, and at 0 otherwise. Attention reads no page before that position.

    Two inputs are added: `page_table`, i64[texts, pages of a text], and `past`, an array without elements whose
    first extent is the number of past tokens of the longest text, which the inputs that are now pools gave before.

    ```mlir
    func.func @main(%past: tensor<?x2x?x8xf32, ["batch", 2, "past", 8]>, ..) {
      %0 = "stepwell.concat"(%past, %new) {axis = 2 : i64}
      %1 = "stepwell.attention"(%query, %0, ..)
      return %1, %0
    // -->
    func.func @main(%pool: tensor<2x512x8xf32>, .., %page_table: tensor<?x16xi64, ["batch", 16]>,
        %past: tensor<?x0xi8, ["past", 0]>) {
      %0 = "stepwell.store_rows"(%pool, %new, %slots)
      %1 = "stepwell.paged_attention"(%query, %0, .., %page_table, %starts, %mask) {page_size = 16 : i64}
      return %1, %0
    ```

    With `cache="int8"`, the pools are int8, and each has a pool of scales f32[heads, rows, 1], which is an input and an
    output too: a new row becomes `round(row / scale)`, where its scale is `max(abs(row)) / 127`.

    With `cache="int4"`, keys, values and queries are multiplied by an orthogonal matrix first, and results by its
    inverse. A new row becomes `round(row / scale + 7.5)`, where its scale is `max(abs(row)) / 7.5`. Pools are
    ui8, with two of these numbers in a byte.

    Preconditions: shapes are known, as numbers or expressions over sizes.

    Attributes:
        page_size: number of tokens in a page.
        pages: number of pages in a pool.
        pages_of_text: maximum number of pages of a text.
        starts: the name of an input i64[texts] with the position at which each text begins.
        cache: the elements of stored rows: "float" for those of the model, "int8", or "int4".
    """

    name = "stepwell-page-state"
    page_size: int = 16
    pages: int = 256
    pages_of_text: int = 64
    starts: str = "starts"
    cache: CacheForm = "float"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Pages all caches of @main.

        Raises:
            PassError: there are none, or one cannot be paged.
        """
        if min(self.page_size, self.pages, self.pages_of_text) < 1:
            raise PassError("the size of a page and the numbers of pages must be at least 1", op.location)
        main = main_function(op)
        caches = [cache for argument in body_of(main).arguments if (cache := _cache(argument)) is not None]
        if not caches:
            raise PassError(
                "@main has no input [texts, heads, tokens, depth] to which it appends keys or values of new tokens, "
                "which only attention reads, and which it returns",
                main.location,
            )
        names = value_names(main, "arg_attrs", "input")
        shape = spec_of(caches[0].append.result).shape
        for cache in caches:
            self._check(cache, shape, names[cache.argument.arg_number])
        starts = body_of(main).arguments[names.index(self.starts)] if self.starts in names else None
        texts, past = (spec_of(caches[0].argument).shape[axis] for axis in (_TEXTS, _TOKENS))
        for name in (PAGE_TABLE, PAST):
            if name in names:
                raise PassError(
                    f"there is an input called '{name}' already, which is the name of one that is added", main.location
                )
        table = add_argument(main, PAGE_TABLE, tensor_type(TensorSpec((texts, self.pages_of_text), _INDEX)))
        add_argument(main, PAST, tensor_type(TensorSpec((past, 0), np.dtype(np.int8))))
        with ir.InsertionPoint.at_block_begin(body_of(main)), ir.Location.name(PAGE_TABLE):
            if starts is None:
                starts = MulOp(numbered(texts), dimension(0)).result
            slots = self._slots(table, starts, past, shape[_TOKENS] - past)
        scales = {pool: by for cache in caches for pool, by in self._store(main, cache, slots)}
        for inner in ops_named(main, AttentionOp.OPERATION_NAME):
            if any(defining_op(_stored(value), StoreRowsOp) for value in list(inner.operands)[1:3]):
                self._attend(AttentionOp(inner), table, starts, scales)
        _update_signature(main)

    def _check(self, cache: _Cache, shape: tuple[Dim, ...], name: str) -> None:
        """Checks that a cache has the texts and tokens of the first one, whose shape after the step is given."""
        found = spec_of(cache.append.result).shape
        if not all(map(is_known, found)):
            raise PassError(
                f"the shape of input '{name}' is not known: run stepwell-infer-shapes first",
                cache.append.operation.location,
            )
        if (found[_TEXTS], found[_TOKENS]) != (shape[_TEXTS], shape[_TOKENS]):
            raise PassError(
                f"input '{name}' has other texts or tokens than the first input with keys and values",
                cache.append.operation.location,
            )
        for reader in cache.readers:
            if min(reader.before, reader.after) < UNBOUNDED:
                raise PassError(
                    f"the attention '{dominant(reader.operation.location)}' sees a band of keys by their positions; "
                    "page its state before bands are recognised",
                    reader.operation.location,
                )

    def _slots(self, table: ir.Value, starts: ir.Value, first: Dim, count: Dim) -> ir.Value:
        """Returns the slots of `count` positions from `first` on, i64[texts, count]."""
        positions = SubOp(AddOp(numbered(count), dimension(first)), ExpandDimsOp(starts, axes=(1,))).result
        positions = MaximumOp(positions, dimension(0)).result
        page = page_of(table, DivOp(positions, dimension(self.page_size)).result)
        return slots_in(page, positions, self.page_size)

    def _store(self, main: ir.Operation, cache: _Cache, slots: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """Makes an input a pool, and the op that appended to it one that stores rows.

        Returns:
            The result, and the scales of its rows; [] if it has none.
        """
        _, heads, _, depth = spec_of(cache.argument).shape
        pool = TensorSpec((heads, self.page_size * self.pages, depth), spec_of(cache.argument).dtype)
        old, rows = cache.append.operation, cache.append.rhs
        if self.cache == "float":
            cache.argument.set_type(tensor_type(pool))
            with old.location, ir.InsertionPoint(old):
                made = StoreRowsOp(cache.argument, rows, slots).result
            cache.append.result.replace_all_uses_with(made)
            old.erase()
            return []
        name = value_names(main, "arg_attrs", "input")[cache.argument.arg_number]
        with old.location, ir.InsertionPoint(old):
            numbers, scales = self._numbers(rows, depth)
        stored = TensorSpec((*pool.shape[:2], spec_of(numbers).shape[-1]), dtype_of(numbers))
        cache.argument.set_type(tensor_type(stored))
        kind = tensor_type(TensorSpec((*pool.shape[:2], 1), np.dtype(np.float32)))
        factors = add_argument(main, f"{name}.scale", kind)
        with old.location, ir.InsertionPoint(old):
            made = StoreRowsOp(cache.argument, numbers, slots).result
            stored = StoreRowsOp(factors, scales, slots).result
        cache.append.result.replace_all_uses_with(made)
        old.erase()
        add_result(main, f"{name}.scale", stored)
        return [(made, stored)]

    def _numbers(self, rows: ir.Value, depth: Dim) -> tuple[ir.Value, ir.Value]:
        """Returns new rows as integers, and their scales.

        Raises:
            PassError: two numbers of four bits do not fill each byte.
        """
        if self.cache == "int8":
            scales = scales_of(rows)
            return in_int8(rows, scales), scales
        if not isinstance(depth, int) or depth % 2:
            raise PassError(f"keys and values of {depth} elements are no pairs for bytes", ir.Location.current)
        turned = rotated(wide(rows), depth)
        scales = scales_of(turned, MIDDLE)
        return in_int4(turned, scales, depth), scales

    def _attend(
        self, attention: AttentionOp, table: ir.Value, starts: ir.Value, scales: Mapping[ir.Value, ir.Value]
    ) -> None:
        """Makes an attention read keys and values in the pools, with the scales of these if they have any.

        Raises:
            PassError: it cannot, because of its operands.
        """
        old, pools = attention.operation, tuple(map(_stored, (attention.key, attention.value)))
        reason = None
        if not all(defining_op(value, StoreRowsOp) for value in pools):
            reason = "only its keys or only its values can be paged"
        elif attention.mask is None or spec_of(attention.mask).rank != 4:
            reason = "it has no mask with four dimensions, by which the number of its keys is known"
        elif not is_float(attention.mask) and attention.masked != -np.inf:
            reason = "it masks with a finite number instead of minus infinity"
        if reason is not None:
            raise PassError(f"the state of attention '{dominant(old.location)}' has no pages: {reason}", old.location)
        options = {"scale": attention.scale, "zero_empty": attention.zero_empty, "cap": attention.cap}
        with old.location, ir.InsertionPoint(old):
            query = attention.query
            if self.cache == "int4":
                query = rotated(query, _depth(query))
            operands = (query, *pools, table, starts, attention.mask, *map(scales.get, pools))
            made = PagedAttentionOp(*operands, page_size=self.page_size, **options).result
            if self.cache == "int4":
                made = rotated(made, _depth(made), back=True)
        attention.result.replace_all_uses_with(made)
        read = {attention.key, attention.value}
        old.erase()
        for value in read:
            made = defining_op(value, CastOp)
            if made is not None and not list(value.uses):
                made.operation.erase()


def _depth(rows: ir.Value) -> int:
    """Returns the number of elements of rows, which `_numbers` has checked."""
    depth = spec_of(rows).shape[-1]
    assert isinstance(depth, int)
    return depth


def _cache(argument: ir.BlockArgument) -> _Cache | None:
    """Returns an input as a cache; None if it is used in another way."""
    uses = list(argument.uses)
    view = view_of(uses[0].owner) if len(uses) == 1 and uses[0].operand_number == 0 else None
    if not isinstance(view, ConcatOp) or view.axis % 4 != _TOKENS:  # attention has operands of rank 4
        return None
    uses = list(view.result.uses)
    casts = [made for use in uses if (made := view_of(use.owner)) is not None and _is_widening(made)]
    uses = [use for use in uses if use.owner.operation not in [op.operation for op in casts]]
    readers, is_returned = [], False
    for use in [*uses, *(use for op in casts for use in op.operation.results[0].uses)]:
        reader = view_of(use.owner)
        if isinstance(reader, AttentionOp) and use.operand_number in (1, 2):
            readers.append(reader)
        elif use.owner.name == "func.return":
            is_returned = True
        else:
            return None
    return _Cache(argument, view, readers) if is_returned and readers else None


def _is_widening(view: Op) -> bool:
    """Returns whether an op converts shorter floats to the f32 in which attention computes."""
    return isinstance(view, CastOp) and is_float(view.input) and dtype_of(view.result) == np.float32


def _stored(rows: ir.Value) -> ir.Value:
    """Returns keys or values before they are widened: attention reads them as they are stored."""
    made = defining_op(rows, CastOp)
    return made.input if made is not None and defining_op(made.input, StoreRowsOp) else rows


def _update_signature(main: ir.Operation) -> None:
    """Sets the type of @main, and the dimensions that are noted on its inputs and outputs."""
    update_type(main)
    *_, returned = body_of(main).operations
    for key, values in (("arg_attrs", body_of(main).arguments), ("res_attrs", returned.operands)):
        notes = [
            ir.DictAttr.get({item.name: item.attr for item in old} | dims_note(value))
            for value, old in zip(values, dictionaries(main, key), strict=True)
        ]
        main.attributes[key] = ir.ArrayAttr.get(notes)
