"""A session with the built-in team, the real judge and the real compiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pairing_helpers import tiny_task

from maxkernel.api import Models, Session, load_task, open_engine, open_session, start_pair
from maxkernel.config import Settings
from maxkernel.engineers.llm import LlmBudget, calls_of
from maxkernel.errors import UsageError
from maxkernel.modes.pair import Ask, PairSession, State, evaluation_of
from maxkernel.store import ending
from maxkernel.types import Budget

LIMIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairing")


@pytest.fixture(scope="module")
def workers(place: Path) -> Iterator[Session]:
    settings = Settings(runs_dir=str(place / "runs"), cache_dir=str(place / "cache"))
    with open_session("v6e", settings=settings) as session:
        yield session


@contextmanager
def engine(workers: Session, folder: Path) -> Iterator[None]:
    running = open_engine(workers, folder)
    thread = threading.Thread(target=running.serve)
    thread.start()
    try:
        yield
    finally:
        running.close()
        thread.join(LIMIT_SECONDS)
        running.release()


def settled(client: PairSession) -> State:
    """The state when no stage is at work."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        state = client.state
        if not state.running:
            return state
        time.sleep(0.05)
    raise AssertionError(f"still running: {client.state.proposal}")


def asked(client: PairSession, ask: Ask) -> State:
    client.ask(ask)
    return settled(client)


def test_from_a_task_to_an_accepted_kernel(workers: Session, place: Path) -> None:
    folder = start_pair(workers, load_task(tiny_task(place)), Budget(candidates=6))
    client = PairSession(folder, "terminal")
    with engine(workers, folder):
        stages: list[str] = []
        while (proposal := settled(client).proposal) is not None and len(stages) < 9:
            stages.append(proposal.ask.stage)
            client.answer(True)
        assert stages[:5] == ["plan", "implement", "judge", "tune", "profile"]
        state = client.state
        focus = state.bench.focus
        assert focus is not None and focus.judged == "accepted" and focus.tuned
        assert state.bench.cards[0].outcome is not None
        assert "takes" in state.bench.cards[0].outcome.bottleneck

        lines = asked(client, Ask(stage="explain", first=1, last=200)).lines
        assert "pl.BlockSpec: the part of an array" in lines[-1].text
        answer = asked(client, Ask(stage="answer", text="how do I double buffer?")).lines[-1].text
        assert "/help" in answer and "The guide says" in answer

        client.ask(Ask(stage="accept"))
        client.answer(True)
        state = settled(client)
        assert state.bench.accepted == focus, state.lines[-1].text
    assert (folder / "bundle" / "kernel.py").is_file()
    assert (folder / "bundle" / "report.md").is_file()
    assert len(client.run.evaluations()) <= 6
    kernel = (folder / "bundle" / "kernel.py").read_bytes()

    assert ending(client.run) is not None
    client.undo()
    with engine(workers, folder):
        until(lambda: not (folder / "bundle").exists())
        until(lambda: client.state.bundled is None)
        assert client.state.bench.accepted is None and ending(client.run) is None
        client.redo()
        until(lambda: client.state.bundled == focus)
    assert (folder / "bundle" / "kernel.py").read_bytes() == kernel
    assert client.state.bench.accepted == focus and ending(client.run) is not None
    client.close()


def until(true: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    end = time.monotonic() + LIMIT_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_persons_kernel_gets_no_favours(workers: Session, place: Path) -> None:
    folder = start_pair(workers, load_task(tiny_task(place)), Budget(candidates=6), "none")
    client = PairSession(folder, "browser")
    with engine(workers, folder):
        client.answer(True)
        good = settled(client).bench.focus
        assert good is not None and good.judged == "accepted"
        source = next(d.source for d in client.run.designs() if d.id == good.design)
        assert "EPS" in source
        client.edit_kernel(source.replace(") + EPS", ") + 1.0").replace("+ EPS", "+ 1.0"))
        state = settled(client)
        focus = state.bench.focus
        assert focus is not None and focus.design != good.design
        assert focus.judged == "refused"
        found = evaluation_of(client.run, focus)
        assert found is not None and found.failure is not None
        assert found.failure.kind == "mismatch"
        client.edit_kernel("def kernel(x, w:\n")
        focus = settled(client).bench.focus
        assert focus is not None
        found = evaluation_of(client.run, focus)
        assert found is not None and found.failure is not None
        assert (found.failure.kind, found.failure.line) == ("syntax", 1)
        while client.state.bench.focus != good:
            client.undo()
    client.close()


def test_auto_rounds_come_back_to_the_person(workers: Session, place: Path) -> None:
    folder = start_pair(workers, load_task(tiny_task(place)), Budget(candidates=4))
    client = PairSession(folder, "terminal")
    with engine(workers, folder):
        client.ask(Ask(stage="auto", count=2))
        client.answer(True)
        state = settled(client)
        assert state.bench.cards and state.bench.focus is not None
        assert "accepted" in state.lines[-1].text
        assert len(client.run.evaluations()) <= 4
        before = state.bench
        client.undo()
        assert client.state.bench.cards == ()
        assert client.redo().bench == before
    client.close()


MODEL = """
import sys
prompt = sys.stdin.read()
print("It waits for HBM." if "why is it not faster?" in prompt else "It normalises rows.")
"""


def test_a_model_answers_and_its_calls_are_kept(workers: Session, place: Path) -> None:
    script = place / "model.py"
    script.write_text(MODEL)
    limits = LlmBudget(max_tokens=100_000)
    models = Models({"explainer": (f"cli:{sys.executable} {script}",)}, limits)
    task = load_task(tiny_task(place))
    folder = start_pair(workers, task, Budget(candidates=4), "none", models)
    client = PairSession(folder, "terminal")
    with engine(workers, folder):
        client.answer(True)
        assert settled(client).bench.focus is not None
        assert calls_of(client.run) == []
        lines = asked(client, Ask(stage="answer", text="why is it not faster?")).lines
        assert lines[-1].text == "It waits for HBM."
        lines = asked(client, Ask(stage="explain")).lines
        assert lines[-1].text == "It normalises rows."
        assert [call.role for call in calls_of(client.run)] == ["explainer", "explainer"]
    client.close()


def test_a_team_that_cannot_be_asked_is_told(workers: Session, place: Path) -> None:
    task = load_task(tiny_task(place))
    with pytest.raises(UsageError, match="bad model"):
        start_pair(workers, task, Budget(), "all", Models({"default": ("nonsense",)}))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        models = Models({"default": ("anthropic:some-model",)})
        folder = start_pair(workers, task, Budget(), "all", models)
        client = PairSession(folder, "terminal")
        running = open_engine(workers, folder)
        running.serve()
        running.release()
    assert "ANTHROPIC_API_KEY" in running.problem
    assert client.state.lines[-1].kind == "problem"
    client.close()


def test_one_engine_at_a_time(workers: Session, place: Path) -> None:
    folder = start_pair(workers, load_task(tiny_task(place)), Budget())
    with engine(workers, folder), pytest.raises(UsageError, match="another process"):
        open_engine(workers, folder)


CHILD = """
import sys
from pathlib import Path
from maxkernel.api import open_engine, open_session
from maxkernel.config import Settings
with open_session("v6e", settings=Settings(cache_dir=sys.argv[2])) as session:
    open_engine(session, Path(sys.argv[1])).serve()
"""


def test_an_engine_killed_in_a_stage_is_replaced(workers: Session, place: Path) -> None:
    folder = start_pair(workers, load_task(tiny_task(place)), Budget(candidates=6), "none")
    client = PairSession(folder, "terminal")
    arguments = [sys.executable, "-c", CHILD, str(folder), str(place / "cache")]
    child = subprocess.Popen(arguments, start_new_session=True)
    try:
        client.answer(True)
        end = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < end:
            proposal = client.state.proposal
            if proposal and proposal.ask.stage == "tune" and proposal.status == "running":
                break
            time.sleep(0.02)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    spent = len(client.run.evaluations())
    assert client.state.running
    with engine(workers, folder):
        state = settled(client)
    focus = state.bench.focus
    assert focus is not None and focus.tuned and focus.profiled
    assert spent <= len(client.run.evaluations()) <= 6
    client.close()
