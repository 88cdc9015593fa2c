"""Reads facts about designs from a run file: the same for every client and the engine."""

from __future__ import annotations

import msgspec

from maxkernel.errors import UsageError
from maxkernel.judge import Prepared
from maxkernel.modes.pair.acts import Focus
from maxkernel.modes.pair.state import Bench
from maxkernel.store import RunFile
from maxkernel.types import Budget, Candidate, Design, Evaluation


def find_design(run: RunFile, number: int) -> Design:
    """A design by id; raises UsageError with the known ones otherwise."""
    designs = run.designs()
    for design in designs:
        if design.id == number:
            return design
    known = ", ".join(str(d.id) for d in designs) or "none yet"
    raise UsageError(f"there is no design {number}; there are: {known}")


def evaluation_of(run: RunFile, focus: Focus) -> Evaluation | None:
    """What the judge found about a kernel; None when it was not judged."""
    source = find_design(run, focus.design).source
    return run.evaluation(Candidate(source, focus.tunables).digest)


def best_of(run: RunFile, design: int) -> Evaluation | None:
    """The fastest accepted evaluation of a design, else its last one."""
    found = [e for d, e in run.evaluations() if d == design]
    accepted = [e for e in found if e.accepted and e.time]
    if accepted:
        return min(accepted, key=lambda e: e.time.seconds if e.time else 0.0)
    return found[-1] if found else None


def speedup(prepared: Prepared | None, evaluation: Evaluation) -> float | None:
    """Baseline time over this one; None when refused or not of the baseline's provenance."""
    if prepared is None or evaluation.time is None or not evaluation.accepted:
        return None
    if prepared.misfit or evaluation.time.provenance != prepared.baseline.provenance:
        return None
    return prepared.baseline.seconds / evaluation.time.seconds


def judged(focus: Focus, evaluation: Evaluation, prepared: Prepared | None) -> Focus:
    """The focus with what the judge found."""
    time = evaluation.time if evaluation.accepted else None
    return msgspec.structs.replace(
        focus,
        tunables=evaluation.candidate.tunables,
        judged="accepted" if evaluation.accepted else "refused",
        seconds=time.seconds if time else None,
        speedup=speedup(prepared, evaluation),
    )


def focus_on(run: RunFile, prepared: Prepared | None, bench: Bench, design: Design) -> Focus:
    """A design at its best constants, with all that is known about it."""
    card = next((c.number for c in bench.cards if c.plan == design.plan), None)
    focus = Focus(design.id, card=card)
    found = best_of(run, design.id)
    if found is None:
        return focus
    focus = judged(focus, found, prepared)
    return msgspec.structs.replace(focus, tuned=bool(focus.tunables))


def budget_of(run: RunFile) -> Budget:
    """The budget in force: the last one given."""
    given = [event.body["budget"] for event in run.events() if event.kind == "budget"]
    return msgspec.convert(given[-1], Budget) if given else run.header.budget
