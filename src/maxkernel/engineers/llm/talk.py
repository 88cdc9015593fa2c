"""One conversation with one model: question, tools, corrections, answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from pydantic_ai import Agent, ModelRetry, TextOutput, UsageLimits
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from maxkernel.engineers.llm.budget import Meter
from maxkernel.engineers.llm.calls import Record
from maxkernel.engineers.llm.metered import MeteredModel
from maxkernel.engineers.llm.models import ModelSpec
from maxkernel.engineers.llm.providers import build_model
from maxkernel.engineers.llm.question import (
    CORRECTIONS,
    TURNS,
    Question,
    TooLong,
    TooShort,
    Unusable,
)
from maxkernel.engineers.llm.replay import Recording, ReplayModel
from maxkernel.engineers.llm.robust import BadAnswer, Patience, Troubles

T = TypeVar("T")

_LASTING = (ModelAuthenticationError, ModelNotFoundError, ModelQuotaExceededError)
_LASTING_STATUS = frozenset({401, 402, 403})
_BAD_KEY = "api key not valid"
"""Gemini's words for an unknown key, under the status of a malformed request."""


async def converse(
    question: Question[T],
    spec: ModelSpec,
    room: int,
    output_tokens: int,
    *,
    meter: Meter,
    record: Record,
    troubles: Troubles,
    recording: Recording | None,
    patience: Patience,
    hear: Callable[[str], None] | None = None,
) -> T:
    """The typed answer; `hear` gets the model's words as they arrive.

    Raises TooLong, TooShort, Unusable, or what the meter raises.
    """
    inner = ReplayModel(recording, question.role) if recording else build_model(spec, question.role)
    model = MeteredModel(inner, spec, question.role, meter, record, troubles, patience, hear)
    agent: Agent[None, T] = Agent(
        model,
        name=question.role,
        deps_type=type(None),
        output_type=TextOutput(_parser(question, troubles)),
        instructions=question.instructions,
        tools=[] if spec.kind in ("cli", "relay") else list(question.tools),
        retries={"output": CORRECTIONS, "tools": CORRECTIONS},
        model_settings=_settings(spec, inner, output_tokens),
    )
    try:
        async with model:
            limits = UsageLimits(request_limit=TURNS)
            result = await agent.run(question.prompt(room), usage_limits=limits)
        return result.output
    except ModelContextWindowExceededError as fault:
        raise TooLong from fault
    except OutputTokenLimitExceeded as fault:
        raise TooShort from fault
    except ContentFilterError as fault:
        raise Unusable("refusal", "the provider's filter refused") from fault
    except UsageLimitExceeded as fault:
        raise Unusable("loop", f"no answer after {TURNS} turns") from fault
    except ModelAPIError as fault:
        raise Unusable("model_out", _short(fault), _lasts(fault)) from fault
    except UnexpectedModelBehavior as fault:
        raise Unusable("schema", _short(fault)) from fault


def _parser(question: Question[T], troubles: Troubles) -> Callable[[str], T]:
    """Parses answers, sends complaints back, and ends a conversation that goes in circles."""
    seen: set[str] = set()

    def parse(text: str) -> T:
        try:
            return question.parse(text)
        except BadAnswer as bad:
            troubles.note(bad.kind)
            digest = hashlib.sha256(text.encode()).hexdigest()
            if digest in seen:
                raise Unusable("loop", f"the same unusable answer again ({bad.kind})") from bad
            seen.add(digest)
            raise ModelRetry(bad.complaint) from bad

    return parse


def _settings(spec: ModelSpec, model: Model, output_tokens: int) -> ModelSettings:
    if spec.kind in ("cli", "relay") or isinstance(model, ReplayModel):
        return ModelSettings(max_tokens=output_tokens)
    return ModelSettings(max_tokens=output_tokens, max_retries=0, cache=True)


def _lasts(fault: ModelAPIError) -> bool:
    """True where the next question would fare no better: no key, unknown name, no credit."""
    if isinstance(fault, _LASTING):
        return True
    if not isinstance(fault, ModelHTTPError):
        return False
    return fault.status_code in _LASTING_STATUS or _BAD_KEY in str(fault.body).lower()


def _short(fault: Exception) -> str:
    return " ".join(str(fault).split())[:300]
