"""What a winner goes through once more."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from maxkernel.judge.numerics import numerics_failure, spot_failure
from maxkernel.types import Confirmation, Failure, Spot
from maxkernel.types.messages import CheckReply

CONFIRMATIONS = 3
"""Fresh seeds on which a winner is checked once more."""

SPOT_BLOCKS = 8
"""Random output blocks of a winner that are computed at full size; four times as many when the
full-size program is another one than the checked one."""

_TOO_MUCH = frozenset({"timeout", "memory", "environment"})
"""Failures of a spot check that say more about this machine than about the kernel."""


def confirmation(
    check: Callable[[int], CheckReply | Failure], spot: Callable[[int], Spot | Failure]
) -> Confirmation:
    """Checks until one fails; `check` takes the check's number, `spot` a number of blocks."""
    sofar = Confirmation(None, 0, 0)
    differences = tuple[str, ...]()
    for number in range(CONFIRMATIONS):
        reply = check(number)
        if isinstance(reply, Failure):
            return msgspec.structs.replace(sofar, failure=reply)
        failure = numerics_failure(reply.numerics)
        sofar = _with_check(sofar, reply, failure)
        if failure is not None:
            return sofar
        differences = reply.numerics.differences
    found = spot(spot_blocks(differences))
    if isinstance(found, Failure):
        return msgspec.structs.replace(sofar, failure=found)
    return msgspec.structs.replace(sofar, failure=spot_failure(found, differences), spot=found)


def excused(failure: Failure, seed: int) -> Spot | Failure:
    """A spot check that was skipped, where its failure says nothing of the kernel."""
    return Spot(skipped=failure.message, seed=seed) if failure.kind in _TOO_MUCH else failure


def spot_blocks(differences: tuple[str, ...]) -> int:
    """How many blocks to compute at full size."""
    return SPOT_BLOCKS * (4 if differences else 1)


def _with_check(sofar: Confirmation, reply: CheckReply, failure: Failure | None) -> Confirmation:
    numerics = reply.numerics
    return msgspec.structs.replace(
        sofar,
        failure=failure,
        seeds=sofar.seeds + (failure is None),
        hazard_runs=sofar.hazard_runs + reply.hazard_runs,
        drawn=(*sofar.drawn, numerics.seed),
        trials=(*sofar.trials, *numerics.trials),
    )
