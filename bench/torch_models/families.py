"""Architectures of the package transformers, built from their configuration with random weights: no downloads."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Arguments = dict[str, torch.Tensor]

_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_TEXT = {
    **_SMALL,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_NAMED_AS_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "n_positions": 64, "n_ctx": 64}
_PAIR = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99, "max_position_embeddings": 64},
}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
_IMAGE = {**_SMALL, "image_size": 32, "patch_size": 8, "num_channels": 3}
_STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 16, 32, 32], "num_channels": 3}
_SOUND = {
    **_SMALL,
    **{"conv_dim": (32, 32, 32), "conv_stride": (5, 4, 4), "conv_kernel": (8, 4, 4), "vocab_size": 32},
    **{"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 3},
}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


@dataclass(frozen=True)
class Family:
    """An architecture.

    Attributes:
        kind: "encoder", "decoder", "pair" of both, "image" or "sound".
        auto: the class of transformers that builds the model.
        config: the arguments of its configuration.
        inputs: makes the arguments of a call, for a batch and a length.
    """

    kind: str
    auto: str
    config: Mapping[str, Any]
    inputs: Callable[[int, int], Arguments]

    def make(self, name: str, **changed: Any) -> torch.nn.Module:
        """Creates the model, for inference.

        Args:
            name: the type of the model in transformers.
            changed: further arguments of the configuration.
        """
        import transformers

        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(name, **{**self.config, **changed})
        return getattr(transformers, self.auto).from_config(config).eval()


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 99, (batch, length), generator=torch.Generator().manual_seed(batch * length))


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def _text(batch: int, length: int) -> Arguments:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    return {"input_ids": _ids(batch, length), "attention_mask": mask}


def _prompt(batch: int, length: int) -> Arguments:
    return {"input_ids": _ids(batch, length), "attention_mask": torch.ones(batch, length, dtype=torch.int64)}


def _texts(batch: int, length: int) -> Arguments:
    return {**_prompt(batch, length), "decoder_input_ids": _ids(batch, 5)}


def _encoder(**config: Any) -> Family:
    return Family("encoder", "AutoModel", {**_TEXT, **config}, _text)


def _decoder(**config: Any) -> Family:
    return Family("decoder", "AutoModelForCausalLM", {**_TEXT, **config}, _prompt)


def _pair(**config: Any) -> Family:
    given = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 2, "forced_eos_token_id": None, **config}
    return Family("pair", "AutoModelForSeq2SeqLM", given, _texts)


def _image(size: int = 32, **config: Any) -> Family:
    return Family("image", "AutoModel", config, lambda batch, _: {"pixel_values": _noise(batch, 3, size, size)})


def _sound(**config: Any) -> Family:
    given = {**_SOUND, **config}
    return Family("sound", "AutoModel", given, lambda batch, length: {"input_values": _noise(batch, 100 * length)})


_ROTARY = {"num_key_value_heads": 2, "head_dim": 8}

FAMILIES: dict[str, Family] = {
    "albert": _encoder(embedding_size=16),
    "bert": _encoder(),
    "big_bird": _encoder(attention_type="original_full"),
    "camembert": _encoder(),
    "canine": _encoder(local_transformer_stride=8, downsampling_rate=4, num_hash_buckets=64),
    "convbert": _encoder(embedding_size=32, head_ratio=2),
    "deberta": _encoder(relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "deberta-v2": _encoder(relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "distilbert": _encoder(dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "electra": _encoder(embedding_size=16),
    "ernie": _encoder(),
    "esm": _encoder(mask_token_id=4, position_embedding_type="rotary"),
    "fnet": Family("encoder", "AutoModel", _TEXT, lambda batch, length: {"input_ids": _ids(batch, length)}),
    "ibert": _encoder(),
    "layoutlm": _encoder(),
    "megatron-bert": _encoder(),
    "mobilebert": _encoder(embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    "modernbert": _encoder(global_attn_every_n_layers=2, local_attention=8),
    "mpnet": _encoder(),
    "nystromformer": _encoder(num_landmarks=4, segment_means_seq_len=4),
    "rembert": _encoder(input_embedding_size=16),
    "roberta": _encoder(),
    "roformer": _encoder(embedding_size=32),
    "splinter": _encoder(),
    "squeezebert": _encoder(embedding_size=32),
    "xlm": _encoder(emb_dim=32, n_layers=2, n_heads=4),
    "xlm-roberta": _encoder(),
    "xlnet": Family("encoder", "AutoModel", {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
                    _text),
    "biogpt": _decoder(),
    "bloom": _decoder(n_layer=2, n_head=4),
    "codegen": _decoder(**_NAMED_AS_GPT, rotary_dim=4),
    "cohere": _decoder(**_ROTARY),
    "ctrl": _decoder(**_NAMED_AS_GPT, dff=64),
    "falcon": _decoder(),
    "gemma": _decoder(**_ROTARY),
    "gemma2": _decoder(**_ROTARY, sliding_window=8),
    "gemma3_text": _decoder(**_ROTARY, sliding_window=8),
    "glm": _decoder(**_ROTARY),
    "gpt2": _decoder(**_NAMED_AS_GPT),
    "gpt_neo": _decoder(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8),
    "gpt_neox": _decoder(),
    "gptj": _decoder(**_NAMED_AS_GPT, rotary_dim=4),
    "granite": _decoder(**_ROTARY),
    "helium": _decoder(**_ROTARY),
    "llama": _decoder(**_ROTARY),
    "mamba": _decoder(state_size=8, num_hidden_layers=2),
    "mistral": _decoder(**_ROTARY, sliding_window=8),
    "mixtral": _decoder(**_ROTARY, **_EXPERTS),
    "nemotron": _decoder(**_ROTARY),
    "olmo": _decoder(**_ROTARY),
    "olmo2": _decoder(**_ROTARY),
    "olmoe": _decoder(**_ROTARY, **_EXPERTS),
    "opt": _decoder(ffn_dim=64, word_embed_proj_dim=32),
    "persimmon": _decoder(),
    "phi": _decoder(num_key_value_heads=2),
    "phi3": _decoder(num_key_value_heads=2),
    "qwen2": _decoder(**_ROTARY),
    "qwen2_moe": _decoder(**_ROTARY, **_EXPERTS, shared_expert_intermediate_size=32),
    "qwen3": _decoder(**_ROTARY),
    "smollm3": _decoder(**_ROTARY),
    "stablelm": _decoder(num_key_value_heads=2),
    "starcoder2": _decoder(num_key_value_heads=2),
    "xglm": _decoder(d_model=32, num_layers=2, attention_heads=4, ffn_dim=64),
    "bart": _pair(**_PAIR),
    "blenderbot": _pair(**_PAIR),
    "blenderbot-small": _pair(**_PAIR),
    "led": _pair(**_PAIR, attention_window=4, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64),
    "longt5": _pair(**_T5, local_radius=4),
    "m2m_100": _pair(**_PAIR),
    "marian": _pair(**_PAIR),
    "mbart": _pair(**_PAIR),
    "mt5": _pair(**_T5),
    "pegasus": _pair(**_PAIR),
    "prophetnet": _pair(hidden_size=32, vocab_size=99, num_encoder_layers=2, num_decoder_layers=2,
                        num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=64,
                        decoder_ffn_dim=64, ngram=2),
    "switch_transformers": _pair(**_T5, num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1),
    "t5": _pair(**_T5),
    "umt5": _pair(**_T5),
    "beit": _image(**_IMAGE),
    "bit": _image(num_groups=8, embedding_size=32, hidden_sizes=[32, 32, 64, 64], depths=[1, 1, 1, 1]),
    "convnext": _image(**_STAGES),
    "convnextv2": _image(**_STAGES),
    "data2vec-vision": _image(**_IMAGE),
    "deit": _image(**_IMAGE),
    "dinov2": _image(**_IMAGE),
    "efficientnet": _image(64, image_size=64, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
    "focalnet": _image(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32],
                       focal_levels=[1, 1], focal_windows=[3, 3]),
    "hiera": _image(64, image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1]),
    "levit": _image(64, image_size=64, hidden_sizes=[32, 64, 96], num_attention_heads=[2, 2, 2], depths=[1, 1, 1],
                    key_dim=[16, 16, 16]),
    "mobilenet_v1": _image(64, depth_multiplier=0.25),
    "mobilenet_v2": _image(64, depth_multiplier=0.25),
    "mobilevit": _image(64, image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
                        num_attention_heads=2),
    "poolformer": _image(64, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
    "pvt": _image(64, image_size=64, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1],
                  num_attention_heads=[1, 2, 2, 4]),
    "regnet": _image(embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], groups_width=8),
    "resnet": _image(embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
    "segformer": _image(64, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4]),
    "siglip_vision_model": _image(**_IMAGE),
    "swin": _image(image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 2], window_size=4),
    "swinv2": _image(image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 2], window_size=4),
    "vit": _image(**_IMAGE),
    "vit_msn": _image(**_IMAGE),
    "clip_vision_model": _image(**_IMAGE),
    "yolos": _image(**{**_IMAGE, "image_size": [32, 32]}, num_detection_tokens=5),
    "audio-spectrogram-transformer": Family(
        "sound", "AutoModel", {**_SMALL, "patch_size": 4, "max_length": 24, "num_mel_bins": 16, "frequency_stride": 4,
                               "time_stride": 4}, lambda batch, _: {"input_values": _noise(batch, 24, 16)},
    ),
    "data2vec-audio": _sound(),
    "hubert": _sound(),
    "sew": _sound(squeeze_factor=2),
    "speech_to_text": Family(
        "sound", "AutoModelForSpeechSeq2Seq", {**_PAIR, "input_feat_per_channel": 16, "conv_channels": 32,
                                               "decoder_start_token_id": 2, "pad_token_id": 0, "eos_token_id": 1},
        lambda batch, length: {"input_features": _noise(batch, 4 * length, 16), "decoder_input_ids": _ids(batch, 4)},
    ),
    "unispeech": _sound(num_codevectors_per_group=16, codevector_dim=32),
    "wav2vec2": _sound(),
    "wavlm": _sound(),
    "whisper": Family(
        "sound", "AutoModelForSpeechSeq2Seq", {**_PAIR, "num_mel_bins": 16, "max_source_positions": 30,
                                               "max_target_positions": 30, "decoder_start_token_id": 2,
                                               "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
                                               "suppress_tokens": None, "begin_suppress_tokens": None},
        lambda batch, _: {"input_features": _noise(batch, 16, 60), "decoder_input_ids": _ids(batch, 4)},
    ),
}  # fmt: skip
"""The architectures, by their types in transformers."""
