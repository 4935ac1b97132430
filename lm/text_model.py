"""`TextModel`: what an `Engine` needs of a model whose texts it continues."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import numpy as np

from ..runtime.executable import Executable
from ..support.errors import InputError
from .generation import Generation
from .proposals import Proposals
from .request import Request, Source
from .text_states import TextStates
from .token_rules import TokenRules
from .tokenizer import TextTokenizer


class TextModel(abc.ABC):
    """A model that continues texts.

    Attributes:
        tokenizer: the tokenizer of the model.
        context: maximum number of tokens of a text with its prompt.
        sequences: maximum number of texts that grow together.
        is_batch_invariant: whether each text of an `Engine` is, to the last bit, the one that it is alone.
        shares_beginnings: whether texts with the same tokens have the same state.
        rules: the tokens that are not chosen.
    """

    shares_beginnings = True
    rules = TokenRules()

    def __init__(self, tokenizer: TextTokenizer, context: int, sequences: int, is_batch_invariant: bool) -> None:
        self.tokenizer, self.context, self.sequences = tokenizer, context, sequences
        self.is_batch_invariant = is_batch_invariant

    @property
    @abc.abstractmethod
    def programs(self) -> Sequence[Executable]:
        """The compiled programs."""

    @abc.abstractmethod
    def pool(self) -> TextStates:
        """Returns a new pool of keys and values, or of other states, without texts."""

    @abc.abstractmethod
    def prompt(self, text: str) -> tuple[Sequence[int], Source | None]:
        """Returns the tokens to continue for a text that a user gives, and the source; None if there is none.

        Raises:
            InputError: the model takes no text.
        """

    def prompt_of_tokens(self, tokens: Sequence[int]) -> tuple[Sequence[int], Source | None]:
        """Does the same for the tokens of a text."""
        return tokens, None

    def check_source(self, source: Source | None) -> None:
        """Checks what a text is about.

        Raises:
            InputError: it has another form than the model takes.
        """
        if source is not None:
            raise InputError("the model continues texts, and takes no source")

    def inputs_of(self, source: Source | None) -> Mapping[str, np.ndarray]:
        """Returns the inputs of all steps of a text that are computed from what it is about."""
        return {}

    def proposals(self) -> Proposals:
        """Returns the proposals of next tokens for a text."""
        return Proposals([])

    def generation(self, request: Request) -> Generation:
        """Returns the text of a request, without tokens.

        Raises:
            InputError: the prompt is empty or leaves no room in the context, the grammar is wrong, or the source has
                another form than the model takes.
        """
        self.check_source(request.source)
        most = self.room(request.tokens, request.most)
        return Generation(self.tokenizer, request.sampling, most, request.stop, request.logprobs, self.rules)

    def room(self, tokens: Sequence[int], most: int | None = None) -> int:
        """Returns the maximum number of tokens that may follow a prompt, `most` if the context holds as many.

        Raises:
            InputError: the prompt is empty or leaves no room in the context.
        """
        if not tokens:
            raise InputError("the prompt is empty")
        if len(tokens) >= self.context:
            raise InputError(f"the prompt has {len(tokens)} tokens, and the context {self.context}; load it with more")
        room = self.context - len(tokens)
        return room if most is None else min(most, room)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in memory, which the programs share."""
        made = [program for item in self.programs for program in item.programs]
        arrays = {name: array for program in made for name, array in program.parameters.items()}
        return sum(array.nbytes for array in arrays.values())
