"""A word to stop, written to a run file by one process and heard by the one that drives it."""

from __future__ import annotations

from collections.abc import Callable

from maxkernel.store import RunFile

EVENT = "stop"


def ask_to_stop(run: RunFile) -> None:
    """Whoever drives the run ends after its evaluations in flight; `resume` goes on."""
    run.event(EVENT)


def stop_ear(run: RunFile) -> Callable[[], bool]:
    """True from the first word to stop that is written from now on."""
    after = run.last_event()
    stopped = False

    def heard() -> bool:
        nonlocal after, stopped
        last = run.last_event()
        stopped = stopped or any(True for _ in run.events(after, (EVENT,)))
        after = last
        return stopped

    return heard
