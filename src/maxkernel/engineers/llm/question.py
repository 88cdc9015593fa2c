"""A question of a role, its limits, and the ways in which one model can fail at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from maxkernel.engineers.llm.robust import TroubleKind

T = TypeVar("T")

PROMPT_ROOM = 48_000
"""Characters of a question, instructions excluded; halved on each context overflow."""
SHRINKS = 3
"""How often a question is condensed before the model is given up for it."""
CORRECTIONS = 2
"""How often a model may correct an answer that cannot be used."""
TURNS = 12
"""Answers and rounds of tool calls for one question."""
OUTPUT_TOKENS = 16_000
"""Longest answer asked for, reasoning included; doubled once when it proves too short."""


@dataclass(frozen=True)
class Question(Generic[T]):
    """What a role wants to know."""

    role: str
    instructions: str
    """The role's prompt: the same for every question, so that providers can cache it."""
    prompt: Callable[[int], str]
    """The question in at most about so many characters: less room, less history."""
    parse: Callable[[str], T]
    """The typed answer; raises BadAnswer with the complaint for the model."""
    tools: tuple[Callable[..., str], ...] = ()


class Words(msgspec.Struct, frozen=True):
    """What a model has written so far in answer to a question."""

    question: int
    """Numbers the questions of one desk."""
    role: str
    text: str
    """Everything since the request under way began; a correction or a repetition starts over."""
    done: bool = False
    """The question has been answered, or given up."""


Hear = Callable[[Words], None]
"""Gets words as they arrive, in the thread that reads them; several questions may interleave."""


class TooLong(Exception):
    """The question does not fit the model's context."""


class TooShort(Exception):
    """The answer did not fit the tokens allowed for it."""


class Unusable(Exception):
    """This model gave no usable answer to this question."""

    def __init__(self, kind: TroubleKind, text: str, lasting: bool = False) -> None:
        super().__init__(text)
        self.kind: TroubleKind = kind
        self.lasting = lasting
        """It will not answer the next question either: no key, unknown name, no credit."""
