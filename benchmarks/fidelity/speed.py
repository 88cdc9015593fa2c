"""What simulating costs beside compiling, for the programs that XLA makes of a suite's references.

    python -m benchmarks.fidelity.speed [TASK ...] [--suite jaxbench|models] [--target v6e]

A task is named by its name or its beginning; without one, all of the suite. Every program is
compiled as the judge does it, drawn data of three seeds included, and all grid steps are executed.
Times are wall seconds of one worker on this machine; the digest is one of the whole simulated
result, so that two runs of this command tell whether a change to the simulator changed any of it.

Rows are kept in `maxkernel-runs/speed-<suite>-<target>.jsonl`, a line each, as soon as they are
made. The same command goes on where it was stopped; a row is made anew where the worker or the
clock changed or `--rerun` asks for it, and a failure is tried again. The whole table is printed at
the end. Exits with 1 where a program failed, or simulating took longer than `LIMIT` or than
compiling.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from maxkernel import suites
from maxkernel.api import open_session
from maxkernel.api.session import Session
from maxkernel.bench.settings import digest_of
from maxkernel.judge.requests import compile_request
from maxkernel.suites import Suite
from maxkernel.types.messages import CompileReply, TraceReply, TraceRequest

LIMIT = 2.0
"""Seconds that simulating a program of JaxBench may take."""
EDITION = "hardened"


class Row(msgspec.Struct, frozen=True):
    """What one program cost, in wall seconds; `failure` in words where it could not be made."""

    task: str
    sources: str
    """Names the worker and the clock that made the row."""
    compiler: str = ""
    compile: float = 0.0
    draw: float = 0.0
    simulate: float = 0.0
    digest: str = ""
    failure: str = ""

    @property
    def slow(self) -> bool:
        return not self.failure and self.simulate > LIMIT

    @property
    def dearer(self) -> bool:
        return not self.failure and self.simulate > self.compile

    def line(self) -> str:
        """The row in Markdown."""
        if self.failure:
            return f"| {self.task} | {self.failure.replace('|', '/')} | - | - | - |"
        return (
            f"| {self.task} | {self.compile:.1f} s | {self.draw:.1f} s | {self.simulate:.2f} s "
            f"| {self.digest} |"
        )


@functools.cache
def sources() -> str:
    """Names today's worker and clock."""
    return digest_of(lambda name: name.parts[0] in ("schedule", "worker"))


class Book:
    """The rows made so far, in a file: the last one of a task counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_bytes().splitlines() if path.exists() else []
        self.rows: dict[str, Row] = {}
        for line in lines:
            try:
                row = msgspec.json.decode(line, type=Row)
            except msgspec.DecodeError:
                continue  # a line that a kill cut short
            self.rows[row.task] = row

    def has(self, task: str) -> bool:
        """Whether the task's row is whole and of today's sources."""
        row = self.rows.get(task)
        return row is not None and row.sources == sources() and not row.failure

    def add(self, row: Row) -> None:
        self.rows[row.task] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(b"\n" + msgspec.json.encode(row))


def measured(session: Session, suite: Suite, name: str) -> Row:
    """Compiles and simulates the reference of a task."""
    task, target = suites.load(suite, name), session.judge.target
    request = TraceRequest(task, target.name, session.settings.check_limit_mb << 20)
    traced = session.executor.submit(request).result()
    if not isinstance(traced, TraceReply):
        return Row(name, sources(), failure=_reason(traced))
    limit = suites.entry(suite, name).compile_seconds.get(EDITION)
    reply = session.executor.submit(
        compile_request(task, traced.info.reference_tpu, target, limit)
    ).result()
    if not isinstance(reply, CompileReply):
        return Row(name, sources(), failure=_reason(reply))
    return Row(
        name,
        sources(),
        reply.compiler,
        reply.compile_seconds,
        reply.data_seconds,
        reply.simulate_seconds,
        digest(reply)[:12],
        reply.schedule_problem,
    )


def _reason(reply: object) -> str:
    failure = getattr(reply, "failure", None)
    return " ".join(str(getattr(failure, "message", reply)).split())[:200]


def digest(reply: CompileReply) -> str:
    """Of the simulated result, or of why there is none."""
    return hashlib.sha256(msgspec.json.encode(reply.program or reply.schedule_problem)).hexdigest()


def closing(rows: Iterable[Row]) -> str:
    """One line: programs, how many are slow, the most, and what failed."""
    rows = list(rows)
    done = [row for row in rows if not row.failure]
    slow = sorted((row for row in rows if row.slow), key=lambda row: -row.simulate)
    most = max(done, key=lambda row: row.simulate, default=None)
    dearer, failed = [r.task for r in rows if r.dearer], [r.task for r in rows if r.failure]
    return (
        f"{len(done)} programs simulated; above {LIMIT:g} s: {len(slow)}"
        + (f" ({', '.join(row.task for row in slow)})" if slow else "")
        + (f"; most {most.simulate:.2f} s ({most.task})" if most else "")
        + f"; longer than compiling: {', '.join(dearer) or 'none'}"
        + f"; failed: {', '.join(failed) or 'none'}"
    )


def main() -> None:
    """Makes the rows that are missing, then prints all that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help="names or beginnings; none: all of the suite")
    parser.add_argument("--suite", choices=("jaxbench", "models"), default="jaxbench")
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--rerun", action="store_true", help="make kept rows anew")
    options = parser.parse_args()
    names = [
        name
        for name in suites.names(options.suite)
        if not options.tasks or any(name.startswith(start) for start in options.tasks)
    ]
    book = Book(Path("maxkernel-runs") / f"speed-{options.suite}-{options.target}.jsonl")
    missing = [name for name in names if options.rerun or not book.has(name)]
    if missing:
        with open_session(options.target, use_cache=False) as session:
            for number, name in enumerate(missing, 1):
                book.add(measured(session, options.suite, name))
                print(f"{number} of {len(missing)}: {book.rows[name].line()}",
                      file=sys.stderr, flush=True)  # fmt: skip
    rows = [book.rows[name] for name in names]
    print("| task | compile | draw data | simulate | digest |\n| --- | --- | --- | --- | --- |")
    print("\n".join(row.line() for row in rows))
    print(f"\n{closing(rows)}")
    sys.exit(any(row.failure or row.slow or row.dearer for row in rows))


if __name__ == "__main__":
    main()
