"""The file or folder of a language model: its decoder, its tokenizer, and the length of its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..driver.sources.huggingface_part import HuggingFacePartSource
from ..driver.sources.onnx_decoder import OnnxDecoderSource
from ..driver.sources.reading import read_source
from ..driver.sources.source import ModelSource
from ..frontend.errors import ModelError, naming
from ..frontend.gguf.architectures import DecoderSizes
from ..frontend.gguf.reader import read_gguf
from ..frontend.huggingface.folder import read_folder
from ..frontend.huggingface.parts.importer import family_of, initial_state
from ..frontend.onnx.decoders.folder import is_decoder_folder, read_decoder_folder
from .file_tokenizer import tokenizer_of_file
from .folder_tokenizer import tokenizer_of_folder
from .tokenizer import TextTokenizer


@dataclass(frozen=True)
class ModelFile:
    """Decoder, tokenizer and length of a model, by its file or folder.

    Attributes:
        source: the decoder.
        tokenizer: the tokenizer.
        context: number of tokens that the model was made for.
        initial: if texts have a state of fixed size, the numbers that fill parts of it without tokens; None if they
            have keys and values.
    """

    source: ModelSource
    tokenizer: TextTokenizer
    context: int
    initial: Mapping[str, float] | None = None


def read_model(path: Path) -> ModelFile:
    """Reads a GGUF file, a folder of Hugging Face, or an ONNX decoder or its folder.

    Raises:
        ModelError: it is damaged, or its decoder or tokenizer is not supported.
    """
    with naming(path.name):
        if path.suffix == ".onnx" or (path.is_dir() and is_decoder_folder(path)):
            found = read_decoder_folder(path)
            return ModelFile(OnnxDecoderSource.at(found.model), tokenizer_of_folder(found.folder), found.context)
        family, config = family_of(path) if path.is_dir() else (None, {})
        if family is not None and family.state == "source":
            raise ModelError(
                f"has the model type '{config['model_type']}', an encoder-decoder: load it by "
                "stepwell.lm.load_encoder_decoder"
            )
        if family is not None:
            step = HuggingFacePartSource.of(path, "step")
            return ModelFile(step, tokenizer_of_folder(path), family.context_of(config), initial_state(path))
        source = read_source(path)
        file = read_folder(path) if path.is_dir() else read_gguf(path)
        tokenizer = tokenizer_of_folder(path) if path.is_dir() else tokenizer_of_file(file)
        return ModelFile(source, tokenizer, DecoderSizes.of(file).context)
