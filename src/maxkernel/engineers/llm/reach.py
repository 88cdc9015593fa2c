"""Does a provider answer? Asks for its list of models, which costs nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from maxkernel.engineers.llm.calls import without_secrets
from maxkernel.engineers.llm.loops import finish
from maxkernel.engineers.llm.models import ModelSpec
from maxkernel.errors import EnvironmentFault

SECONDS = 20.0
"""For the whole list."""


def count_models(kind: str) -> int:
    """How many models a provider (`anthropic`, `openai`, `google`, `ollama`) offers to this key.

    Raises EnvironmentFault when it does not answer, or does not take the key.
    """
    try:
        return finish(_count(kind))
    except EnvironmentFault:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:200] or "no answer"
        text = without_secrets(f"{type(error).__name__}: {words}")
        raise EnvironmentFault(f"{kind} does not answer: {text}") from error


async def _count(kind: str) -> int:
    from maxkernel.engineers.llm.providers import build_model

    model: Any = build_model(ModelSpec(kind, "any"), "probe")  # pyright: ignore[reportArgumentType]
    async with asyncio.timeout(SECONDS), model:
        if kind == "google":
            listed = await model.client.aio.models.list()
        else:
            listed = model.client.with_options(max_retries=0).models.list()
        return len([None async for _ in listed])
