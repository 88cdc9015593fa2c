"""Ports: the accepted designs of an earlier run for another target enter a run as intents.

Sources, plans and constants come along; times do not, since those of two targets do not compare.
Every port is judged anew.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from maxkernel.engineers.rewrites import scale_vmem_limits
from maxkernel.errors import UsageError
from maxkernel.search.graph import PORT
from maxkernel.store import RunFile
from maxkernel.targets import Target, get_target
from maxkernel.types import Design, Evaluation, Intent, Plan, Task

FROM = "from"
"""Option in the header of a run: the folder of the run whose designs it starts with."""
PORTED = "ported"
"""Key of the step that keeps what was ported, and the mark of a ported plan among its options."""
MAX_PORTS = 4
"""Designs that are ported: the best of every strategy first, then the next best."""


class Ported(msgspec.Struct, frozen=True):
    """What a run was given of another one."""

    run: str
    target: str
    intents: tuple[int, ...]
    """Ids here, the best design there first."""


def portable(folder: Path, task: Task, target: Target) -> list[Intent]:
    """What a new run of `task` for `target` can take from the run in `folder`, the best first.

    Raises UsageError when that run is of another task, for the same target, or has no accepted
    design.
    """
    with RunFile.read(folder) as run:
        header = run.header
        if header.task.digest != task.digest:
            raise UsageError(
                f"run {header.run} is of another task: {header.task.name}, not {task.name} as it "
                "is now",
                "--from takes a run of the same task; `maxkernel runs` lists all",
            )
        if header.target == target.name:
            raise UsageError(
                f"run {header.run} is for {target.name} already",
                f"go on with it: `maxkernel resume {header.run}`; --from takes a run for another "
                "target",
            )
        best = _best(run)
        if not best:
            raise UsageError(
                f"run {header.run} has no accepted design to port to {target.name}",
                "--from takes a run in which the judge accepted a kernel",
            )
        return [_intent(n, *found, header.run, get_target(header.target), target)
                for n, found in enumerate(best, 1)]  # fmt: skip


def bring(run: RunFile, target: Target) -> None:
    """Stores the ports that a run's header asks for, before the run has other designs; once."""
    source = run.header.options.get(FROM)
    if source is None or run.recall(PORTED, Ported) is not None:
        return
    found = portable(Path(source), run.header.task, target)
    with RunFile.read(Path(source)) as there:
        header = there.header
    with run.batch():
        for intent in found:
            run.add_intent(intent)
        run.remember(PORTED, Ported(header.run, header.target, tuple(i.id for i in found)))


def ports(run: RunFile) -> tuple[Intent, ...]:
    """What a run was given of another one, the best there first."""
    known = run.recall(PORTED, Ported)
    stored = [run.intent(id) for id in known.intents] if known is not None else []
    return tuple(intent for intent in stored if intent is not None)


def _best(run: RunFile) -> list[tuple[Design, Evaluation]]:
    """Designs with their best accepted evaluations; those that were not confirmed are left out."""
    unconfirmed = {e.body.get("design") for e in run.events() if e.kind == "unconfirmed"}
    confirmed = {e.body.get("design") for e in run.events() if e.kind == "confirmed"}
    best: dict[int, Evaluation] = {}
    for id, evaluation in run.evaluations():
        known = _seconds(best[id]) if id in best else float("inf")
        if (
            evaluation.accepted
            and id not in unconfirmed - confirmed
            and _seconds(evaluation) < known
        ):
            best[id] = evaluation
    order = sorted(best, key=lambda id: (_seconds(best[id]), id))
    designs = {design.id: design for design in run.designs()}
    kinds: set[tuple[str, str]] = set()
    first: list[int] = []
    for id in order:
        plan = designs[id].plan
        if (plan.family, plan.strategy) not in kinds:
            kinds.add((plan.family, plan.strategy))
            first.append(id)
    chosen = [*first, *(id for id in order if id not in first)][:MAX_PORTS]
    return [(designs[id], best[id]) for id in order if id in chosen]


def _intent(
    id: int, design: Design, evaluation: Evaluation, run: str, before: Target, target: Target
) -> Intent:
    """A design of another run as an intent of this one; its limits of VMEM are those of here."""
    plan = Plan(
        design.plan.family,
        design.plan.strategy,
        f"Design {design.id} of {run}, for {before.name}. {design.plan.reason}",
        design.plan.options | {PORTED: before.name},
    )
    source = scale_vmem_limits(design.source, before.vmem_bytes, target.vmem_bytes)
    return Intent(
        id,
        plan,
        f"{PORT}: from {before.name}",
        source=source or design.source,
        tunables=evaluation.candidate.tunables,
    )


def _seconds(evaluation: Evaluation) -> float:
    return evaluation.time.seconds if evaluation.time is not None else float("inf")
