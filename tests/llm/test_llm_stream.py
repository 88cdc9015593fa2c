"""Answers while they arrive, through the real SDKs: pieces, faults in the middle, cancelling."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from fake_llm_server import Disconnect, Say, Status, Use
from llm_helpers import CODE, GOOD, KEY, WIRES, Asker, notation

from maxkernel.engineers.llm.calls import Call
from maxkernel.engineers.roles import NoAnswer, Stopped

ALL = (*WIRES, "url", "ollama")


def plain(call: Call) -> Call:
    """A call without what differs from one time to the next."""
    return msgspec.structs.replace(call, answer="", at=0.0, seconds=0.0)


@pytest.mark.parametrize("wire", ALL)
def test_words_arrive_before_the_answer_is_whole(server, wire):
    server.script(replace(GOOD, pieces=6, pause=0.05))
    one = Asker(notation(server, wire))
    arrived: list[float] = []
    texts: list[str] = []

    def hear(words):
        arrived.append(time.monotonic())
        texts.append("" if words.done else words.text)

    one.desk.listen(hear)
    assert one.ask() == CODE
    assert texts[-2] == GOOD.text and texts[-1] == ""
    grown = [text for text in texts[:-1] if text]
    assert len(grown) >= 6 and all(b.startswith(a) for a, b in pairwise(grown))
    assert arrived[-1] - arrived[0] >= 0.2


@pytest.mark.parametrize("wire", ALL)
def test_a_heard_answer_is_metered_and_recorded_like_any_other(server, wire):
    server.script(GOOD)
    silent, heard = Asker(notation(server, wire)), Asker(notation(server, wire))
    heard.listen()
    assert silent.ask() == heard.ask() == CODE
    assert [plain(call) for call in heard.calls] == [plain(call) for call in silent.calls]
    assert heard.desk.meter.spent == silent.desk.meter.spent
    assert (heard.calls[0].input_tokens, heard.calls[0].output_tokens) == (100, 20)
    assert server.requests[-1].streams and KEY not in repr(heard.calls)


@pytest.mark.parametrize("wire", WIRES)
def test_tools_are_called_in_between(server, wire):
    def look(query: str) -> str:
        """Looks."""
        return "found the block spec"

    server.script(Use("look", {"query": "block"}), GOOD)
    one = Asker(notation(server, wire))
    heard = one.listen()
    assert one.ask(tools=(look,)) == CODE
    assert "found the block spec" in server.requests[1].text
    assert [words.text for words in heard if not words.text] and heard[-2].text == GOOD.text


@pytest.mark.parametrize("wire", WIRES)
def test_a_break_in_the_middle_starts_over(server, wire):
    server.script(replace(GOOD, pieces=4, breaks_after=2), GOOD)
    one = Asker(notation(server, wire))
    heard = one.listen()
    assert one.ask() == CODE
    assert one.desk.troubles.counts() == {"connection": 1}
    starts = [place for place, words in enumerate(heard) if not words.text and not words.done]
    assert len(starts) == 2 and heard[-2].text == GOOD.text
    assert one.calls[0].error.startswith("connection") and one.calls[0].estimated


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Status(429, headers={"retry-after": "0"}), "rate_limit"),
        (Status(500), "server"),
        (Disconnect(), "connection"),
    ],
    ids=["429", "500", "disconnect"],
)
def test_faults_before_the_first_word_are_handled_as_ever(server, wire, fault, kind):
    server.script(fault, GOOD)
    one = Asker(notation(server, wire))
    one.listen()
    assert one.ask() == CODE
    assert one.desk.troubles.counts() == {kind: 1}


@pytest.mark.parametrize("wire", WIRES)
def test_a_filter_and_an_empty_answer_are_noticed(server, wire):
    server.script(Say("", finish="length"), Say(""), GOOD)
    one = Asker(notation(server, wire))
    one.listen()
    assert one.ask() == CODE
    assert one.desk.troubles.counts()["truncated"] == 1
    server.script(Say("I cannot.", finish="refusal"))
    with pytest.raises(NoAnswer):
        one.ask()
    assert one.desk.troubles.counts()["refusal"] >= 1


@pytest.mark.parametrize("wire", WIRES)
def test_the_time_limit_holds_in_the_middle_of_an_answer(server, wire):
    server.script(replace(GOOD, pieces=30, pause=0.1))
    one = Asker(notation(server, wire), seconds=0.5)
    one.listen()
    started = time.monotonic()
    with pytest.raises(NoAnswer, match=r"no answer within 0\.5 seconds"):
        one.ask()
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("wire", WIRES)
def test_cancelling_ends_this_question_only(server, wire):
    server.script(replace(GOOD, pieces=50, pause=0.1))
    one = Asker(notation(server, wire))
    heard = one.listen()

    def cancel() -> None:
        while not any(words.text for words in heard):
            time.sleep(0.01)
        one.desk.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        one.ask()
    thread.join()
    assert time.monotonic() - started < 3 and heard[-1].done
    assert one.calls[0].error.startswith("cancelled") and one.calls[0].output_tokens > 0
    server.script(GOOD)
    assert one.ask() == CODE
