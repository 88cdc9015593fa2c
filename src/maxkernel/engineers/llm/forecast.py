"""What a run will use, roughly, before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from maxkernel.engineers.llm.models import ModelSpec, cost_of

_PER_ROUND = {
    "planner": (1, 6_000, 2_500),
    "implementer": (4, 5_500, 5_000),
    "debugger": (4, 6_500, 5_000),
    "tuner": (1, 700, 500),
    "profiler": (2, 2_000, 1_000),
}
"""Requests in one round of four plans, and input and output tokens of each: the prompt sizes that
`benchmarks/prompts.py` prints and half as much again for tools and corrections; the answers are
those of models that reason before they write a kernel of a hundred lines."""


class Forecast(msgspec.Struct, frozen=True):
    """Expected use of models over a run."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None when some model's price is not known."""


def forecast(models: Mapping[str, Sequence[ModelSpec]], rounds: int) -> Forecast:
    """The expected use of so many rounds with these models per role; roles without are free."""
    requests = tokens_in = tokens_out = 0
    cost: float | None = 0.0
    for role, (count, asked, answered) in _PER_ROUND.items():
        for turn in range(count * rounds if models.get(role) else 0):
            spec = models[role][turn % len(models[role])]
            requests += 1
            tokens_in += asked
            tokens_out += answered
            price = cost_of(spec, asked, answered)
            cost = None if cost is None or price is None else cost + price
    return Forecast(requests, tokens_in, tokens_out, cost)
