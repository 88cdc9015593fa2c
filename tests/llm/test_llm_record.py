"""What is recorded, what is not, and replays byte for byte."""

from __future__ import annotations

import json

import msgspec
import pytest
from fake_llm_server import Say, Status, Use
from llm_helpers import CODE, GOOD, KEY, WIRES, Asker, notation

from maxkernel.engineers.llm import (
    Call,
    Desk,
    LlmBudget,
    Meter,
    Patience,
    calls_of,
    parse_model,
    read_traffic,
    readable,
    record_into,
    spent_by,
    write_traffic,
)
from maxkernel.engineers.llm.question import Question
from maxkernel.engineers.llm.replay import Recording
from maxkernel.engineers.llm.robust import code_of
from maxkernel.engineers.roles import NoAnswer
from maxkernel.errors import EnvironmentFault, UsageError
from maxkernel.store import RunFile, RunHeader
from maxkernel.types import Budget, Task


def look(query: str) -> str:
    """Looks."""
    return f"found {query}"


def replaying(calls, role="implementer") -> tuple[Desk, list[Call], Recording]:
    again: list[Call] = []
    recording = Recording(calls)
    models = {r: [parse_model(model)] for r, model in recording.models.items()}
    desk = Desk(models, Meter(LlmBudget()), again.append, recording, Patience())
    return desk, again, recording


def question(text: str = "write a kernel", tools=(look,), role="implementer"):
    return Question(role, "You write kernels.", lambda _: text, code_of, tools)


@pytest.mark.parametrize("wire", WIRES)
def test_a_replay_answers_byte_for_byte_without_a_network(server, wire, monkeypatch):
    server.script(Status(500), Use("look", {"query": "vmem"}), Say("no code at all"), GOOD)
    one = Asker(notation(server, wire))
    assert one.ask(tools=(look,)) == CODE
    server.close()
    server.close = lambda: None
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name)
    desk, again, recording = replaying(one.calls)
    assert desk.ask(question()) == CODE
    answered = [call for call in one.calls if call.answer]
    assert [call.answer for call in again] == [call.answer for call in answered]
    assert [call.request for call in again] == [call.request for call in answered]
    assert [call.model for call in again] == [call.model for call in answered]
    assert desk.meter.spent.tokens == spent_by(answered).tokens
    assert recording.drift == 0
    assert spent_by(answered).cost > 0 and all(call.cost for call in again)
    assert desk.meter.spent.cost == spent_by(again).cost == 0
    assert all(call.replayed for call in again) and "replayed, cost $" in readable(again[-1])


def test_a_cost_limit_does_not_end_a_replay(server):
    server.script(GOOD)
    one = Asker(notation(server, "openai"))
    assert [one.ask() for _ in range(3)] == [CODE] * 3
    recording, again = Recording(one.calls), []
    models = {"implementer": [parse_model(notation(server, "openai"))]}
    meter = Meter(LlmBudget(max_cost=one.calls[0].cost))
    desk = Desk(models, meter, again.append, recording, Patience())
    assert [desk.ask(question("write a kernel", ())) for _ in range(3)] == [CODE] * 3
    assert len(again) == 3 and meter.spent.requests == 3


def test_a_replay_of_a_replay_is_the_same_file(server, tmp_path):
    server.script(Use("look", {"query": "vmem"}), GOOD)
    one = Asker(notation(server, "openai"))
    one.ask(tools=(look,))
    first, second = tmp_path / "first", tmp_path / "second"
    write_traffic(first, one.calls)
    desk, again, _ = replaying(read_traffic(first))
    desk.ask(question())
    timeless = [
        msgspec.structs.replace(call, seconds=old.seconds, at=old.at)
        for call, old in zip(again, one.calls, strict=True)
    ]
    write_traffic(second, timeless)
    assert second.read_bytes() == first.read_bytes()


def test_questions_find_their_answers_in_any_order(server):
    server.respond(lambda r: Say(f"```\ndef kernel(x):\n    return {'AB'['two' in r.text]!r}\n```"))
    one = Asker(notation(server, "openai"))
    first, second = one.ask(lambda _: "one"), one.ask(lambda _: "two")
    desk, _, recording = replaying(one.calls)
    assert desk.ask(question("two", ())) == second
    assert desk.ask(question("one", ())) == first
    assert recording.drift == 0


def test_a_question_that_reads_otherwise_gets_the_next_answer_and_is_counted(server):
    server.script(GOOD)
    one = Asker(notation(server, "openai"))
    one.ask(lambda _: "the error was 0.123")
    desk, _, recording = replaying(one.calls)
    assert desk.ask(question("the error was 0.456", ())) == CODE
    assert recording.drift == 1
    with pytest.raises((NoAnswer, EnvironmentFault), match="holds no further implementer answer"):
        desk.ask(question("and again", ()))


def test_secrets_of_the_environment_are_never_recorded(server, monkeypatch):
    monkeypatch.setenv("MY_SECRET_TOKEN", 'hush"hush\\hush')
    server.respond(lambda r: Status(400, f"bad key {KEY}"))
    one = Asker(notation(server, "openai"))
    with pytest.raises(NoAnswer):
        one.ask(lambda _: f'the password is hush"hush\\hush and {KEY}')
    text = msgspec.json.encode(one.calls).decode()
    assert KEY not in text and "hush" not in text
    assert text.count("[redacted]") >= 3


def test_requests_hold_no_ids_and_no_times(server):
    server.script(Use("look", {"query": "vmem"}), GOOD)
    one, two = Asker(notation(server, "google")), Asker(notation(server, "google"))
    one.ask(tools=(look,))
    server.script(Use("look", {"query": "vmem"}), GOOD)
    two.ask(tools=(look,))
    assert [c.request for c in one.calls] == [c.request for c in two.calls]
    assert [c.digest for c in one.calls] == [c.digest for c in two.calls]
    said = json.loads(one.calls[1].request)
    assert [part["by"] for part in said] == ["instructions", "user-prompt", "call", "tool-return"]


def test_the_run_file_keeps_every_call(server, tmp_path):
    server.script(Status(500), GOOD)
    task = Task("t", "maxkernel", "t.py", {"t.py": ""}, "d")
    header = RunHeader("r", task, "v6e", "auto", Budget(), {}, 0.0)
    calls: list[Call] = []
    with RunFile.create(tmp_path / "run", header) as run:
        record = record_into(run)
        desk = Desk(
            {"implementer": [parse_model(notation(server, "openai"))]},
            Meter(LlmBudget()),
            lambda call: (calls.append(call), record(call))[1],
            None,
            Patience(backoff=0.01),
        )
        desk.ask(question(tools=()))
        spent = desk.meter.spent
    with RunFile.read(tmp_path / "run") as run:
        assert calls_of(run) == calls
        assert spent_by(calls_of(run)) == spent
    assert [bool(call.error) for call in calls] == [True, False]


def test_a_call_is_readable(server):
    server.script(Status(500), Say("no code"), GOOD)
    one = Asker(notation(server, "openai"))
    one.ask()
    failed, wrong, good = map(readable, one.calls)
    assert "implementer asks openai:gpt-4.1" in failed and "--- failed\nserver:" in failed
    assert "--- instructions\nYou write kernels." in wrong and "--- answer\nno code" in wrong
    assert "--- model\nno code" in good and "100 tokens in, 20 out, $0.0004" in good


def test_files_that_are_no_traffic_are_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot read recorded traffic"):
        read_traffic(tmp_path / "none")
    bad = tmp_path / "bad"
    bad.write_text("hello\n")
    with pytest.raises(UsageError, match="is no recorded traffic"):
        read_traffic(bad)
