"""One budget for many searches, through stops, limits of time and kills."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from graph_world import TEAM, World, prepared

from maxkernel.api.many import ManyResult, resume_many, search_many
from maxkernel.api.many_record import FILE, ManyRecord, find_many, load, save
from maxkernel.api.runs import RunOptions
from maxkernel.cli.graph import search_many as command
from maxkernel.errors import TaskError, UsageError
from maxkernel.judge import Prepared
from maxkernel.store import RunFile
from maxkernel.store.claim import claim
from maxkernel.targets import get_target
from maxkernel.tasks import task_from_text
from maxkernel.types import Budget, Task

TASKS = [task_from_text(name, "maxkernel", "t.py", {"t.py": name}) for name in ("one", "two")]
BUDGET = Budget(candidates=20, patience=100)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@dataclass
class Office:
    """A session whose judge is the synthetic world, and what it compiled for which task."""

    root: Path
    world: World = field(default_factory=World)
    changes: int = 0
    dies_at: int = 0

    def session(self) -> object:
        settings = SimpleNamespace(
            runs_path=self.root / "runs", cache_path=self.root / "cache", workers=2
        )
        judge = self.world
        judge.versions = {"jax": "1"}  # type: ignore[attr-defined]
        judge.prepare = self.prepare  # type: ignore[attr-defined]
        return SimpleNamespace(
            judge=judge,
            settings=settings,
            target=get_target("v6e"),
            executor=SimpleNamespace(sandbox="none"),
        )

    def prepare(self, task: Task, *_: object) -> Prepared:
        if task.name == "broken":
            raise TaskError("broken: it has no reference")
        return msgspec.structs.replace(prepared(), task=task)

    def watch(self, folder: Path, record: ManyRecord) -> None:
        """Dies once the record has changed so often."""
        self.changes += 1
        if self.changes == self.dies_at:
            raise Killed


def judged(folder: Path) -> dict[str, list[str]]:
    """Candidates in the run of each task, by the record."""
    found: dict[str, list[str]] = {}
    for task, name in load(folder).runs.items():
        with RunFile.read(folder.parent / name) as run:
            found[task] = [e.candidate.digest for _, e in run.evaluations()]
    return found


def begin(office: Office, budget: Budget, tasks: list[Task] | None = None) -> list[ManyResult]:
    options = RunOptions(team=TEAM, use_memory=False)
    return search_many(office.session(), tasks or TASKS, budget, options, office.watch)  # type: ignore[arg-type]


def go_on(office: Office, name: str = "last", budget: Budget | None = None) -> list[ManyResult]:
    folder = find_many(office.root / "runs", name)
    options = RunOptions(team=TEAM, use_memory=False)
    return resume_many(office.session(), folder, budget, options, office.watch)  # type: ignore[arg-type]


def test_a_budget_is_shared_and_every_task_reported(tmp_path: Path) -> None:
    broken = task_from_text("broken", "maxkernel", "t.py", {"t.py": ""})
    results = begin(Office(tmp_path), BUDGET, [*TASKS, broken])
    assert sum(r.evaluations for r in results) <= BUDGET.candidates
    assert all(r.report is not None and r.evaluations >= 8 for r in results[:2])
    assert results[2].problem == "broken: it has no reference"


def test_a_search_that_dies_at_any_change_ends_like_one_that_does_not(tmp_path: Path) -> None:
    calm = Office(tmp_path / "calm")
    expected = [(r.task, r.evaluations, r.report and r.report.best) for r in begin(calm, BUDGET)]
    for dies_at in range(2, calm.changes, 3):
        office = Office(tmp_path / str(dies_at), dies_at=dies_at)
        with pytest.raises(Killed):
            begin(office, BUDGET)
        office.dies_at = 0
        found = [(r.task, r.evaluations, r.report and r.report.best) for r in go_on(office)]
        assert found == expected, f"died at change {dies_at}"
        assert len(office.world.compiled) == len(calm.world.compiled), "something was judged twice"


def test_more_budget_goes_on_and_keeps_what_was_judged(tmp_path: Path) -> None:
    office = Office(tmp_path)
    begin(office, msgspec.structs.replace(BUDGET, candidates=6))
    folder = find_many(tmp_path / "runs", "many-v6e")
    before = judged(folder)
    results = go_on(office, folder.name, BUDGET)
    after = judged(folder)
    assert all(after[task][: len(done)] == done for task, done in before.items())
    assert {r.task: r.evaluations for r in results} == {t: len(d) for t, d in after.items()}
    assert 6 < sum(map(len, after.values())) <= BUDGET.candidates


def test_a_limit_of_seconds_counts_over_all_sessions(tmp_path: Path) -> None:
    office = Office(tmp_path, World(delay=0.05))
    limited = msgspec.structs.replace(BUDGET, candidates=400, seconds=2.0)
    begin(office, limited)
    record = load(find_many(tmp_path / "runs", "last"))
    first = sum(s.spent for s in record.slices[-1:])
    assert 0 < first < 400 and 2.0 <= record.seconds < 60.0
    results = go_on(office)
    assert [r.problem for r in results] == ["the time was over before its turn"] * 2
    assert load(find_many(tmp_path / "runs", "last")).slices == record.slices
    more = msgspec.structs.replace(limited, seconds=record.seconds + 2.0)
    go_on(office, budget=more)
    assert len(load(find_many(tmp_path / "runs", "last")).slices) > len(record.slices)


def test_seconds_of_a_killed_session_count_up_to_its_last_sign(tmp_path: Path) -> None:
    office = Office(tmp_path, World(delay=0.01))
    begin(office, msgspec.structs.replace(BUDGET, candidates=4))
    folder = find_many(tmp_path / "runs", "last")
    record = load(folder)
    killed = msgspec.structs.replace(record.sessions[0], end=None)
    save(folder, msgspec.structs.replace(record, sessions=(killed,)))
    go_on(office)
    session = load(folder).sessions[0]
    assert session.end is not None and session.end > session.start


def test_what_is_no_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none yet"):
        find_many(tmp_path, "last")
    office = Office(tmp_path)
    begin(office, msgspec.structs.replace(BUDGET, candidates=2))
    folder = find_many(tmp_path / "runs", "last")
    (folder / FILE).write_text("{}")
    with pytest.raises(UsageError, match="not the file of a search"):
        load(folder)


def test_two_processes_do_not_drive_one_search(tmp_path: Path) -> None:
    office = Office(tmp_path)
    begin(office, msgspec.structs.replace(BUDGET, candidates=2))
    lock = claim(find_many(tmp_path / "runs", "last"))
    try:
        with pytest.raises(UsageError, match="another process"):
            go_on(office)
    finally:
        os.close(lock)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"folder": "tasks", "resume": "last"},
        {"resume": "last", "target": "v7x"},
        {"resume": "last", "seed": 1},
        {"resume": "last"},
        {"folder": "nowhere"},
    ],
)
def test_the_command_says_what_it_cannot_do(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        command(**words)


def test_the_command_says_what_budget_is_too_small(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("")
    with pytest.raises(UsageError, match="too few for 2 tasks"):
        command(str(tmp_path), budget_candidates=1)
    with pytest.raises(UsageError, match="more than 0"):
        command(str(tmp_path), budget_seconds=0.0)
