"""The modules of `stepwell-bench torch`: plain ones, and those of transformers, torchvision and timm."""

# pyright: reportMissingImports=false
from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...support.errors import StepwellError
from . import modules, resnet50

Inputs = dict[str, torch.Tensor]


class MissingModule(StepwellError):
    """Raised if the package of a module is not installed; the message says what to install."""


@dataclass(frozen=True)
class TorchModel:
    """A module to measure.

    Attributes:
        make: creates the module.
        inputs: creates the arguments of a call, by name.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]

    def created(self) -> tuple[nn.Module, Inputs]:
        """Creates the module, for inference, and its arguments, the same each time.

        Raises:
            MissingModule: its package is not installed.
        """
        torch.manual_seed(0)
        model, inputs = self.make().eval(), self.inputs()
        _settle(model, inputs)
        return model, inputs


def _settle(model: nn.Module, inputs: Inputs) -> None:
    """Gives the batch norms of a module the statistics of an input, as training would.

    With those of a new module, the values of deep networks shrink to denormal numbers, which are slow to compute with.
    """
    norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    hooks = [part.register_forward_pre_hook(_take_statistics) for part in norms]
    if hooks:
        with torch.no_grad():
            model(**inputs)
    for hook in hooks:
        hook.remove()


def _take_statistics(norm: Any, given: tuple[torch.Tensor]) -> None:
    (value,) = given
    axes = [axis for axis in range(value.dim()) if axis != 1]
    if value.numel() > value.shape[1]:  # a single value of each channel has no variance
        norm.running_mean.copy_(value.mean(axes))
        variance = value.var(axes, correction=0)
        norm.running_var.copy_(variance)
        if norm.weight is not None:  # values of small variance would stay small, by epsilon
            norm.weight.mul_((1 + norm.eps / variance.clamp_min(torch.finfo(variance.dtype).tiny)).sqrt())


def _image(name: str, size: int = 224, batch: int = 1) -> Callable[[], Inputs]:
    return lambda: {name: torch.randn(batch, 3, size, size)}


def _ids(batch: int, length: int, name: str = "input_ids") -> Callable[[], Inputs]:
    return lambda: {name: torch.randint(3, 990, (batch, length))}


def _plain(make: Callable[[], nn.Module], name: str, *shape: int) -> TorchModel:
    return TorchModel(make, lambda: {name: torch.randn(shape)})


def _of_transformers(kind: str, auto: str, inputs: Callable[[], Inputs], **config: Any) -> TorchModel:
    def make() -> nn.Module:
        package = _imported("transformers")
        made = package.AutoConfig.for_model(kind, **config)
        return getattr(package, auto).from_config(made)

    return TorchModel(make, inputs)


_MINI = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
_TEXT = {**_MINI, "vocab_size": 1000, "max_position_embeddings": 512, "pad_token_id": 0, "use_cache": False}
_ROTARY = {**_TEXT, "num_key_value_heads": 2, "head_dim": 64}
_GPT = {"n_embd": 256, "n_layer": 4, "n_head": 4, "vocab_size": 1000, "n_positions": 512, "use_cache": False}
_T5 = {"d_model": 256, "d_kv": 64, "d_ff": 1024, "num_layers": 4, "num_heads": 4, "vocab_size": 1000}
_PATCHES = {**_MINI, "hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "image_size": 224}
_SOUND = {**_MINI, "conv_dim": (128,) * 4, "conv_stride": (5, 4, 4, 4), "conv_kernel": (10, 8, 4, 4)}
_DECODER, _MODEL = "AutoModelForCausalLM", "AutoModel"

_WITH_TRANSFORMERS = {
    "bert": _of_transformers("bert", _MODEL, _ids(1, 128), **_TEXT),
    "bert-8x64": _of_transformers("bert", _MODEL, _ids(8, 64), **_TEXT),
    "albert": _of_transformers("albert", _MODEL, _ids(1, 128), **_TEXT),
    "deberta-v2": _of_transformers("deberta-v2", _MODEL, _ids(1, 128), **_TEXT, relative_attention=True,
                                   pos_att_type=["c2p", "p2c"]),
    "distilbert": _of_transformers("distilbert", _MODEL, _ids(1, 128), vocab_size=1000, dim=256, n_layers=4, n_heads=4,
                                   hidden_dim=1024),
    "electra": _of_transformers("electra", _MODEL, _ids(1, 128), **_TEXT, embedding_size=128),
    "fnet": _of_transformers("fnet", _MODEL, _ids(1, 128), **_TEXT),
    "squeezebert": _of_transformers("squeezebert", _MODEL, _ids(1, 128), **_TEXT, embedding_size=256),
    "modernbert": _of_transformers("modernbert", _MODEL, _ids(1, 128), **_TEXT, local_attention=64),
    "gpt2": _of_transformers("gpt2", _DECODER, _ids(1, 128), **_GPT),
    "gpt2-one-token": _of_transformers("gpt2", _DECODER, _ids(1, 1), **_GPT),
    "llama": _of_transformers("llama", _DECODER, _ids(1, 128), **_ROTARY),
    "gemma2": _of_transformers("gemma2", _DECODER, _ids(1, 128), **_ROTARY, sliding_window=64),
    "qwen3": _of_transformers("qwen3", _DECODER, _ids(1, 128), **_ROTARY),
    "phi3": _of_transformers("phi3", _DECODER, _ids(1, 128), **{**_ROTARY, "head_dim": 64}),
    "gpt-neox": _of_transformers("gpt_neox", _DECODER, _ids(1, 128), **_TEXT),
    "mixtral": _of_transformers("mixtral", _DECODER, _ids(1, 64), **_ROTARY, num_local_experts=4),
    "mamba": _of_transformers("mamba", _DECODER, _ids(1, 64), **_TEXT, state_size=16),
    "t5": _of_transformers("t5", "AutoModelForSeq2SeqLM",
                           lambda: {**_ids(1, 64)(), **_ids(1, 16, "decoder_input_ids")()}, **_T5, use_cache=False),
    "bart": _of_transformers("bart", "AutoModelForSeq2SeqLM",
                             lambda: {**_ids(1, 64)(), **_ids(1, 16, "decoder_input_ids")()}, d_model=256,
                             encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                             encoder_ffn_dim=1024, decoder_ffn_dim=1024, vocab_size=1000, use_cache=False),
    "vit": _of_transformers("vit", _MODEL, _image("pixel_values"), **_PATCHES),
    "dinov2": _of_transformers("dinov2", _MODEL, _image("pixel_values"), **_PATCHES, patch_size=14),
    "swin": _of_transformers("swin", _MODEL, _image("pixel_values"), embed_dim=48, depths=[2, 2], num_heads=[2, 4]),
    "convnext": _of_transformers("convnext", _MODEL, _image("pixel_values"), depths=[2, 2, 2, 2],
                                 hidden_sizes=[40, 80, 160, 320]),
    "segformer": _of_transformers("segformer", _MODEL, _image("pixel_values", 128)),
    "resnet18-basic": _of_transformers("resnet", _MODEL, _image("pixel_values"), layer_type="basic",
                                       hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2]),
    "regnet": _of_transformers("regnet", _MODEL, _image("pixel_values"), embedding_size=32,
                               hidden_sizes=[48, 104, 208, 440], depths=[1, 3, 6, 6], groups_width=8),
    "mobilenet-v1": _of_transformers("mobilenet_v1", _MODEL, _image("pixel_values")),
    "efficientnet": _of_transformers("efficientnet", _MODEL, _image("pixel_values"), width_coefficient=1.0,
                                     depth_coefficient=1.0, image_size=224, hidden_dim=1280),
    "convnext-v2": _of_transformers("convnextv2", _MODEL, _image("pixel_values"), depths=[2, 2, 2, 2],
                                    hidden_sizes=[40, 80, 160, 320]),
    "deit": _of_transformers("deit", _MODEL, _image("pixel_values"), **_PATCHES),
    "beit": _of_transformers("beit", _MODEL, _image("pixel_values"), **_PATCHES),
    "clip-vision": _of_transformers("clip_vision_model", _MODEL, _image("pixel_values"), **_PATCHES),
    "poolformer": _of_transformers("poolformer", _MODEL, _image("pixel_values")),
    "swin-v2": _of_transformers("swinv2", _MODEL, _image("pixel_values", 128), image_size=128, embed_dim=48,
                                depths=[2, 2], num_heads=[2, 4]),
    "levit": _of_transformers("levit", _MODEL, _image("pixel_values")),
    "pvt": _of_transformers("pvt", _MODEL, _image("pixel_values")),
    "focalnet": _of_transformers("focalnet", _MODEL, _image("pixel_values"), embed_dim=48, depths=[2, 2],
                                 hidden_sizes=[48, 96], focal_levels=[2, 2], focal_windows=[3, 3]),
    "hubert": _of_transformers("hubert", _MODEL, lambda: {"input_values": torch.randn(1, 16000)}, **_SOUND,
                               num_feat_extract_layers=4, num_conv_pos_embeddings=32,
                               num_conv_pos_embedding_groups=4),
    "spectrogram-transformer": _of_transformers("audio-spectrogram-transformer", _MODEL, lambda: {
        "input_values": torch.randn(1, 256, 128)}, **{**_MINI, "max_length": 256}),
    "mobilevit": _of_transformers("mobilevit", _MODEL, _image("pixel_values", 256)),
    "wav2vec2": _of_transformers("wav2vec2", _MODEL, lambda: {"input_values": torch.randn(1, 16000)}, **_SOUND,
                                 num_feat_extract_layers=4, num_conv_pos_embeddings=32,
                                 num_conv_pos_embedding_groups=4),
    "whisper": _of_transformers("whisper", "AutoModelForSpeechSeq2Seq", lambda: {
        "input_features": torch.randn(1, 80, 400), **_ids(1, 8, "decoder_input_ids")()}, d_model=256, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=1024,
        decoder_ffn_dim=1024, vocab_size=1000, max_source_positions=200, max_target_positions=64, pad_token_id=0,
        decoder_start_token_id=1, bos_token_id=1, eos_token_id=2, use_cache=False),
}  # fmt: skip

_ENDS = "sources", "targets"

_PLAIN = {
    "resnet50": _plain(resnet50.make, "input", 1, 3, 224, 224),
    "mobilenet-v2": _plain(modules.mobilenet, "input", 1, 3, 224, 224),
    "mlp-mixer": _plain(modules.Mixer, "x", 1, 3, 224, 224),
    "temporal": _plain(modules.Temporal, "x", 2, 64, 400),
    "generator": _plain(modules.generator, "input", 4, 100, 1, 1),
    "u-net": _plain(modules.UNet, "x", 1, 3, 128, 128),
    "lstm": TorchModel(modules.Tagger, _ids(4, 40, "ids")),
    "conformer": _plain(lambda: nn.Sequential(*(modules.Conformer() for _ in range(4))), "input", 1, 200, 144),
    "recommender": TorchModel(
        modules.Recommender, lambda: {"dense": torch.randn(64, 13), "categories": torch.randint(0, 1000, (64, 8))}
    ),
    "perceptron-1": _plain(lambda: modules.perceptron(784, 512, 256, 10), "input", 1, 784),
    "perceptron-64": _plain(lambda: modules.perceptron(784, 512, 256, 10), "input", 64, 784),
    "perceptron-bf16": TorchModel(
        lambda: modules.perceptron(512, 1024, 512, dtype=torch.bfloat16),
        lambda: {"input": torch.randn(64, 512, dtype=torch.bfloat16)},
    ),
    "autoencoder": _plain(lambda: modules.perceptron(784, 128, 64, 12, 64, 128, 784), "input", 32, 784),
    "gru": _plain(modules.Recurrence, "x", 16, 50, 64),
    "encoder-layer": _plain(lambda: nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), "src", 2, 100, 256),
    "graph-network": TorchModel(
        modules.GraphNetwork,
        lambda: {"x": torch.randn(1000, 64), **{name: torch.randint(0, 1000, (5000,)) for name in _ENDS}},
    ),
    "sound-classes": _plain(modules.SoundClasses, "x", 4, 1, 16000),
    "text-classes": TorchModel(modules.TextClasses, _ids(8, 64, "ids")),
    "one-input": _plain(lambda: modules.Scales(1), "x", 4),
    "200-weights": _plain(modules.Scales, "x", 4),
}

_OF_TORCHVISION = {
    **dict.fromkeys(("resnet18", "mobilenet_v3_small", "efficientnet_b0", "densenet121", "squeezenet1_1"), 224),
    **dict.fromkeys(("shufflenet_v2_x1_0", "regnet_y_400mf", "mnasnet0_5", "googlenet", "vit_b_16", "swin_t"), 224),
    **dict.fromkeys(("convnext_tiny", "resnext50_32x4d", "vgg11_bn", "alexnet"), 224),
}
_OF_TIMM = {
    **dict.fromkeys(("mixer_s16_224", "deit_tiny_patch16_224", "ghostnet_100", "repvgg_a0", "cait_xxs24_224"), 224),
    **dict.fromkeys(("mobilenetv4_conv_small", "edgenext_xx_small", "poolformer_s12", "xcit_nano_12_p16_224"), 224),
    **dict.fromkeys(("levit_128s", "pvt_v2_b0", "res2net50_14w_8s", "tf_efficientnetv2_b0", "hrnet_w18_small"), 224),
}


def _of_package(package: str, function: str, name: str, size: int, **options: Any) -> TorchModel:
    def make() -> nn.Module:
        return getattr(_imported(package), function)(name, **options)

    return TorchModel(make, lambda: {"x": torch.randn(1, 3, size, size)})


MODELS: dict[str, TorchModel] = {
    **_PLAIN,
    **_WITH_TRANSFORMERS,
    **{
        f"torchvision-{name}": _of_package("torchvision.models", "get_model", name, size, weights=None)
        for name, size in _OF_TORCHVISION.items()
    },
    **{f"timm-{name}": _of_package("timm", "create_model", name, size) for name, size in _OF_TIMM.items()},
}
"""The modules, by name."""


def _imported(name: str) -> Any:
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        extra = "" if package == "transformers" else "--no-deps "
        needs = "torchvision timm" if package == "timm" else package
        raise MissingModule(f"pip install {extra}{needs}")
    if importlib.util.find_spec("torchvision") is not None:  # transformers and timm import it
        _define_missing_ops()
    return importlib.import_module(name)


def _define_missing_ops() -> None:
    """Defines ops that torchvision describes at its import, and that a build for another torch has no code for."""
    global _LIBRARY
    if _LIBRARY is not None:
        return
    extension = importlib.util.find_spec("torchvision")
    assert extension is not None and extension.submodule_search_locations
    try:
        torch.ops.load_library(f"{extension.submodule_search_locations[0]}/_C.so")
        _LIBRARY = True
    except OSError:
        library = _LIBRARY = torch.library.Library("torchvision", "DEF")
        for op in ("nms", "qnms"):
            library.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_LIBRARY: Any = None
