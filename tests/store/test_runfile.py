"""The run file: memoised steps, append-only events, one driver, survival of kill -9."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from maxkernel.errors import UsageError
from maxkernel.store import RunFile, RunHeader, find_run, list_runs
from maxkernel.tasks import task_from_text
from maxkernel.types import Budget, Candidate, Design, Evaluation, Failure, Plan, Time

TASK = task_from_text("t", "maxkernel", "t.py", {"t.py": ""})


def header(name: str = "r") -> RunHeader:
    return RunHeader(name, TASK, "v6e", "auto", Budget(), {"jax": "0"}, time.time())


def evaluation(number: int, seconds: float | None) -> Evaluation:
    return Evaluation(
        candidate=Candidate("source", {"block": number}),
        task=TASK.digest,
        target="v6e",
        sandbox="none",
        time=Time(seconds, "simulated") if seconds else None,
        failure=None if seconds else Failure("compile", "vmem", "too large"),
    )


def test_a_step_runs_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> list[Plan]:
        calls.append(1)
        return [Plan("rowwise", "one pass", "because")]

    with RunFile.create(tmp_path / "r", header()) as run:
        first = run.step("plans/0", list[Plan], make)
    with RunFile.resume(tmp_path / "r") as run:
        assert run.step("plans/0", list[Plan], make) == first
        assert [e.body["resumed"] for e in run.events() if e.kind == "opened"] == [False, True]
    assert calls == [1]


def test_a_step_that_raises_is_not_stored(tmp_path: Path) -> None:
    with RunFile.create(tmp_path / "r", header()) as run:
        with pytest.raises(ZeroDivisionError):
            run.step("s", int, lambda: 1 // 0)
        assert run.step("s", int, lambda: 7) == 7


def test_a_candidate_counts_once(tmp_path: Path) -> None:
    with RunFile.create(tmp_path / "r", header()) as run:
        run.add_design(Design(1, Plan("f", "s", "r"), "source", "plan"))
        run.add_evaluation(1, evaluation(1, 1e-3))
        run.add_evaluation(1, evaluation(1, 2e-3))
        run.add_evaluation(1, evaluation(2, None))
        found = run.evaluations()
    assert [(d, e.time.seconds if e.time else None) for d, e in found] == [(1, 1e-3), (1, None)]


def test_events_are_append_only(tmp_path: Path) -> None:
    with RunFile.create(tmp_path / "r", header()) as run:
        run.event("note", text="hello")
    db = sqlite3.connect(tmp_path / "r" / "run.sqlite")
    for statement in ("DELETE FROM events", "UPDATE events SET kind = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)
    db.close()


def test_one_driver_many_readers(tmp_path: Path) -> None:
    with RunFile.create(tmp_path / "r", header()) as run:
        with pytest.raises(UsageError, match="another process"):
            RunFile.resume(tmp_path / "r")
        with RunFile.read(tmp_path / "r") as reader:
            run.event("note", text="seen")
            assert [e.kind for e in reader.events()] == ["opened", "note"]
        assert list_runs(tmp_path)[0].state == "running"
    assert list_runs(tmp_path)[0].state == "stopped"


def test_finding_runs(tmp_path: Path) -> None:
    for name in ("alpha-1", "alpha-2", "beta-1"):
        RunFile.create(tmp_path / name, header(name)).close()
    assert find_run(tmp_path, "beta").name == "beta-1"
    assert find_run(tmp_path, str(tmp_path / "alpha-1")).name == "alpha-1"
    with pytest.raises(UsageError, match="several"):
        find_run(tmp_path, "alpha")
    with pytest.raises(UsageError, match="no run"):
        find_run(tmp_path, "gamma")


def test_foreign_and_newer_files(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "run.sqlite").write_bytes(b"not a database, not at all" * 100)
    with pytest.raises(UsageError, match="not a run file"):
        RunFile.read(tmp_path / "x")
    RunFile.create(tmp_path / "r", header()).close()
    db = sqlite3.connect(tmp_path / "r" / "run.sqlite")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(UsageError, match="newer maxkernel"):
        RunFile.read(tmp_path / "r")


WRITER = """
import sys, pathlib
from tests_header import header
from maxkernel.store import RunFile
folder = pathlib.Path(sys.argv[1])
run = RunFile.resume(folder) if folder.exists() else RunFile.create(folder, header())
n = 0
while True:
    run.step(f"s/{n}", int, lambda: n)
    n += 1
    if n % 50 == 0:
        print(n, flush=True)
"""


def test_kill_nine_loses_nothing_finished(tmp_path: Path) -> None:
    """A writer is killed mid-stride, five times; every step it had reported is there."""
    (tmp_path / "tests_header.py").write_text(Path(__file__).read_text().split("def evaluation")[0])
    folder = tmp_path / "r"
    reported = 0
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )
        assert writer.stdout is not None
        reported = max(reported, int(writer.stdout.readline()))
        time.sleep(0.02)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    with RunFile.resume(folder) as run:
        for n in range(reported):
            assert run.step(f"s/{n}", int, lambda: -1) == n
        assert sum(e.kind == "opened" for e in run.events()) == 6


def test_infinities_and_bytes_come_back_as_they_went(tmp_path: Path) -> None:
    """A step's literals may be infinite (the identity of a maximum), and programs are bytes."""
    with RunFile.create(tmp_path / "r", header()) as run:
        assert run.step("s", list[float], lambda: [float("-inf"), 1.5]) == [float("-inf"), 1.5]
    with RunFile.resume(tmp_path / "r") as run:
        assert run.step("s", list[float], list) == [float("-inf"), 1.5]
        assert run.step("b", bytes, lambda: b"\x00\xff") == b"\x00\xff"
        assert run.recall("b", bytes) == b"\x00\xff"


def test_bodies_of_older_files_are_json(tmp_path: Path) -> None:
    RunFile.create(tmp_path / "r", header()).close()
    db = sqlite3.connect(tmp_path / "r" / "run.sqlite")
    db.execute("INSERT INTO steps VALUES ('old', 1, ?)", (b'{"candidates": 7}',))
    db.commit()
    db.close()
    with RunFile.read(tmp_path / "r") as run:
        assert run.recall("old", Budget) == Budget(candidates=7)
