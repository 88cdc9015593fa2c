"""Decisions over a run file: order, repetition, undo, what waits. No compiler is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pairing_helpers import PLAN, SOURCE, Script, new_run

from maxkernel.errors import UsageError
from maxkernel.modes.pair import Ask, Focus, PairSession, State, budget_of
from maxkernel.modes.pair.acts import Began, Ended, Heard
from maxkernel.store import RunFile
from maxkernel.types import Outcome, Plan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_run(tmp_path)


@pytest.fixture
def engine(folder: Path) -> Iterator[Script]:
    script = Script(folder)
    yield script
    script.run.close()


@pytest.fixture
def terminal(folder: Path) -> Iterator[PairSession]:
    session = PairSession(folder, "terminal")
    yield session
    session.close()


@pytest.fixture
def browser(folder: Path) -> Iterator[PairSession]:
    session = PairSession(folder, "browser")
    yield session
    session.close()


def waiting(state: State) -> str:
    return state.proposal.ask.stage if state.proposal and state.proposal.status == "open" else ""


def finish(session: PairSession, engine: Script, **fields: object) -> State:
    proposal = session.state.proposal
    assert proposal is not None and proposal.status == "approved"
    engine.write(Began(proposal=proposal.id))
    engine.write(Ended(proposal=proposal.id, text="done", **fields))  # type: ignore[arg-type]
    return session.state


def with_kernel(session: PairSession, engine: Script) -> State:
    """A session that has planned and written one kernel."""
    session.answer(True)
    finish(session, engine, plans=(PLAN,))
    session.answer(True)
    engine.design(1)
    outcome = Outcome(PLAN, 1, None, None, failure="not judged")
    return finish(session, engine, focus=Focus(1, card=1), outcomes={1: outcome})


def test_a_new_session_shows_planning_and_runs_nothing(terminal: PairSession) -> None:
    assert waiting(terminal.state) == "plan"
    assert not terminal.state.running


def test_each_stage_is_shown_and_follows_from_the_one_before(
    terminal: PairSession, engine: Script
) -> None:
    state = with_kernel(terminal, engine)
    assert waiting(state) == "judge"
    terminal.answer(True)
    state = finish(terminal, engine, focus=Focus(1, card=1, judged="refused"))
    assert waiting(state) == "debug"
    terminal.answer(True)
    state = finish(terminal, engine, focus=Focus(1, card=1, judged="accepted", seconds=1e-6))
    assert waiting(state) == "tune"
    terminal.answer(True)
    tuned = Focus(1, {"block": 8}, card=1, judged="accepted", tuned=True, seconds=1e-6)
    state = finish(terminal, engine, focus=tuned)
    assert waiting(state) == "profile"


def test_a_decision_taken_by_two_clients_is_taken_once(
    terminal: PairSession, browser: PairSession, engine: Script
) -> None:
    proposal = terminal.state.proposal
    assert proposal is not None
    terminal.answer(True, proposal=proposal.id)
    state = browser.answer(False, proposal=proposal.id)
    assert state.proposal is not None and state.proposal.status == "approved"
    assert sum(line.kind == "decision" for line in state.lines) == 1
    assert terminal.state == browser.state


def test_a_form_sent_twice_counts_once(browser: PairSession) -> None:
    browser.note("rows are long", key="form-1")
    state = browser.note("rows are long", key="form-1")
    assert len(state.bench.notes) == 1
    assert len(browser.note("rows are long", key="form-2").bench.notes) == 2


def test_undo_from_two_tabs_takes_one_decision_back(
    terminal: PairSession, browser: PairSession
) -> None:
    terminal.note("first")
    last = terminal.note("second").undo[-1].id
    terminal.undo(of=last)
    state = browser.undo(of=last)
    assert [note.text for note in state.bench.notes] == ["first"]
    state = browser.redo()
    assert [note.text for note in state.bench.notes] == ["first", "second"]


def test_a_new_decision_ends_redo(terminal: PairSession) -> None:
    terminal.note("first")
    terminal.undo()
    terminal.note("other")
    with pytest.raises(UsageError, match="nothing to redo"):
        terminal.redo()


def test_undo_reaches_back_over_stages_and_a_restart(
    folder: Path, terminal: PairSession, engine: Script
) -> None:
    before = with_kernel(terminal, engine)
    terminal.answer(True)
    finish(terminal, engine, focus=Focus(1, card=1, judged="accepted", seconds=1e-6))
    reopened = PairSession(folder, "terminal")
    state = reopened.undo()
    assert state.bench == before.bench
    assert waiting(state) == "judge"
    reopened.undo()
    state = reopened.undo()
    assert state.bench.cards == () and waiting(state) == "plan"
    assert [design.id for design in reopened.run.designs()] == [1]
    reopened.close()


def test_what_is_asked_depends_on_the_approval_setting(
    terminal: PairSession, engine: Script
) -> None:
    terminal.set_approve("plans")
    terminal.answer(True)
    state = finish(terminal, engine, plans=(PLAN,))
    assert waiting(state) == "implement"
    terminal.answer(True)
    engine.design(1)
    state = finish(terminal, engine, focus=Focus(1, card=1))
    assert state.proposal is not None and state.proposal.ask.stage == "judge"
    assert state.proposal.status == "approved"


def test_without_approval_a_plan_leads_to_a_profile_and_stops(
    terminal: PairSession, engine: Script
) -> None:
    terminal.set_approve("none")
    terminal.answer(True)
    finish(terminal, engine, plans=(PLAN, Plan("rowwise", "two passes", "")))
    engine.design(1)
    tried = {1: Outcome(PLAN, 1, None, None)}
    finish(terminal, engine, focus=Focus(1, card=1), outcomes=tried)
    finish(terminal, engine, focus=Focus(1, card=1, judged="accepted"))
    finish(terminal, engine, focus=Focus(1, card=1, judged="accepted", tuned=True))
    state = finish(
        terminal, engine, focus=Focus(1, card=1, judged="accepted", tuned=True, profiled=True)
    )
    assert state.proposal is None


def test_a_stage_that_fails_waits_for_the_person(terminal: PairSession, engine: Script) -> None:
    terminal.set_approve("none")
    terminal.answer(True)
    state = finish(terminal, engine, error="the planner has no further plan")
    assert state.proposal is None
    assert state.lines[-1].kind == "problem"


def test_a_refused_stage_runs_nothing(terminal: PairSession) -> None:
    state = terminal.answer(False, "not now")
    assert state.proposal is None
    assert "not now" in state.lines[-1].text
    with pytest.raises(UsageError, match="nothing waits"):
        terminal.answer(True)


def test_an_edited_plan_is_a_persons_and_can_be_undone(
    terminal: PairSession, engine: Script
) -> None:
    terminal.answer(True)
    finish(terminal, engine, plans=(PLAN,))
    mine = Plan("rowwise", "one pass, two rows at once", "mine")
    state = terminal.edit_plan(mine, card=1)
    assert state.bench.cards[0].plan == mine and state.bench.cards[0].by == "person"
    assert waiting(state) == "implement"
    assert terminal.undo().bench.cards[0].plan == PLAN
    assert len(terminal.edit_plan(mine).bench.cards) == 2
    with pytest.raises(UsageError, match="no plan 7"):
        terminal.edit_plan(mine, card=7)


def test_rejecting_the_kernel_turns_to_the_next_plan(terminal: PairSession, engine: Script) -> None:
    terminal.answer(True)
    finish(terminal, engine, plans=(PLAN, Plan("rowwise", "two passes", "")))
    terminal.answer(True)
    engine.design(1)
    tried = {1: Outcome(PLAN, 1, None, None)}
    finish(terminal, engine, focus=Focus(1, card=1), outcomes=tried)
    state = terminal.reject("too clever")
    assert state.bench.rejected == {1: "too clever"}
    assert state.proposal is not None and state.proposal.ask.card == 2


def test_branching_turns_to_an_older_design(terminal: PairSession, engine: Script) -> None:
    with_kernel(terminal, engine)
    engine.design(2, SOURCE + "# two\n", (1,))
    state = terminal.move(2)
    assert state.bench.focus == Focus(2, card=1)
    with pytest.raises(UsageError, match="no design 9"):
        terminal.move(9)


def test_while_a_stage_runs_only_notes_questions_to_nobody_and_stop_are_taken(
    terminal: PairSession, browser: PairSession, engine: Script
) -> None:
    with_kernel(terminal, engine)
    terminal.answer(True)
    proposal = terminal.state.proposal
    assert proposal is not None
    engine.write(Began(proposal=proposal.id))
    engine.write(Heard(proposal=proposal.id, text="compile", design=1))
    assert browser.state.proposal is not None
    assert browser.state.proposal.sign == "design 1: compile"
    for refused in (
        lambda: browser.ask(Ask(stage="judge")),
        lambda: browser.undo(),
        lambda: browser.move(1),
        lambda: browser.reject("no"),
        lambda: browser.edit_kernel(SOURCE),
    ):
        with pytest.raises(UsageError, match="busy"):
            refused()
    assert browser.note("looks slow").bench.notes
    assert browser.stop().stopping
    ended = Ended(proposal=proposal.id, error="stopped")
    engine.write(ended)
    assert not terminal.state.running


def test_an_engine_that_was_killed_leaves_its_stage_to_be_done(
    folder: Path, terminal: PairSession, engine: Script
) -> None:
    terminal.answer(True)
    proposal = terminal.state.proposal
    assert proposal is not None
    engine.write(Began(proposal=proposal.id))
    engine.run.close()
    assert terminal.state.running
    second = Script(folder)
    second.write(Began(proposal=proposal.id))
    second.write(Ended(proposal=proposal.id, text="done", plans=(PLAN,)))
    state = terminal.state
    assert len(state.bench.cards) == 1
    assert [line.kind for line in state.lines].count("stage") == 1
    second.run.close()


def test_a_search_that_drives_the_run_is_not_handed_stages(
    folder: Path, terminal: PairSession
) -> None:
    search = RunFile.resume(folder)
    with pytest.raises(UsageError, match="a search drives this run"):
        terminal.answer(True)
    with pytest.raises(UsageError, match="a search drives this run"):
        terminal.ask(Ask(stage="plan"))
    assert terminal.note("rows are long").bench.notes
    search.close()
    assert terminal.answer(True).running


@pytest.mark.parametrize("stage", ["judge", "tune", "profile", "debug", "explain", "accept"])
def test_stages_that_need_a_kernel_say_so(terminal: PairSession, stage: str) -> None:
    with pytest.raises(UsageError, match="no kernel yet"):
        terminal.ask(Ask(stage=stage))  # type: ignore[arg-type]


def test_the_budget_is_a_wall_and_can_be_moved(terminal: PairSession) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        terminal.set_budget(0)
    terminal.set_budget(3, 60.0)
    budget = budget_of(terminal.run)
    assert (budget.candidates, budget.seconds) == (3, 60.0)


def test_large_texts_and_kernels_are_refused(terminal: PairSession) -> None:
    with pytest.raises(UsageError, match="limit"):
        terminal.note("x" * 30_000)
    with pytest.raises(UsageError, match="larger than"):
        terminal.edit_kernel("#" * (1 << 20) + "\n\n")
    with pytest.raises(UsageError, match="empty"):
        terminal.edit_kernel("  \n")


def test_reading_and_deciding_costs_the_run_no_time(
    terminal: PairSession, browser: PairSession
) -> None:
    terminal.note("one")
    browser.note("two")
    assert terminal.run.spent_seconds() < 1.0
