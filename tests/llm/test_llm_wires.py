"""The real SDKs against a server that speaks their wire formats, faults included."""

from __future__ import annotations

import threading
import time

import pytest
from fake_llm_server import Disconnect, Say, Status, Use
from llm_helpers import CODE, GOOD, KEY, WIRES, Asker, notation

from maxkernel.engineers.roles import BudgetSpent, NoAnswer, Stopped
from maxkernel.errors import EnvironmentFault

ALL = (*WIRES, "url", "ollama")


@pytest.mark.parametrize("wire", ALL)
def test_an_answer_comes_back_and_is_recorded(server, wire):
    server.script(GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    (call,) = one.calls
    assert "write a kernel" in call.request and "You write kernels." in call.request
    assert CODE in call.text and CODE.splitlines()[0] in call.answer
    assert (call.input_tokens, call.output_tokens, call.estimated) == (100, 20, False)
    assert one.desk.meter.spent.requests == 1
    assert KEY not in repr(one.calls)


@pytest.mark.parametrize("wire", WIRES)
def test_keys_go_to_their_own_server_only(server, wire):
    server.script(GOOD)
    Asker(notation(server, wire)).ask()
    headers = server.requests[0].headers
    assert KEY in " ".join(headers.values())
    assert "You write kernels." in server.requests[0].text


def test_an_unknown_server_never_gets_a_providers_key(server, monkeypatch):
    monkeypatch.delenv("MAXKERNEL_API_KEY")
    server.script(GOOD)
    Asker(notation(server, "url")).ask()
    assert KEY not in " ".join(server.requests[0].headers.values())


@pytest.mark.parametrize("wire", WIRES)
def test_a_rate_limit_is_waited_out_as_long_as_the_server_says(server, wire):
    server.script(Status(429, headers={"retry-after": "1"}), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    first, second = server.requests
    assert second.at - first.at >= 1.0
    assert one.desk.troubles.counts() == {"rate_limit": 1}
    assert [bool(call.error) for call in one.calls] == [True, False]
    assert one.calls[0].input_tokens == 0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(500), "server"),
        (Disconnect(), "connection"),
        (Disconnect(midway=True), "connection"),
    ],
    ids=["500", "disconnect", "midway"],
)
def test_passing_faults_are_tried_again(server, wire, fault, kind):
    server.script(fault, fault, GOOD)
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    assert len(server.requests) == 3
    assert one.desk.troubles.counts() == {kind: 2}


@pytest.mark.parametrize("wire", WIRES)
def test_a_fault_that_stays_ends_the_question_not_the_run(server, wire):
    server.script(Status(500))
    one = Asker(notation(server, wire))
    with pytest.raises(NoAnswer, match="500"):
        one.ask()
    assert len(server.requests) == 4
    server.script(GOOD)
    assert one.ask() == CODE


@pytest.mark.parametrize("wire", WIRES)
def test_a_wait_of_hours_is_not_waited(server, wire):
    server.script(Status(429, headers={"retry-after": "7200"}))
    started = time.monotonic()
    with pytest.raises(NoAnswer):
        Asker(notation(server, wire)).ask()
    assert len(server.requests) == 1 and time.monotonic() - started < 5


@pytest.mark.parametrize("wire", WIRES)
def test_a_refused_key_puts_the_model_out(server, wire):
    server.script(Status(401, "bad key"))
    one = Asker(notation(server, wire))
    with pytest.raises(EnvironmentFault, match="no model is left"):
        one.ask()
    assert len(server.requests) == 1


def test_geminis_answer_to_an_unknown_key_puts_it_out(server):
    words = "API key not valid. Please pass a valid API key."
    server.script(Status(400, words, kind="INVALID_ARGUMENT"))
    one = Asker(notation(server, "google"))
    with pytest.raises(EnvironmentFault, match="no model is left"):
        one.ask()
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_that_stops_working_ends_the_budget_not_the_program(server, wire):
    server.script(GOOD, Status(402, "credit is used up"))
    one = Asker(notation(server, wire))
    assert one.ask() == CODE
    with pytest.raises(BudgetSpent, match="no model is left for the implementer"):
        one.ask()


def test_another_model_takes_over_and_stays(server):
    server.respond(lambda r: Status(401) if r.wire == "anthropic" else GOOD)
    one = Asker(notation(server, "anthropic"), notation(server, "openai"))
    assert one.ask() == CODE
    assert one.ask() == CODE
    assert [r.wire for r in server.requests] == ["anthropic", "openai", "openai"]


def test_models_of_a_role_take_turns(server):
    server.script(GOOD)
    one = Asker(*(notation(server, wire) for wire in WIRES))
    for _ in range(4):
        one.ask()
    assert [r.wire for r in server.requests] == ["openai", "anthropic", "google", "openai"]


@pytest.mark.parametrize("wire", WIRES)
def test_tools_are_offered_called_and_answered(server, wire):
    asked: list[tuple[str, int]] = []

    def search_docs(query: str, k: int = 5) -> str:
        """Searches the guide.

        Args:
            query: Words.
            k: How many.
        """
        asked.append((query, k))
        return "found the block spec"

    server.script(Use("search_docs", {"query": "block", "k": 2}), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask(tools=(search_docs,)) == CODE
    assert asked == [("block", 2)]
    assert "Searches the guide." in server.requests[0].text
    assert "found the block spec" in server.requests[1].text
    assert "[calls search_docs(" in one.calls[0].text


@pytest.mark.parametrize("wire", WIRES)
def test_the_time_limit_of_an_answer(server, wire):
    server.script(Say(GOOD.text, seconds=3.0))
    one = Asker(notation(server, wire), seconds=0.3)
    with pytest.raises(NoAnswer, match=r"no answer within 0\.3 seconds"):
        one.ask()
    assert one.desk.troubles.counts()["timeout"] == 2
    assert all(call.estimated and call.input_tokens > 0 for call in one.calls)


@pytest.mark.parametrize("wire", WIRES)
def test_stopping_cancels_what_is_under_way(server, wire):
    server.script(Say(GOOD.text, seconds=4.0))
    one = Asker(notation(server, wire))
    threading.Timer(0.5, one.desk.stop).start()
    started = time.monotonic()
    with pytest.raises(Stopped, match="stopped"):
        one.ask()
    assert time.monotonic() - started < 3
    assert one.calls[0].error.startswith("cancelled")
    with pytest.raises(Stopped, match="stopped"):
        one.ask()
