"""Budgets to the request: none is exceeded by more than the call in flight."""

from __future__ import annotations

import threading
import time

import pytest
from fake_llm_server import Say, Status
from hypothesis import given
from hypothesis import strategies as st
from llm_helpers import CODE, GOOD, WIRES, Asker, notation

from maxkernel.engineers.llm import LlmBudget, Meter, Spent, check_budget, parse_model, spent_by
from maxkernel.engineers.roles import BudgetSpent
from maxkernel.errors import UsageError


@pytest.mark.parametrize("wire", WIRES)
def test_requests_stop_at_the_limit_exactly(server, wire):
    server.script(GOOD)
    one = Asker(notation(server, wire), budget=LlmBudget(max_requests=3))
    for _ in range(3):
        assert one.ask() == CODE
    with pytest.raises(BudgetSpent, match="3 requests is spent"):
        one.ask()
    assert len(server.requests) == 3


def test_repetitions_count_as_requests(server):
    server.script(Status(500))
    one = Asker(notation(server, "openai"), budget=LlmBudget(max_requests=2))
    with pytest.raises(BudgetSpent):
        one.ask()
    assert len(server.requests) == 2


def test_corrections_count_as_requests(server):
    server.script(Say("no code"), GOOD)
    one = Asker(notation(server, "openai"), budget=LlmBudget(max_requests=1))
    with pytest.raises(BudgetSpent):
        one.ask()
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_tokens_stop_after_the_call_that_reaches_the_limit(server, wire):
    server.script(GOOD)
    one = Asker(notation(server, wire), budget=LlmBudget(max_tokens=250))
    for _ in range(3):
        one.ask()
    assert one.desk.meter.spent.tokens == 360
    with pytest.raises(BudgetSpent, match="250 tokens"):
        one.ask()
    assert len(server.requests) == 3


def test_cost_stops_after_the_call_that_reaches_the_limit(server):
    """gpt-4.1 costs $2 and $8 a million tokens: $0.00036 a call."""
    server.script(GOOD)
    one = Asker(notation(server, "openai"), budget=LlmBudget(max_cost=0.0007))
    one.ask()
    one.ask()
    assert one.desk.meter.spent.cost == pytest.approx(0.00072)
    with pytest.raises(BudgetSpent, match=r"\$0\.0007 is spent"):
        one.ask()
    assert len(server.requests) == 2


def test_what_was_spent_before_a_resume_stays_spent(server):
    server.script(GOOD)
    first = Asker(notation(server, "openai"), budget=LlmBudget(max_requests=3))
    first.ask()
    first.ask()
    spent = spent_by(first.calls)
    assert spent == first.desk.meter.spent
    second = Asker(notation(server, "openai"), budget=LlmBudget(max_requests=3), spent=spent)
    second.ask()
    with pytest.raises(BudgetSpent):
        second.ask()


def test_eight_threads_do_not_exceed_the_requests(server):
    server.script(Say(GOOD.text, seconds=0.05))
    one = Asker(notation(server, "openai"), budget=LlmBudget(max_requests=10))
    one.ask()
    refused: list[BudgetSpent] = []

    def work() -> None:
        try:
            for _ in range(4):
                one.ask()
        except BudgetSpent as error:
            refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 10
    assert len(refused) == 8
    assert one.desk.meter.spent.requests == 10


def test_servers_without_usage_are_charged_by_estimate(server):
    server.script(Say(GOOD.text, usage=False))
    one = Asker(notation(server, "url"), budget=LlmBudget(max_tokens=10_000))
    one.ask()
    (call,) = one.calls
    assert call.estimated and call.input_tokens > 5 and call.output_tokens > 5
    assert one.desk.meter.spent.unpriced_tokens == call.input_tokens + call.output_tokens


def test_a_call_that_breaks_off_is_charged_by_estimate(server):
    from fake_llm_server import Disconnect

    server.script(Disconnect(midway=True), GOOD)
    one = Asker(notation(server, "openai"))
    one.ask()
    assert one.calls[0].estimated and one.calls[0].input_tokens > 0
    assert one.calls[0].cost is not None and one.calls[0].cost > 0


def test_unknown_prices_need_a_token_limit():
    unknown = [parse_model("http://localhost:1/v1#mystery"), parse_model("cli:mystery")]
    for spec in unknown:
        with pytest.raises(UsageError, match="no price is known for") as caught:
            check_budget([spec], LlmBudget(max_cost=5.0))
        assert "--max-tokens" in caught.value.advice
        check_budget([spec], LlmBudget(max_tokens=1000))
    check_budget([parse_model("openai:gpt-4.1"), parse_model("ollama:x")], LlmBudget())


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 80)), max_size=30),
    st.integers(1, 300),
)
def test_tokens_never_exceed_the_limit_by_more_than_one_call(calls, limit):
    """Whatever calls were expected to use and then use, in sequence."""
    meter = Meter(LlmBudget(max_tokens=limit))
    last = 0
    for expected, used in calls:
        try:
            ticket = meter.admit(expected, 0.0)
        except BudgetSpent:
            assert meter.spent.tokens >= limit
            break
        last = used
        meter.settle(ticket, used, 0, None)
        assert meter.spent.tokens - last < limit


def test_a_call_waits_for_those_under_way_rather_than_overdraw():
    meter = Meter(LlmBudget(max_tokens=100))
    first = meter.admit(90, 0.0)
    second = meter.admit(90, 0.0)
    admitted: list[str] = []

    def third() -> None:
        try:
            meter.admit(90, 0.0)
            admitted.append("yes")
        except BudgetSpent:
            admitted.append("no")

    thread = threading.Thread(target=third)
    thread.start()
    time.sleep(0.1)
    assert admitted == []
    meter.settle(first, 10, 0, None)
    time.sleep(0.1)
    assert admitted == ["yes"] or thread.is_alive()
    meter.settle(second, 10, 0, None)
    thread.join(5)
    assert admitted == ["yes"]


def test_changes_are_told_as_they_happen():
    seen: list[Spent] = []
    meter = Meter(LlmBudget(), on_change=seen.append)
    meter.settle(meter.admit(1, 0.0), 5, 6, 0.5)
    assert seen == [Spent(1, 5, 6, 0.5, 0)]
