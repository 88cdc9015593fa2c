"""Answers while they arrive: who hears them, and how they are read off a model's stream."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings


async def stream_answer(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    hear: Callable[[str], None],
) -> ModelResponse:
    """The answer that `model.request` gives; `hear` gets its text so far whenever some is new.

    Raises what the request raises, also in the middle of the answer.
    """
    text = ""
    hear(text)
    async with model.request_stream(messages, settings, parameters) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                text += event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                text += event.delta.content_delta
            else:
                continue
            hear(text)
        return stream.get()
