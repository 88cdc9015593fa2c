"""What the models of a run have used."""

from __future__ import annotations

import msgspec

from maxkernel.engineers.llm.calls import Call, calls_of
from maxkernel.store import RunFile


class ModelUse(msgspec.Struct, frozen=True):
    """One model's share of a run."""

    model: str
    """As the user named it."""
    roles: tuple[str, ...]
    requests: int
    failed: int
    """Requests that brought no answer."""
    input_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None where the price is not known."""
    seconds: float
    """Waited for answers, side by side or not."""
    estimated: bool = False
    """Some token counts are estimates: the provider gave none."""
    replayed: int = 0
    """Requests that a record answered; `cost` leaves them out."""


def model_use(run: RunFile) -> tuple[ModelUse, ...]:
    """Every model that was asked, in the order of its first request."""
    by_model: dict[str, list[Call]] = {}
    for call in calls_of(run):
        by_model.setdefault(call.model, []).append(call)
    return tuple(_use(model, calls) for model, calls in by_model.items())


def describe_use(use: ModelUse) -> str:
    """One line for people."""
    cost = "price unknown" if use.cost is None else f"${use.cost:.4f}"
    about = "about " if use.estimated else ""
    failed = f" ({use.failed} failed)" if use.failed else ""
    failed += f" ({use.replayed} replayed, nothing spent on them)" if use.replayed else ""
    return (
        f"{use.model} ({', '.join(use.roles)}): {use.requests} requests{failed}, "
        f"{about}{use.input_tokens} tokens in and {use.output_tokens} out, {cost}, "
        f"{use.seconds:.0f} s of answers"
    )


def _use(model: str, calls: list[Call]) -> ModelUse:
    asked = [call for call in calls if not call.replayed]
    costs = [call.cost for call in asked if call.cost is not None]
    return ModelUse(
        model=model,
        roles=tuple(dict.fromkeys(call.role for call in calls)),
        requests=len(calls),
        failed=sum(bool(call.error) for call in calls),
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cost=sum(costs) if len(costs) == len(asked) else None,
        seconds=sum(call.seconds for call in calls),
        estimated=any(call.estimated for call in calls),
        replayed=len(calls) - len(asked),
    )
