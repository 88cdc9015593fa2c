"""A model that asks the budget first, waits out rate limits, and records every request."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from maxkernel.engineers.llm.budget import Meter
from maxkernel.engineers.llm.calls import Call, Record, canonical, redacted
from maxkernel.engineers.llm.listen import stream_answer
from maxkernel.engineers.llm.models import ModelSpec, cost_of
from maxkernel.engineers.llm.robust import Patience, TroubleKind, Troubles

LONGEST_WAIT = 120.0
"""Seconds; a provider that asks for a longer wait is skipped for this question."""

REPLAY = "replay"
"""Name of the kind of model that answers from a record; see `replay.py`."""

_ATTEMPTS: dict[TroubleKind, int] = {
    "rate_limit": 6,
    "server": 4,
    "connection": 4,
    "timeout": 2,
}
"""Requests for one answer, by what keeps going wrong."""

_Used = tuple[int, int, float | None, bool]
"""Tokens in and out, cost in US dollars, and whether the tokens had to be estimated."""


class MeteredModel(WrapperModel):
    """Wraps the model of one role for one question."""

    def __init__(
        self,
        wrapped: Model,
        spec: ModelSpec,
        role: str,
        meter: Meter,
        record: Record,
        troubles: Troubles,
        patience: Patience,
        hear: Callable[[str], None] | None = None,
    ) -> None:
        """`hear` gets the text of answers as it arrives; None where nobody listens."""
        super().__init__(wrapped)
        self._spec = spec
        self._role = role
        self._meter = meter
        self._record = record
        self._troubles = troubles
        self._patience = patience
        self._hear = hear
        self._replays = wrapped.system == REPLAY

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """One answer. Raises BudgetSpent before a request that the budget forbids."""
        asked = canonical(said(messages))
        longest = (model_settings or {}).get("max_tokens", 0)
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._once(
                asked, longest, messages, model_settings, model_request_parameters
            )
            if isinstance(outcome, ModelResponse):
                return outcome
            kind = trouble_of(outcome)
            if kind is None:
                raise outcome
            self._troubles.note(kind)
            wait = self._wait(kind, outcome, attempt)
            if wait is None:
                raise outcome
            await asyncio.sleep(wait)

    async def _once(
        self,
        asked: str,
        longest: int,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> ModelResponse | ModelAPIError:
        expected = estimate_tokens(asked)
        most = 0.0 if self._replays else cost_of(self._spec, expected, longest) or 0.0
        ticket = self._meter.admit(expected + longest, most)
        call = Call(
            role=self._role,
            model=str(self._spec),
            request=asked,
            at=time.time(),
            replayed=self._replays,
        )
        started = time.monotonic()
        error = "cancelled: the run was stopped"
        used: _Used | None = None
        heard = ""

        def hear(text: str) -> None:
            nonlocal heard
            heard = text
            if self._hear is not None:
                self._hear(text)

        try:
            async with asyncio.timeout(self._longest_wait()):
                response = await self._answer(messages, settings, parameters, hear)
            used = self._used(response, asked)
            error = ""
            call = msgspec.structs.replace(
                call,
                answer=ModelMessagesTypeAdapter.dump_json([response]).decode(),
                text=text_of(response),
            )
            return response
        except ModelAPIError as fault:
            error = f"{trouble_of(fault) or type(fault).__name__}: {fault}"
            if not _may_be_billed(fault):
                used = (0, 0, 0.0, False)
            return fault
        except TimeoutError:
            fault = ModelTimeoutError(
                self.model_name, f"no answer within {self._patience.seconds:g} seconds"
            )
            error = f"timeout: {fault}"
            return fault
        finally:
            tokens_in, tokens_out, cost, estimated = used or self._guess(expected, heard)
            call = msgspec.structs.replace(
                call,
                error=error,
                input_tokens=tokens_in,
                output_tokens=tokens_out,
                cost=cost,
                estimated=estimated,
                seconds=time.monotonic() - started,
            )
            self._record(redacted(call))
            spent = 0.0 if self._replays else cost
            self._meter.settle(ticket, tokens_in, tokens_out, spent)

    async def _answer(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        hear: Callable[[str], None],
    ) -> ModelResponse:
        if self._hear is None:
            return await self.wrapped.request(messages, settings, parameters)
        if self._spec.kind not in ("cli", "relay") and not self._replays:
            return await stream_answer(self.wrapped, messages, settings, parameters, hear)
        response = await self.wrapped.request(messages, settings, parameters)
        hear(text_of(response))
        return response

    def _longest_wait(self) -> float | None:
        """A person may take as long as it takes."""
        return None if self._spec.kind == "relay" else self._patience.seconds

    def _guess(self, asked: int, heard: str) -> _Used:
        """What a request that broke off is taken to have used; `asked` in tokens."""
        answered = estimate_tokens(heard) if heard else 0
        return asked, answered, cost_of(self._spec, asked, answered), True

    def _used(self, response: ModelResponse, asked: str) -> _Used:
        usage = response.usage
        tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
        estimated = tokens_in == 0 and tokens_out == 0
        if estimated:
            tokens_in, tokens_out = estimate_tokens(asked), estimate_tokens(text_of(response))
        cost = cost_of(
            self._spec, tokens_in, tokens_out, usage.cache_read_tokens, usage.cache_write_tokens
        )
        return tokens_in, tokens_out, cost, estimated

    def _wait(self, kind: TroubleKind, fault: ModelAPIError, attempt: int) -> float | None:
        """Seconds until the next attempt; None to give up."""
        if attempt >= _ATTEMPTS.get(kind, 1):
            return None
        if fault.retry_after is not None:
            return fault.retry_after if fault.retry_after <= LONGEST_WAIT else None
        wait = self._patience.backoff * 2 ** (attempt - 1)
        return min(wait, LONGEST_WAIT) * random.uniform(1.0, 1.25)


def trouble_of(fault: ModelAPIError) -> TroubleKind | None:
    """The kind of a provider's error; None for one that another attempt cannot cure."""
    if isinstance(fault, ModelQuotaExceededError | ModelContextWindowExceededError):
        return None
    if isinstance(fault, ModelRateLimitError | ModelUnavailableError):
        return "rate_limit"
    if isinstance(fault, ModelTimeoutError):
        return "timeout"
    if isinstance(fault, ModelConnectionError):
        return "connection"
    if isinstance(fault, ModelRequestRejectedError):
        return None
    if isinstance(fault, ModelHTTPError) and fault.status_code < 500:
        return None
    return "server"


def said(messages: list[ModelMessage]) -> Iterator[tuple[str, Any]]:
    """(by, content) of everything in a conversation, instructions first.

    Left out are the model's hidden reasoning, and the notes with which pydantic-ai explains its
    own framing to models that need it: they depend on the provider, not on the question.
    """
    instructions = next(
        (m.instructions for m in reversed(messages) if m.kind == "request" and m.instructions), None
    )
    if instructions:
        yield "instructions", instructions
    for message in messages:
        for part in message.parts:
            if isinstance(part, ThinkingPart | SystemPromptPart):
                continue
            if isinstance(part, ToolCallPart):
                yield "call", {"tool": part.tool_name, "arguments": part.args_as_dict()}
            elif message.kind == "response":
                yield "model", getattr(part, "content", "")
            else:
                yield part.part_kind, getattr(part, "content", "")


def text_of(response: ModelResponse) -> str:
    """The text of an answer, its calls of tools as one line each."""
    lines = [part.content for part in response.parts if isinstance(part, TextPart)]
    lines += [
        f"[calls {part.tool_name}({part.args_as_json_str()})]"
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    return "\n".join(lines)


def estimate_tokens(text: str) -> int:
    """A generous guess: three characters a token (English and code have three to four)."""
    return len(text) // 3 + 1


def _may_be_billed(fault: ModelAPIError) -> bool:
    """A refused request costs nothing; one that broke off after it was sent may."""
    return isinstance(fault, ModelConnectionError) and fault.phase not in ("pool", "connect")
