"""`transformers.exporters` with the format "stepwell": an exported model computes what the model does."""

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", minversion="5.23", reason="transformers is not installed")

from stepwell.compat.transformers import exporter  # noqa: E402

CONFIG = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 31, "n_positions": 16, "use_cache": False}


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    from transformers.exporters import auto

    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(auto, "EXPORT_BACKENDS", dict(auto.EXPORT_BACKENDS))
    exporter.register()


@pytest.mark.sweep
def test_an_exported_model():
    config = transformers.AutoConfig.for_model("gpt2", bos_token_id=1, eos_token_id=2, **CONFIG)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.arange(6).unsqueeze(0)
    exported = exporter.StepwellExporter().export(model, {"input_ids": ids}, config=exporter.StepwellConfig())
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
    torch.testing.assert_close(exported(input_ids=ids).logits, wanted, rtol=1e-4, atol=1e-5)


def test_another_device():
    with pytest.raises(stepwell.InputError, match="on the CPU, and was asked for cuda"):
        exporter.StepwellModelRunner.from_program(None, None, "cuda")
