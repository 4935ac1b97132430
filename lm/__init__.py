"""Language models: text in, text out, from a GGUF file with its tokenizer and chat template.

model = stepwell.lm.load("model.gguf")
for text in model.stream("Once upon a time"):
    print(text, end="", flush=True)
"""

from .model import LanguageModel, TextSession, load
from .sampling import SamplingOptions

__all__ = ["LanguageModel", "SamplingOptions", "TextSession", "load"]
