"""Imports ONNX decoders as the step that `stepwell.frontend.decoder_step` describes.

Masks, positions and lengths, which are inputs of the file, follow from the beginnings of texts. Texts of different
lengths end at the same position, so that caches grow at their end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mlir import ir

from ....dialects.dims import Dim
from ....dialects.registry import load_dialects, view_of
from ....dialects.stepwell.blocks import BlockMatmulOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, CastOp, DivOp, GreaterEqualOp, MulOp, SubOp, TanhOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ....passes.graph.values import dimension
from ...build import cast, constant, emit, gathered, known_dim, numbered, rank, shape
from ...decoder_step import text_positions
from ...errors import ModelError, naming
from ...imported import ImportedModel, ModelInfo, ValueInfo
from ..importer import Importer
from ..reading.model import Model, describe_model
from .form import DecoderForm

_TOKENS = 1
"""The dimension of tokens in values [batch, length, elements]."""

_BY_ROW = (MatmulOp, BlockMatmulOp, AddOp, SubOp, MulOp, DivOp, TanhOp, CastOp)
"""Ops after which rows can be selected before them, if their other operands are the same for all tokens."""

_MISFIT = "is no decoder of the usual form"
"""The beginning of the message if an op does not accept its operands."""


def describe_decoder(model: Model, names: Mapping[str, str]) -> ModelInfo:
    """Returns the inputs and outputs of the decoder in a file.

    Args:
        model: the file.
        names: names of its inputs and outputs by those in `genai_config.json`.

    Raises:
        ModelError: it is no decoder, or not supported.
    """
    with naming(model.name, _MISFIT):
        return DecoderForm.of(describe_model(model), names).info(model.name)


def import_decoder(
    model: Model, names: Mapping[str, str], context: ir.Context, shapes: Mapping[str, Sequence[Dim]]
) -> ImportedModel:
    """Imports the decoder in a file.

    Args:
        model: the file.
        names: see `describe_decoder`.
        context: the context of the module.
        shapes: shapes for all inputs of `describe_decoder`.

    Raises:
        ModelError: it is damaged, or not supported.
    """
    load_dialects(context)
    with naming(model.name, _MISFIT), context, ir.Location.unknown():
        return _DecoderImporter(model, DecoderForm.of(describe_model(model), names), shapes).run()


class _DecoderImporter(Importer):
    """Imports a decoder whose inputs and outputs are those of a step."""

    appends_caches = True

    def __init__(self, model: Model, form: DecoderForm, shapes: Mapping[str, Sequence[Dim]]) -> None:
        self._form = form
        self._selected: ir.Value | None = None
        self._length: Dim = 0
        super().__init__(model, shapes, sized=True)

    def _main_info(self, model: Model) -> ModelInfo:
        return self._form.info(model.name)

    def _given(self, arguments: Sequence[ir.Value]) -> dict[str, ir.Value]:
        own = {info.name: argument for info, argument in zip(self._info.inputs, arguments, strict=True)}
        tokens, starts, self._selected = own["input_ids"], own["starts"], own["selected"]
        caches = {port.past: own[f"past.{port.rows.name}"] for port in self._form.caches}
        past = known_dim(own[f"past.{self._form.caches[0].rows.name}"], 2, "the length of the past")
        self._length = length = known_dim(tokens, _TOKENS, "the number of new tokens")
        column = emit(ExpandDimsOp, starts, axes=(1,))
        made = {"tokens": tokens, "positions": text_positions(past, length, starts)}
        made["mask"] = emit(GreaterEqualOp, numbered(past + length), column)
        made["last"] = emit(SubOp, dimension(past + length - 1), column)
        made["total"] = dimension(past + length)
        made["branch"] = constant(np.array([True]))
        return caches | {info.name: _as_declared(made[role], info) for role, info in self._form.roles.items()}

    def _returned(self, values: list[ir.Value]) -> list[ir.Value]:
        assert self._selected is not None, "the inputs come first"
        names = [item.name for item in self._model.proto.graph.output]
        found = dict(zip(names, values, strict=True))
        logits = found[self._form.logits]
        given, length = shape(logits), self._length
        if len(given) != 3 or given[_TOKENS] != length:
            raise ModelError(
                f"computes '{self._form.logits}' of shape [{', '.join(map(str, given))}] for {length} new tokens, and "
                "must compute logits after each token: export it without pruning them"
            )
        chosen = cast(_rows(logits, self._selected), np.float32)
        return [chosen, *(found[port.present] for port in self._form.caches)]


def _as_declared(value: ir.Value, info: ValueInfo) -> ir.Value:
    """Returns an input with the rank and the type that the file declares: one number, or [batch, 1] for [batch]."""
    missing = len(info.dims or ()) - rank(value) if info.dims is not None else 0
    if missing < 0:
        raise ModelError(f"declares '{info.name}' with {len(info.dims or ())} dimensions, and must have {rank(value)}")
    made = emit(ExpandDimsOp, value, axes=tuple(range(rank(value), rank(value) + missing))) if missing else value
    return cast(made, info.dtype)


def _rows(value: ir.Value, selected: ir.Value) -> ir.Value:
    """Returns the rows of selected tokens of a value [batch, length, elements], computed for these only if possible."""
    view = None if isinstance(value.owner, ir.Block) else view_of(value.owner)
    if isinstance(view, _BY_ROW):
        operands, wanted = list(view.operation.operands), shape(value)[:2]
        places = [place for place, item in enumerate(operands) if rank(item) == 3 and shape(item)[:2] == wanted]
        others = [item for place, item in enumerate(operands) if place not in places]
        if len(places) == 1 and all(rank(item) < 3 or isinstance(view, BlockMatmulOp) for item in others):
            operands[places[0]] = _rows(operands[places[0]], selected)
            return emit(type(view), *operands, **view.attribute_values())
    return gathered(value, selected, _TOKENS)
