"""Searches the tunables of one source."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from maxkernel.targets import Target
from maxkernel.tuner.rank import estimate, fits
from maxkernel.tuner.space import Assignment, assignments, neighbours
from maxkernel.types import Artifact, Candidate, Evaluation, Failure, TaskInfo, TunableSpace

CAPTURES_PER_EVALUATION = 3
"""Capturing is several times cheaper than compiling, so more assignments are captured."""

QUIET_BATCHES = 2
"""Batches of neighbours without a gain after which the search ends early."""

CaptureMany = Callable[[list[Candidate]], list[Artifact | Failure]]
EvaluateMany = Callable[[list[Candidate]], list[Evaluation]]


class Tuned(msgspec.Struct, frozen=True):
    """What a tuning found; `best` is None when every assignment was refused."""

    best: Evaluation | None
    evaluations: tuple[Evaluation, ...]
    captured: int
    pruned: int
    """Assignments dropped before compiling: too large for VMEM, refused, or the same program."""


def tune(
    source: str,
    space: TunableSpace,
    info: TaskInfo,
    target: Target,
    budget: int,
    capture: CaptureMany,
    evaluate: EvaluateMany,
    known: tuple[Evaluation, ...] = (),
) -> Tuned:
    """The best of at most `budget` new evaluations of `source` and those already `known`.

    Half of the budget goes to the assignments that the analytic model likes best, the rest to
    neighbours of the best one so far, for the model knows nothing of registers and latency.
    """
    seen = {_key(e.candidate.tunables, space) for e in known}
    ranked, captured, pruned = _rank(source, space, info, target, budget, capture, known)
    done = list(known)
    first = ranked[: max(1, (budget + 1) // 2)] if budget else []
    done += evaluate(first)
    seen |= {_key(c.tunables, space) for c in first}
    left = budget - len(first)
    quiet = 0
    while left > 0 and quiet < QUIET_BATCHES:
        best = _best(done)
        batch = _near(source, space, best, seen) if best is not None else []
        batch = batch or [c for c in ranked if _key(c.tunables, space) not in seen]
        batch = batch[:left]
        if not batch:
            break
        done += evaluate(batch)
        seen |= {_key(c.tunables, space) for c in batch}
        left -= len(batch)
        quiet = 0 if _best(done) is not best else quiet + 1
    return Tuned(_best(done), tuple(done[len(known) :]), captured, pruned)


def _rank(
    source: str,
    space: TunableSpace,
    info: TaskInfo,
    target: Target,
    budget: int,
    capture: CaptureMany,
    known: tuple[Evaluation, ...],
) -> tuple[list[Candidate], int, int]:
    """Candidates worth compiling, most promising first; how many were captured and dropped."""
    wanted = CAPTURES_PER_EVALUATION * budget
    candidates = [Candidate(source, a) for a in assignments(space)][: wanted + len(known)]
    digests = {e.artifact for e in known}
    scored: list[tuple[float, int, Candidate]] = []
    for place, (candidate, found) in enumerate(zip(candidates, capture(candidates), strict=True)):
        if isinstance(found, Failure) or found.digest in digests or not fits(found.facts, target):
            continue
        digests.add(found.digest)
        scored.append((estimate(found.facts, info, target), place, candidate))
    ranked = [candidate for _, _, candidate in sorted(scored, key=lambda item: item[:2])]
    return ranked, len(candidates), len(candidates) - len(ranked)


def _near(source: str, space: TunableSpace, best: Evaluation, seen: set[str]) -> list[Candidate]:
    at = _complete(best.candidate.tunables, space)
    return [Candidate(source, a) for a in neighbours(space, at) if _key(a, space) not in seen]


def _best(evaluations: list[Evaluation]) -> Evaluation | None:
    accepted = [e for e in evaluations if e.accepted and e.time is not None]
    return min(accepted, key=lambda e: e.time.seconds if e.time else 0.0, default=None)


def _complete(assignment: Assignment, space: TunableSpace) -> Assignment:
    return {name: assignment.get(name, choices[0]) for name, choices in space.items()}


def _key(assignment: Assignment, space: TunableSpace) -> str:
    return repr(sorted(_complete(assignment, space).items()))
