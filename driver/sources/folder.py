"""Models in folders of Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .source import ModelSource


@dataclass(frozen=True)
class FolderSource(ModelSource):
    """A folder with `config.json`, which is its contents, and weights in safetensors."""

    @property
    def folder(self) -> Path:
        """The folder."""
        assert self.path is not None, "a folder is given by its path"
        return self.path

    @property
    def side_files(self) -> Sequence[Path]:
        """The weights."""
        from ...frontend.huggingface.folder import weight_files

        return weight_files(self.folder)
