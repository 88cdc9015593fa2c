"""Answers as they arrive: from a model's server through the engine to every client."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pairing_helpers import PLAN, Script, new_run, tiny_task

sys.path.append(str(Path(__file__).parent.parent / "llm"))

from fake_llm_server import FakeServer, Say

from maxkernel.api import Models, Session, load_task, open_engine, open_session, start_pair
from maxkernel.cli.pair.draft import Draft
from maxkernel.config import Settings
from maxkernel.engineers.llm import LlmBudget, Words, calls_of
from maxkernel.modes.pair import Ask, PairSession, Proposal
from maxkernel.modes.pair.acts import Began, Ended, Wrote
from maxkernel.modes.pair.drafts import Drafts
from maxkernel.types import Budget

LIMIT_SECONDS = 60.0
PLANS = json.dumps([{"strategy": "keep rows resident", "reason": "each row is read once " * 20}])
SLOW = Say(PLANS, pieces=60, pause=0.1)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = tmp_path_factory.mktemp("streaming")
    settings = Settings(runs_dir=str(place / "runs"), cache_dir=str(place / "cache"))
    with open_session("v6e", settings=settings) as session:
        yield session


@pytest.fixture
def server() -> Iterator[FakeServer]:
    started = FakeServer()
    yield started
    started.close()


@contextmanager
def paired(workers: Session, server: FakeServer, place: Path) -> Iterator[PairSession]:
    """A session with an engine whose planner is asked at the server."""
    models = Models({"planner": (f"{server.url}/v1#some",)}, LlmBudget(max_tokens=100_000))
    folder = start_pair(workers, load_task(tiny_task(place)), Budget(candidates=4), "all", models)
    client = PairSession(folder, "terminal")
    with running(workers, folder):
        yield client
    client.close()


@contextmanager
def running(workers: Session, folder: Path) -> Iterator[None]:
    engine = open_engine(workers, folder)
    thread = threading.Thread(target=engine.serve)
    thread.start()
    try:
        yield
    finally:
        started = time.monotonic()
        engine.close()
        thread.join(LIMIT_SECONDS)
        engine.release()
        assert time.monotonic() - started < 4.0


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def draft(client: PairSession) -> str:
    proposal = client.state.proposal
    return proposal.draft if proposal is not None else ""


def test_clients_see_an_answer_grow_and_a_stop_ends_it(
    workers: Session, server: FakeServer, tmp_path: Path
) -> None:
    server.script(SLOW)
    with paired(workers, server, tmp_path) as client:
        other = PairSession(client.run.folder, "browser")
        client.answer(True)
        until(lambda: "keep rows" in draft(other))
        before, settled = draft(other), other.state.settled
        until(lambda: len(draft(other)) > len(before))
        assert draft(other).startswith(before) and PLANS.startswith(draft(other))
        assert other.state.settled == settled < other.state.revision
        assert other.state.proposal is not None and other.state.proposal.writer == "planner"

        stopped = time.monotonic()
        other.stop()
        until(lambda: not client.state.running)
        assert time.monotonic() - stopped < 3.0
        assert client.state.lines[-1].text == "stopped"

        server.script(Say(PLANS))
        client.ask(Ask(stage="plan"))
        client.answer(True)
        until(lambda: not client.state.running)
        assert "keep rows resident" in [c.plan.strategy for c in client.state.bench.cards]
        assert [bool(call.error) for call in calls_of(client.run)] == [True, False]
        other.close()


def test_leaving_does_not_wait_for_a_model_and_the_stage_stays_to_be_done(
    workers: Session, server: FakeServer, tmp_path: Path
) -> None:
    server.script(SLOW)
    with paired(workers, server, tmp_path) as client:
        folder = client.run.folder
        client.answer(True)
        until(lambda: bool(draft(client)))
    client = PairSession(folder, "terminal")
    assert client.state.running
    server.script(Say(PLANS))
    with running(workers, folder):
        until(lambda: not client.state.running)
    assert client.state.bench.cards[0].by == "team"
    client.close()


def test_secrets_do_not_pass_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    heard: list[Wrote] = []
    drafts = Drafts(heard.append)
    drafts.begin(1)
    text = "The key is sk-0123456789abcdef, keep it."
    monkeypatch.setattr("maxkernel.modes.pair.drafts.PIECE_SECONDS", 0.0)
    for end in range(len(text)):
        drafts.hear(Words(1, "explainer", text[:end]))
    drafts.hear(Words(1, "explainer", text))
    drafts.hear(Words(1, "explainer", "", done=True))
    assert "".join(w.text for w in heard) == "The key is [redacted], keep it."
    assert [w.fresh for w in heard] == [True] + [False] * (len(heard) - 1) and len(heard) > 3


def test_one_answer_at_a_time_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxkernel.modes.pair.drafts.PIECE_SECONDS", 0.0)
    heard: list[Wrote] = []
    drafts = Drafts(heard.append)
    drafts.hear(Words(1, "planner", "nobody listens "))
    drafts.begin(7)
    drafts.hear(Words(2, "planner", "first "))
    drafts.hear(Words(3, "implementer", "beside it "))
    drafts.hear(Words(2, "planner", "corrected "))
    drafts.hear(Words(2, "planner", "", done=True))
    drafts.hear(Words(3, "implementer", "beside it now "))
    assert [(w.role, w.text, w.fresh) for w in heard] == [
        ("planner", "first ", True),
        ("planner", "corrected ", True),
        ("implementer", "beside it now ", True),
    ]


def test_a_draft_belongs_to_its_stage(tmp_path: Path) -> None:
    folder = new_run(tmp_path)
    engine, client = Script(folder), PairSession(folder, "terminal")
    proposal = client.answer(True).proposal
    assert proposal is not None
    engine.write(Began(proposal=proposal.id))
    engine.write(Wrote(proposal=proposal.id, role="planner", text="one ", fresh=True))
    engine.write(Wrote(proposal=proposal.id, role="planner", text="two"))
    engine.write(Wrote(proposal=999, role="planner", text="elsewhere"))
    assert draft(client) == "one two"
    engine.write(Began(proposal=proposal.id))
    assert draft(client) == ""
    engine.write(Ended(proposal=proposal.id, text="done", plans=(PLAN,)))
    assert draft(client) == "" and client.state.settled == client.state.revision
    client.close()
    engine.run.close()


def test_the_terminal_prints_whole_lines_once() -> None:
    shown = Draft()

    def at(text: str) -> Proposal:
        return Proposal(1, Ask(stage="answer"), "running", draft=text)

    assert shown.lines(at("It waits")) == ""
    assert shown.lines(at("It waits for HBM.\nThe second")) == "It waits for HBM."
    assert shown.lines(at("It waits for HBM.\nThe second line\n\nEnd")) == "The second line\n"
    assert shown.rest("It waits for HBM.\nThe second line\n\nEnd.") == "End."
    assert shown.lines(at("New.\n")) == "New."
    assert shown.rest("New.") == ""
    assert shown.lines(at("New.\n")) == "New."
    assert shown.lines(at("Another.\n")).startswith("(starts over)")
    assert shown.rest("Something else.") == "Something else."
    plan = Proposal(2, Ask(stage="plan"), "running", draft="[\n{\n")
    assert shown.lines(plan) == ""
