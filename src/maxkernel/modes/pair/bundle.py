"""Keeps a run's bundle in step with what the person accepts, undone and done again included."""

from __future__ import annotations

from collections.abc import Callable

from maxkernel.judge import Judge, Prepared
from maxkernel.modes.pair.acts import Bundled, Focus
from maxkernel.modes.pair.desk import Publish
from maxkernel.modes.pair.facts import evaluation_of, find_design
from maxkernel.modes.pair.state import State
from maxkernel.store import RunFile

Withdraw = Callable[[RunFile], None]
"""Takes a run's bundle back."""


def out_of_step(state: State) -> bool:
    """True when the bundle holds another kernel than the accepted one."""
    return not state.running and state.bundled != state.bench.accepted


def bring_in_step(
    run: RunFile,
    judge: Judge,
    prepared: Prepared,
    wanted: Focus | None,
    publish: Publish,
    withdraw: Withdraw,
) -> Bundled:
    """Writes the bundle of `wanted`, which was accepted before, or takes the bundle back."""
    evaluation = evaluation_of(run, wanted) if wanted is not None else None
    if wanted is None or evaluation is None:
        withdraw(run)
        return Bundled(focus=None)
    design = find_design(run, wanted.design)
    publish(run, judge.verdict(prepared, evaluation), design.id, design.plan.reason)
    return Bundled(focus=wanted)
