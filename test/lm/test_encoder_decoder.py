"""T5 and Whisper from Hugging Face folders: tokens are those of transformers."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepwell

for name in ("gguf", "jinja2", "tokenizers", "torch", "transformers"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

import torch  # noqa: E402
import transformers  # noqa: E402
from stepwell.frontend.errors import ModelError  # noqa: E402
from stepwell.lm import EncoderDecoder, End, Engine, Piece, Request  # noqa: E402
from stepwell.support.errors import InputError  # noqa: E402

from .test_folder import write_tokenizer  # noqa: E402

T5 = {
    "vocab_size": 258,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 96,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "n_positions": 48,
    "decoder_start_token_id": 0,
    "eos_token_id": 257,
    "initializer_factor": 3.0,
}
WHISPER = {
    "vocab_size": 258,
    "num_mel_bins": 8,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_source_positions": 30,
    "max_target_positions": 32,
    "decoder_start_token_id": 5,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 257,
    "init_std": 0.3,
    "suppress_tokens": None,
    "begin_suppress_tokens": [3, 257],
}


def written(kind: str, settings: dict[str, Any], folder: Path) -> Any:
    """Writes a model of transformers with random weights to a folder, and returns it."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **settings)
    auto = transformers.AutoModelForSeq2SeqLM if kind == "t5" else transformers.AutoModelForSpeechSeq2Seq
    model = auto.from_config(config).eval()
    write_tokenizer(folder)
    for name in ("generation_config.json", "config.json"):
        (folder / name).unlink()
    if kind == "whisper":  # weights of 16 bits, which products read as floats
        model.bfloat16()
    model.save_pretrained(folder)
    return model.float()


def by_transformers(model: Any, source: torch.Tensor, prompt: Sequence[int], count: int, **more: Any) -> list[int]:
    """Returns the most probable tokens, behind a prompt and without that for the end."""
    first = torch.tensor([list(prompt)])
    options = {"do_sample": False, "num_beams": 1, "max_new_tokens": count, "decoder_input_ids": first, **more}
    mixin: Any = transformers.GenerationMixin
    found = mixin.generate(model, source, **options)[0, len(prompt) :].tolist()
    return found[: found.index(257)] if 257 in found else found


@pytest.mark.few(1)
@pytest.mark.parametrize("projection", ["relu", "gated-gelu"])
def test_t5(projection: str, tmp_path: Path) -> None:
    reference = written("t5", {**T5, "feed_forward_proj": projection}, tmp_path)
    model = stepwell.lm.load_encoder_decoder(tmp_path, threads=1)
    sources = ([5, 90, 17, 3, 201, 257], list(range(2, 40)))
    for source in sources:
        wanted = by_transformers(reference, torch.tensor([source]), [0], 30)
        assert model.tokens(source, most=30) == wanted
    text = model.tokenizer.decode(model.tokens(model.tokenizer.encode("Once"), most=5))
    assert model.generate("Once", most=5) == text.rstrip("\ufffd")  # without the beginning of a character
    with pytest.raises(InputError, match="the source has 49 tokens, and must have 1 to 48"):
        model.tokens([1] * 49)


def test_whisper(tmp_path: Path) -> None:
    reference = written("whisper", WHISPER, tmp_path)
    model = stepwell.lm.load_encoder_decoder(tmp_path, threads=1)
    assert model.tokenizer.number("</s>") == 257
    with pytest.raises(InputError, match=r"no token is '<\|en\|>'"):
        model.tokenizer.number("<|en|>")
    spectra = np.random.default_rng(0).standard_normal((8, 60), np.float32)
    for prompt in ([5], [5, 9, 11]):
        more = {"begin_suppress_tokens": WHISPER["begin_suppress_tokens"]}
        wanted = by_transformers(reference, torch.from_numpy(spectra[None]), prompt, 12, **more)
        assert model.tokens(spectra, prompt=prompt, most=12) == wanted
    with pytest.raises(InputError, match=r"the source must be spectra f32\[8, 60\]"):
        model.tokens(spectra[:, :59])
    with pytest.raises(InputError, match="the prompt has 32 tokens, and the context 32"):
        model.tokens(spectra, prompt=[5] * 32)


def in_engine(model: EncoderDecoder, requests: Sequence[dict[str, Any]]) -> list[tuple[list[Piece], End]]:
    """Returns the pieces and the ends of texts that an engine continues at once."""
    found: list[tuple[list[Piece], End]] = [([], End("error", 0, 0, 0))] * len(requests)
    done = threading.Semaphore(0)

    def receive(number: int, pieces: list[Piece], event: Piece | End) -> None:
        if isinstance(event, Piece):
            pieces.append(event)
        else:
            found[number] = pieces, event
            done.release()

    with Engine(model) as engine:
        for number, given in enumerate(requests):
            engine.submit(Request(deliver=partial(receive, number, []), **given))
        for _ in requests:
            assert done.acquire(timeout=120)
        assert engine.figures.free_pages == engine.figures.pages
    return found


def test_t5_in_an_engine(tmp_path: Path) -> None:
    """Sources of different lengths share a batch, and each text is that of transformers."""
    reference = written("t5", {**T5, "feed_forward_proj": "relu"}, tmp_path)
    model = stepwell.lm.load_encoder_decoder(tmp_path, threads=1, sequences=3)
    sources = [[5, 90, 17, 3, 201, 257], list(range(2, 40)), [40, 8], [5, 90, 17, 3], [201] * 20]
    requests = [{"tokens": [0], "source": source, "most": 20, "logprobs": 1} for source in sources]
    for source, (pieces, end) in zip(sources, in_engine(model, requests), strict=True):
        wanted = by_transformers(reference, torch.tensor([source]), [0], 20)
        assert [choice.token for piece in pieces for choice in piece.choices] == wanted
        assert (end.tokens, end.error) == (len(wanted), "")
        assert all(choice.logprob == choice.top[0][2] <= 0 for piece in pieces for choice in piece.choices)


def test_stop_texts_and_pages_that_run_out(tmp_path: Path) -> None:
    """A stop text ends a text; a text that gave up its pages is the same as before."""
    written("t5", T5, tmp_path)
    model = stepwell.lm.load_encoder_decoder(tmp_path, threads=1, sequences=2)
    whole = model.generate("Once", most=30)
    stop = whole[len(whole) // 2 :][:3]
    assert model.generate("Once", most=30, stop=[stop]) == whole[: whole.index(stop)]
    source = model.tokenizer.encode_whole("Once")
    ((pieces, end),) = in_engine(model, [{"tokens": [0], "source": source, "most": 30, "stop": [stop]}])
    assert ("".join(piece.text for piece in pieces), end.reason) == (whole[: whole.index(stop)], "stop")
    with Engine(model) as engine:
        for source in (None, [1] * 49, np.zeros((2, 2), np.float32)):
            with pytest.raises(InputError, match="the source "):
                engine.submit(Request([0], lambda _: None, source=source))


@pytest.mark.sweep
def test_whisper_in_an_engine(tmp_path: Path) -> None:
    reference = written("whisper", WHISPER, tmp_path)
    model = stepwell.lm.load_encoder_decoder(tmp_path, threads=1, sequences=2)
    random = np.random.default_rng(0)
    spectra = [random.standard_normal((8, 60), np.float32) for _ in range(3)]
    prompts = ([5, 9, 11], [5], [5, 9])
    requests = [
        {"tokens": prompt, "source": source, "most": 12, "logprobs": 0}
        for prompt, source in zip(prompts, spectra, strict=True)
    ]
    for given, (pieces, _) in zip(requests, in_engine(model, requests), strict=True):
        more = {"begin_suppress_tokens": WHISPER["begin_suppress_tokens"]}
        wanted = by_transformers(reference, torch.from_numpy(given["source"][None]), given["tokens"], 12, **more)
        assert [choice.token for piece in pieces for choice in piece.choices] == wanted
    with pytest.raises(InputError, match="takes no text"):
        model.prompt("text")


def test_models_of_the_other_kind(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    with pytest.raises(ModelError, match="'llama', which is no encoder-decoder that is supported: load a decoder by"):
        stepwell.lm.load_encoder_decoder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ModelError, match=r"'t5', an encoder-decoder: load it by stepwell\.lm\.load_encoder_decoder"):
        stepwell.lm.load(tmp_path)
