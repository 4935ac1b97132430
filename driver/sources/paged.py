"""Decoders whose keys and values of past tokens are in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...runtime.cache.keys import key_of
from ...runtime.program import Shape
from ...support.short_repr import short_repr
from .source import ModelSource, SourceError

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir
    from typing_extensions import Self

    from ...frontend.imported import ImportedModel, ModelInfo
    from ...passes.paging.page_state import CacheForm


@short_repr
@dataclass(frozen=True)
class PagedSource(ModelSource):
    """A decoder of another format, with its state in pages (`stepwell-page-state`).

    Attributes:
        decoder: the decoder; None is not allowed.
        page_size: number of tokens in a page.
        pages: number of pages in a pool.
        pages_of_text: maximum number of pages of a text.
        starts: the name of the decoder's input i64[texts] with the position at which each text begins.
        form: the elements of keys and values, "float", "int8" or "int4"; see the pass.
    """

    kind: ClassVar[str] = "paged"

    decoder: ModelSource | None = None
    page_size: int = 16
    pages: int = 256
    pages_of_text: int = 64
    starts: str = "starts"
    form: CacheForm = "float"

    @classmethod
    def of(
        cls, decoder: ModelSource, page_size: int, pages: int, pages_of_text: int, form: CacheForm = "float"
    ) -> Self:
        """Returns the source of a decoder with its state in pages."""
        made = cls(b"", decoder.path, decoder=decoder, page_size=page_size, pages=pages, pages_of_text=pages_of_text)
        return replace(made, form=form)

    def describe(self) -> ModelInfo:
        """See `ModelSource`."""
        from mlir import ir

        from ...dialects.dims import named
        from ...frontend.mlir_text import info_of

        context = ir.Context()
        with context, ir.Location.unknown():
            shapes: dict[str, Any] = {
                info.name: tuple(named(dim) if isinstance(dim, str) else dim for dim in info.dims or ())
                for info in self._inner.describe().inputs
            }
            return info_of(self._paged(self._inner.import_into(context, shapes, {})).module, self.name)

    def import_into(
        self, context: ir.Context, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray]
    ) -> ImportedModel:
        """See `ModelSource`."""
        from ...passes.paging.page_state import PAGE_TABLE, PAST

        infos, sizes = self._inner.describe().inputs, dict[Any, Any]()
        for info in infos:
            dims, given = tuple[Any, ...](info.dims or ()), shapes[info.name]
            if len(given) == len(dims):
                sizes |= dict(zip(dims, given, strict=True))
            else:  # a pool, which has neither texts nor tokens
                sizes |= {dims[0]: shapes[PAGE_TABLE][0], dims[2]: shapes[PAST][0]}
        inner = {info.name: tuple(sizes.get(dim, dim) for dim in info.dims or ()) for info in infos}
        return self._paged(self._inner.import_into(context, inner, contents))

    def _paged(self, imported: ImportedModel) -> ImportedModel:
        from ...frontend.errors import ModelError
        from ...frontend.mlir_text import info_of
        from ...passes.infra.pipeline import Pipeline
        from ...passes.infra.runner import PassFailure
        from ...passes.paging.page_state import PageStatePass

        page = PageStatePass(self.page_size, self.pages, self.pages_of_text, self.starts, self.form)
        try:
            Pipeline((page,)).run(imported.module)
        except PassFailure as error:
            raise ModelError(f"has no state that pages can hold: {error.__cause__}", model=self.name) from error
        return replace(imported, info=info_of(imported.module, imported.name))

    @property
    def _inner(self) -> ModelSource:
        if self.decoder is None:
            raise SourceError("a paged model needs a decoder")
        return replace(self.decoder, cache=self.cache, checked=self.checked, target=self.target)

    @property
    def side_files(self) -> Sequence[Path]:
        """Those of the decoder, and its own file."""
        return [*self._inner.side_files, *([self.path] if self.path is not None else [])]

    @property
    def size(self) -> int:
        """See `ModelSource`."""
        return self._inner.size

    @property
    def fingerprint(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `ModelSource`."""
        sizes = (self.page_size, self.pages, self.pages_of_text, self.starts, self.form)
        return key_of(self.kind, self._inner.fingerprint, *map(str, sizes))
