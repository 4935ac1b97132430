"""`stepwell-chat`: a chat with a language model in the terminal."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ..support.errors import InputError
from ..support.packages import require_package
from ..support.wording import duration
from . import arguments, model_options, running, text_options
from .console import progress
from .flags import UsageError

if TYPE_CHECKING:
    from ..lm.model import LanguageModel
    from ..lm.sampling import SamplingOptions

NAME = "stepwell-chat"
_DESCRIPTION = """Chats with a language model, by the chat template of its file.

    stepwell-chat model.gguf
    stepwell-chat model.gguf --system "Answer briefly." --temperature 0.7 --top-p 0.9
    stepwell-chat model.gguf < questions.txt              one message per line

A model without a chat template continues the text. /reset forgets the chat, /exit or Ctrl-D ends it, Ctrl-C ends an
answer."""
_PROMPT = "> "
_DIM, _PLAIN = "\033[2m", "\033[0m"


def main(argv: list[str] | None = None) -> int:
    """Runs the tool and returns its exit code: 1 after an error."""
    options = _parser().parse_args(argv)
    return running.run_with(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser(NAME, _DESCRIPTION)
    text_options.add_model_options(parser)
    parser.add_argument("--system", metavar="TEXT", help="the first message, which tells the model how to answer")
    parser.add_argument("--most", type=arguments.positive, metavar="N", help="maximum number of tokens of an answer")
    text_options.add_sampling_options(parser, temperature=0.0)
    parser.add_argument("--seed", type=arguments.natural, help="the same seed gives the same answers")
    model_options.add_output_options(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    for package in ("gguf", "tokenizers", "jinja2"):
        require_package(package, "a chat", "lm")
    from ..lm.loading import load

    sampling = text_options.sampling_of(options, options.seed)
    with progress(options, f"loading {Path(options.model).name}"):
        model = load(options.model, **text_options.loading_of(options))
    if options.system is not None and not model.tokenizer.template:
        raise UsageError("--system needs a chat template, and the model has none")
    chat = _Chat(model, options.system, sampling, options.most)
    for line in _lines():
        if line == "/exit":
            break
        if line == "/reset":
            chat.reset()
            continue
        try:
            _show(chat, line, options)
        except InputError as error:
            if not sys.stdin.isatty():
                raise
            print(f"{NAME}: error: {error}; /reset starts a new chat", file=sys.stderr)
    return 0


class _Chat:
    """The messages of a chat, or the text that a model without a chat template continues.

    Attributes:
        tokens: number of tokens of the last answer; the one that ended it counts.
        first_seconds: time to its first text.
        rate: its tokens per second after that.
        proposals: counts of the proposed and of the accepted tokens of all answers.
    """

    def __init__(self, model: LanguageModel, system: str | None, sampling: SamplingOptions, most: int | None) -> None:
        self._tokenizer, self._session = model.tokenizer, model.session()
        self._system, self._sampling, self._most = system, sampling, most
        self.tokens, self.first_seconds, self.rate, self.proposals = 0, 0.0, 0.0, self._session.proposals
        self.reset()

    def reset(self) -> None:
        """Forgets all messages."""
        self._messages = [] if self._system is None else [{"role": "system", "content": self._system}]
        self._text = ""

    def answer(self, message: str) -> Generator[str, None, None]:
        """Yields the answer to a message as it grows; closing it ends the answer, which stays in the chat."""
        messages = [*self._messages, {"role": "user", "content": message}]
        prompt = self._tokenizer.chat(messages) if self._tokenizer.template else self._text + message
        start, length = time.perf_counter(), len(self._tokenizer.encode(prompt))
        first, tokens_at_first, answer = start, 1, ""
        stream = self._session.stream(prompt, self._sampling, most=self._most)
        try:
            for part in stream:
                if not answer:
                    first, tokens_at_first = time.perf_counter(), len(self._session.tokens) - length + 1
                answer += part
                yield part
        finally:
            # The session has read all tokens but the last one.
            self.tokens = len(self._session.tokens) - length + 1
            self.first_seconds, seconds = first - start, time.perf_counter() - first
            self.rate = (self.tokens - tokens_at_first) / seconds
            self._messages = [*messages, {"role": "assistant", "content": answer}]
            self._text = prompt + answer


def _show(chat: _Chat, message: str, options: argparse.Namespace) -> None:
    """Prints the answer to a message as it grows, and figures on stderr."""
    parts, answer = [], chat.answer(message)
    with _interrupted() as is_interrupted:
        for part in answer:
            parts.append(part)
            if not options.json:
                print(part, end="", flush=True)
            if is_interrupted():
                break
    answer.close()
    if options.json:
        record = {"answer": "".join(parts), "tokens": chat.tokens, "tokens_per_second": round(chat.rate, 2)}
        if chat.proposals.most:
            record |= {"proposed": chat.proposals.proposed, "accepted": chat.proposals.accepted}
        running.print_json({"schema": 1, **record, "first_seconds": round(chat.first_seconds, 4)})
        return
    print(flush=True)
    if not options.quiet:
        figures = f"{chat.tokens} tokens, {chat.rate:.1f} tokens/s, first after {duration(chat.first_seconds)}"
        if chat.proposals.most:
            figures += f", {chat.proposals.accepted} of {chat.proposals.proposed} proposed tokens accepted"
        print(f"{_DIM}{figures}{_PLAIN}" if sys.stderr.isatty() else figures, file=sys.stderr)


@contextmanager
def _interrupted() -> Iterator[Callable[[], bool]]:
    """Gives a function that returns whether Ctrl-C was pressed; the second time, it interrupts as usual.

    An interrupt inside a step would leave keys and values in an unknown state.
    """
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, previous)


def _lines() -> Iterator[str]:
    """Yields the messages: lines that are typed, or those of the standard input."""
    is_typed = sys.stdin.isatty()
    if is_typed:
        with suppress(ImportError):
            import readline  # noqa: F401  lets lines be edited
    while True:
        try:
            line = input(_PROMPT) if is_typed else next(sys.stdin)
        except (EOFError, StopIteration):
            return
        except KeyboardInterrupt:  # forgets the line
            if not is_typed:
                raise
            print()
            continue
        if line.strip():
            yield line.strip()


if __name__ == "__main__":
    sys.exit(main())
