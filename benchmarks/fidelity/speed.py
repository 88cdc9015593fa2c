"""What simulating costs beside compiling, for the programs that XLA makes of a suite's references.

    python -m benchmarks.fidelity.speed [TASK ...] [--suite jaxbench|models] [--target v6e]

A task is named by its name or its beginning; without one, all of the suite. Every program is
compiled as the judge does it, drawn data of three seeds included, and all grid steps are executed.
Times are wall seconds of one worker on this machine; the digest is one of the whole simulated
result, so that two runs of this command tell whether a change to the simulator changed any of it.
Exits with 1 where simulating takes longer than `LIMIT` or than compiling.
"""

from __future__ import annotations

import argparse
import hashlib
import sys

import msgspec

from maxkernel import suites
from maxkernel.api import open_session
from maxkernel.api.session import Session
from maxkernel.judge.requests import TIMING_SEEDS
from maxkernel.types import Task
from maxkernel.types.messages import CompileReply, CompileRequest, TraceReply, TraceRequest

LIMIT = 2.0
"""Seconds that simulating a program of JaxBench may take."""


def compiled(session: Session, task: Task) -> CompileReply:
    """The reference of a task, compiled and simulated. Raises RuntimeError with the reason."""
    target = session.judge.target.name
    request = TraceRequest(task, target, session.settings.check_limit_mb << 20)
    traced = session.executor.submit(request).result()
    if not isinstance(traced, TraceReply):
        raise RuntimeError(_reason(traced))
    program = traced.info.reference_tpu
    reply = session.executor.submit(
        CompileRequest(program, target, task=task, seeds=TIMING_SEEDS)
    ).result()
    if not isinstance(reply, CompileReply):
        raise RuntimeError(_reason(reply))
    return reply


def _reason(reply: object) -> str:
    failure = getattr(reply, "failure", None)
    return str(getattr(failure, "message", reply))[:200]


def digest(reply: CompileReply) -> str:
    """Of the simulated result, or of why there is none."""
    return hashlib.sha256(msgspec.json.encode(reply.program or reply.schedule_problem)).hexdigest()


def main() -> None:
    """Prints a row per task, and how many are too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--suite", choices=("jaxbench", "models"), default="jaxbench")
    parser.add_argument("--target", default="v6e")
    options = parser.parse_args()
    names = [
        name
        for name in suites.names(options.suite)
        if not options.tasks or any(name.startswith(start) for start in options.tasks)
    ]
    slow: list[str] = []
    failed: list[str] = []
    print("| task | compile | draw data | simulate | digest |\n| --- | --- | --- | --- | --- |")
    with open_session(options.target, use_cache=False) as session:
        for name in names:
            try:
                reply = compiled(session, suites.load(options.suite, name))
            except RuntimeError as error:
                failed.append(name)
                print(f"| {name} | {error} | - | - | - |", flush=True)
                continue
            took = reply.simulate_seconds
            if took > min(LIMIT, reply.compile_seconds):
                slow.append(name)
            print(
                f"| {name} | {reply.compile_seconds:.1f} s | {reply.data_seconds:.1f} s | "
                f"{took:.2f} s | {digest(reply)[:12]} |",
                flush=True,
            )
    within = len(names) - len(slow) - len(failed)
    print(f"\n{within} of {len(names)} within the limit; slower: {', '.join(slow) or 'none'}; "
          f"failed: {', '.join(failed) or 'none'}")  # fmt: skip
    sys.exit(bool(slow or failed))


if __name__ == "__main__":
    main()
