"""From command-line options to the team of a pairing session."""

from __future__ import annotations

from maxkernel.api import Hiring
from maxkernel.engineers.llm.budget import LlmBudget
from maxkernel.errors import UsageError


def hiring_of(
    models: list[str],
    max_cost: float | None,
    max_tokens: int | None,
    max_requests: int | None,
) -> Hiring | None:
    """The team that the options ask for; None where they ask for nothing.

    Each word is a model, for every role, or `ROLE=MODEL`; several for one role take turns.
    """
    if not models:
        if any(limit is not None for limit in (max_cost, max_tokens, max_requests)):
            raise UsageError("a limit for models needs a --model")
        return None
    chosen: dict[str, tuple[str, ...]] = {}
    for word in models:
        role, equals, model = word.partition("=")
        if not equals or not role.isalpha():
            role, model = "default", word
        chosen[role] = (*chosen.get(role, ()), model)
    budget = LlmBudget(max_cost=max_cost, max_tokens=max_tokens, max_requests=max_requests)
    return Hiring(chosen, budget)
