"""Language models: text in, text out, from a GGUF file with its tokenizer and chat template.

model = stepwell.lm.load("model.gguf")
for text in model.stream("Once upon a time"):
    print(text, end="", flush=True)
"""

from .divergence import Divergence, measure_divergence
from .encoder_decoder import EncoderDecoder, load_encoder_decoder
from .engine import Engine, EngineFigures
from .grammar import json_schema, regular_expression
from .loading import load
from .model import LanguageModel, TextSession
from .proposals import Proposals
from .request import End, Piece, Request, TokenChoice
from .sampling import SamplingOptions

__all__ = [
    "Divergence",
    "EncoderDecoder",
    "End",
    "Engine",
    "EngineFigures",
    "LanguageModel",
    "Piece",
    "Proposals",
    "Request",
    "SamplingOptions",
    "TextSession",
    "TokenChoice",
    "json_schema",
    "load",
    "load_encoder_decoder",
    "measure_divergence",
    "regular_expression",
]
