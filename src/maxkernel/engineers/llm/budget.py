"""Hard budgets for language models: cost, tokens, requests.

A request is admitted only while what is spent and what is under way lie below every limit, so a
limit is never exceeded by more than the one request that was admitted last. What was spent before
a resume counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from maxkernel.engineers.roles import BudgetSpent


class LlmBudget(msgspec.Struct, frozen=True):
    """Limits over a whole run, resumes included. None means no limit of that kind."""

    max_cost: float | None = None
    """US dollars."""
    max_tokens: int | None = None
    """Input and output together."""
    max_requests: int | None = None
    """Requests sent, retries included."""


class Spent(msgspec.Struct, frozen=True):
    """What models have used so far."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """US dollars, for the requests whose price is known."""
    unpriced_tokens: int = 0
    """Tokens of models without a known price; `cost` does not contain them."""

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def plus(self, input_tokens: int, output_tokens: int, cost: float | None) -> Spent:
        """After one more request."""
        unpriced = input_tokens + output_tokens if cost is None else 0
        return Spent(
            self.requests + 1,
            self.input_tokens + input_tokens,
            self.output_tokens + output_tokens,
            self.cost + (cost or 0.0),
            self.unpriced_tokens + unpriced,
        )


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """A request under way, and the most that it is expected to use."""

    tokens: int
    cost: float


class Meter:
    """Counts what models use and refuses what the budget does not allow. Thread-safe."""

    def __init__(
        self,
        budget: LlmBudget,
        spent: Spent | None = None,
        on_change: Callable[[Spent], None] = lambda _: None,
    ) -> None:
        self.budget = budget
        self._spent = spent or Spent()
        self._open: list[Ticket] = []
        self._changed = threading.Condition()
        self._on_change = on_change

    @property
    def spent(self) -> Spent:
        """What has been used, requests under way excluded."""
        with self._changed:
            return self._spent

    def admit(self, tokens: int, cost: float) -> Ticket:
        """Waits until a request fits beside those under way; raises BudgetSpent when none will.

        `tokens` and `cost` are the most that the request may use, as far as one can tell.
        """
        ticket = Ticket(tokens, cost)
        with self._changed:
            while True:
                reached = self._reached(0, 0, 0.0)
                if reached:
                    raise BudgetSpent(reached, "raise the limit and resume the run to go on")
                under_way = (
                    len(self._open),
                    sum(other.tokens for other in self._open),
                    sum(other.cost for other in self._open),
                )
                if not self._open or not self._reached(*under_way):
                    self._open.append(ticket)
                    return ticket
                self._changed.wait()

    def settle(
        self, ticket: Ticket, input_tokens: int, output_tokens: int, cost: float | None
    ) -> None:
        """Replaces a ticket by what the request really used."""
        with self._changed:
            self._open.remove(ticket)
            self._spent = self._spent.plus(input_tokens, output_tokens, cost)
            spent = self._spent
            self._changed.notify_all()
        self._on_change(spent)

    def _reached(self, requests: int, tokens: int, cost: float) -> str:
        """Which limit is reached with that much under way; empty when none is."""
        budget, spent = self.budget, self._spent
        if budget.max_requests is not None and spent.requests + requests >= budget.max_requests:
            return f"the models' budget of {budget.max_requests} requests is spent"
        if budget.max_tokens is not None and spent.tokens + tokens >= budget.max_tokens:
            return (
                f"the models' budget of {budget.max_tokens} tokens is spent ({spent.tokens} used)"
            )
        if budget.max_cost is not None and spent.cost + cost >= budget.max_cost:
            return f"the models' budget of ${budget.max_cost:g} is spent (${spent.cost:.4f} used)"
        return ""
