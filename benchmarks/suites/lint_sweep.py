"""Which programs that do not do the work pass each task's check, edition by edition.

    python -m benchmarks.suites.lint_sweep [--suite jaxbench] [--edition published] [TASK ...]

prints one line per task: the holes found on every one of the seeds, and whether they are what the
suite's data says. Exit status 1 when they are not. A few seconds a task.
"""

from __future__ import annotations

import argparse
import sys
import time

import msgspec

from maxkernel import suites
from maxkernel.config import load_settings
from maxkernel.executor import Executor, open_executor
from maxkernel.types.messages import FailureReply, LintReply, LintRequest

SEEDS = (1, 2)
"""A hole is one that is found on each: a shortcut near the tolerance is luck."""


def holes_of(
    executor: Executor, suite: suites.Suite, name: str, edition: suites.Edition
) -> tuple[str, ...]:
    """Shortcuts that pass on every seed, in the order they are tried."""
    task = suites.load(suite, name, edition)
    found: list[tuple[str, ...]] = []
    for seed in SEEDS:
        request = LintRequest(task, suites.tolerance(suite, name, edition), seed)
        reply = executor.submit(request).result()
        if isinstance(reply, FailureReply):
            return (f"(no verdict: {reply.failure.message})",)
        assert isinstance(reply, LintReply)
        found.append(tuple(hole.name for hole in reply.result.holes))
    return tuple(name for name in found[0] if all(name in other for other in found))


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="jaxbench", choices=("jaxbench", "models"))
    parser.add_argument("--edition", default="published")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("tasks", nargs="*")
    given = parser.parse_args()
    names = [suites.entry(given.suite, t).name for t in given.tasks] or suites.names(given.suite)
    edition = msgspec.convert(given.edition, suites.Edition)
    executor, wrong = open_executor(load_settings()), 0
    data: dict[str, tuple[str, ...]] = {}
    try:
        for name in names:
            started = time.monotonic()
            found = data[name] = holes_of(executor, given.suite, name, edition)
            known = suites.entry(given.suite, name).holes.get(edition, ())
            wrong += found != known
            verdict = "as listed" if found == known else f"LISTED: {', '.join(known) or 'none'}"
            seconds = time.monotonic() - started
            print(
                f"{name}: {', '.join(found) or 'no holes'} ({verdict}; {seconds:.0f} s)", flush=True
            )
    finally:
        executor.close()
    if given.json:
        print(msgspec.json.encode(data).decode())
    print(f"{len(data)} tasks, {sum(map(bool, data.values()))} with holes, {wrong} not as listed")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
