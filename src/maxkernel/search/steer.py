"""Steering: people's words on a search, written to its run file by one process and heard by the
one that drives it, now or when it is resumed."""

from __future__ import annotations

import msgspec

from maxkernel.errors import UsageError
from maxkernel.search.job import Steer
from maxkernel.store import RunFile
from maxkernel.types import Budget

EVENT = "steer"
BUDGET = "budget"


def say(run: RunFile, steer: Steer) -> None:
    """Leaves a word for the driver. Raises UsageError for a design that the run does not have."""
    if steer.node or steer.action != "hint":
        known = [i.id for i in run.intents()] + [d.id for d in run.designs()]
        if steer.node not in known:
            names = ", ".join(map(str, sorted(set(known)))) or "none yet"
            raise UsageError(f"{run.header.run} has no design {steer.node}; it has {names}")
    run.event(EVENT, **msgspec.to_builtins(steer))


class Ear:
    """Hears what was said since the last time; what a stored decision heard stays heard."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self._after = 0
        self._known = 0

    def heard(self, count: int) -> None:
        """A stored decision has heard the next `count` words already."""
        self._known += count

    def listen(self) -> tuple[tuple[Steer, ...], Budget | None]:
        """New words, and the budget that was given last among them."""
        steers: list[Steer] = []
        budget: Budget | None = None
        last = self._run.last_event()
        for event in self._run.events(self._after, (BUDGET, EVENT)):
            last = max(last, event.id)
            if event.kind == BUDGET:
                budget = msgspec.convert(event.body["budget"], Budget)
            elif event.kind == EVENT and self._known:
                self._known -= 1
            elif event.kind == EVENT:
                steers.append(msgspec.convert(event.body, Steer))
        self._after = last
        return tuple(steers), budget
